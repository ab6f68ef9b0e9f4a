"""The files of deploy/, as far as they can be tested without a container engine."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import yaml
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from api.app import create_app
from api.http import ProblemError
from api.server import _options as server_options
from api.settings import PREFIX, Settings, load_settings
from api.telemetry import Metrics

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
VARIABLES = {f"{PREFIX}{name}".upper() for name in [*Settings.model_fields, "cache"]}


def read_yaml(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text("utf-8"))


def instructions() -> list[tuple[str, str]]:
    """Returns the instructions of the Dockerfile as (word, rest), with continued lines joined."""
    lines = (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", " ").splitlines()
    words = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    return [(word, rest) for word, rest in words]


def argument(word: str) -> str:
    """Returns the rest of the only instruction with this word."""
    (value,) = [rest for other, rest in instructions() if other == word]
    return value


def environment_of_the_image() -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in argument("ENV").split())


def has_series(expression: str, metrics: str) -> bool:
    """Whether all series that a PromQL expression selects are among the metrics, in text."""
    samples = [s for f in text_string_to_metric_families(metrics) for s in f.samples]
    selectors = re.findall(r"(calcgpt_\w+)(?:\{([^}]*)\})?", expression)
    return bool(selectors) and all(
        any(
            sample.name == name
            and all(
                re.fullmatch(value, sample.labels.get(label, ""))
                for label, value in re.findall(r'(\w+)=~?"([^"]*)"', labels)
            )
            for sample in samples
        )
        for name, labels in selectors
    )


def test_the_variables_of_image_and_compose_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    composed = read_yaml("compose.yaml")["services"]["calcgpt"]["environment"]
    variables = {**environment_of_the_image(), **composed}
    assert {name for name in variables if name.startswith(PREFIX)} <= VARIABLES
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = load_settings({})
    assert (settings.host, settings.workers) == ("0.0.0.0", int(composed["CALCGPT_WORKERS"]))


def test_the_refusals_of_nginx_are_those_of_the_service() -> None:
    text = (DEPLOY / "nginx.conf").read_text("utf-8")
    refusals = re.findall(r"return (\d+) '(\{.*\})';", text)
    assert {int(status) for status, _ in refusals} == {413, 429, 503}
    for status, written in refusals:
        document = json.loads(written)
        title = ProblemError(int(status), document["detail"]).document()["title"]
        assert (document["status"], document["title"]) == (int(status), title)


def test_nginx_closes_an_idle_connection_before_the_service_does() -> None:
    """It would answer with 502 a request that comes while the service closes its connection."""
    text = (DEPLOY / "nginx.conf").read_text("utf-8")
    [seconds] = re.findall(r"keepalive 64;\n +keepalive_timeout (\d+)s;", text)
    config = uvicorn.Config(create_app, **server_options(Settings()))
    assert int(seconds) < config.timeout_keep_alive


def test_prometheus_asks_the_service_for_its_metrics() -> None:
    services = read_yaml("compose.yaml")["services"]
    (scraped,) = read_yaml("prometheus.yml")["scrape_configs"]
    (target,) = scraped["static_configs"][0]["targets"]
    host, port = target.split(":")
    assert port == services[host]["environment"]["CALCGPT_HEALTH_PORT"]
    app = create_app(Settings(), lambda: iter(()))
    with TestClient(app) as client:
        assert "calcgpt_requests_in_flight" in client.get(scraped["metrics_path"]).text

    mounted = {volume.split(":")[1] for volume in services["prometheus"]["volumes"]}
    assert {
        f"/etc/prometheus/{file}" for file in read_yaml("prometheus.yml")["rule_files"]
    } < mounted


def test_alerts_are_about_metrics_that_there_are() -> None:
    metrics = Metrics()
    metrics.requests.labels("/v1/calculate", "POST", "500").inc()
    metrics.answers.labels("calculator", "false").inc()
    rendered = metrics.render()[0].decode()
    expressions = [
        rule["expr"] for group in read_yaml("alerts.yml")["groups"] for rule in group["rules"]
    ]
    (job,) = re.findall(r'job="(\w+)"', expressions.pop(0))
    assert job == read_yaml("prometheus.yml")["scrape_configs"][0]["job_name"]
    assert expressions
    for expression in expressions:
        assert has_series(expression, rendered), expression
    assert not has_series('rate(calcgpt_sheds_total{reason="none"}[5m])', rendered)


def test_the_variables_of_the_documentation_exist() -> None:
    named = set(re.findall(rf"{PREFIX}[A-Z_]+", (ROOT / "docs" / "DEPLOY.md").read_text("utf-8")))
    assert named
    assert named <= VARIABLES


LOCKS = ("requirements.lock", "build.lock")


def locked(lock: str) -> dict[str, list[str]]:
    """The packages of a file in deploy/, `name==version`, and the hashes of each."""
    text = (DEPLOY / lock).read_text("utf-8").replace("\\\n", " ")
    lines = [line.partition(" --hash=") for line in text.splitlines()]
    return {pin.partition(";")[0].strip(): hashes.split() for pin, _, hashes in lines}


def test_the_image_fetches_nothing_without_a_hash() -> None:
    calls = [
        call
        for word, rest in instructions()
        if word == "RUN"
        for call in re.findall(r"pip (?:install|wheel)[^&]*", rest)
    ]
    assert len(calls) == 4
    for call in calls:
        assert "--no-index" in call or "--require-hashes" in call, call
        named = re.findall(r"--requirement (\S+)", call)
        assert {*named} <= {*LOCKS}
        assert "wheel" not in call.split() or "--no-build-isolation" in call  # else it fetches
    base = argument("ARG").removeprefix("BASE=")
    images = [service["image"] for service in read_yaml("compose.yaml")["services"].values()]
    for image in [base, *images]:
        assert image == "calcgpt" or re.search("@sha256:[0-9a-f]{64}$", image), image
    sources = {rest.split()[0] for word, rest in instructions() if word == "FROM"}
    assert sources == {"${BASE}"}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_has_the_tested_versions_and_a_hash_of_each(lock: str) -> None:
    pins = locked(lock)
    assert pins
    assert all(hashes for hashes in pins.values())
    tested = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    )
    versions = {re.sub(r"[-_.]+", "-", name).lower(): v for name, v in tested.items()}
    chosen = dict(pin.split("==") for pin in pins)
    assert {name: versions.get(name, version) for name, version in chosen.items()} == chosen
