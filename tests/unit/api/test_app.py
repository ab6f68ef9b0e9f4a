"""The application: paths, methods, keys, limits and health; every error is a problem document."""

import pytest
from fake_decoder import calculator_model, wrong_at
from fastapi.testclient import TestClient
from serving import JSON, ask, client_of, problem

from api.schemas import PROBLEM
from calcgpt.inference.results import Confidence
from calcgpt_lab.evaluation.calibration import confidence_record
from datagen.operations import ADDITION


def test_a_missing_content_type_is_named(client: TestClient) -> None:
    response = client.post("/v1/calculate", content=b'{"expression": "1+1"}')
    document = problem(response, 422, "invalid-request")
    assert "Content-Type" in document["detail"]
    assert document["request_id"] == response.headers["x-request-id"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"expression": "1+1"', "invalid-json"),
        (b"expression=1+1", "invalid-json"),
        (b'{"expression": "\xff\xfe"}', "invalid-json"),
        (b"\x80\x81\x82", "invalid-json"),
        ('{"expression": "1+1"}'.encode("utf-16"), "invalid-json"),
        ('{"expression": "1+1"}'.encode("utf-32-le"), "invalid-json"),
        (b'{"expression": "1+1", "expression": "1+2"}', "invalid-json"),
        (b'{"expression": "1+1", "min_confidence": NaN}', "invalid-json"),
        (b"[" * 50_000, "invalid-json"),
        (b'{"expression": ' + b"1" * 5_000 + b"}", "invalid-json"),
        (b'{"expression": "1+\\ud800"}', None),
        (b'{"expression": "1+1", "\\ud800": 1}', "invalid-request"),
    ],
    ids=lambda value: value if value is None or isinstance(value, str) else repr(value[-20:]),
)
def test_a_hostile_body_is_a_client_error(
    client: TestClient, body: bytes, kind: str | None
) -> None:
    for path in ("/v1/calculate", "/v1/calculate/stream", "/v1/calculate/batch"):
        response = client.post(path, content=body, headers=JSON)
        problem(response, 400 if kind == "invalid-json" else 422, kind)
    assert ask(client, "1+1").json()["result"] == "2"


def test_a_path_with_a_slash_at_its_end_is_not_redirected_to_what_host_says(
    client: TestClient,
) -> None:
    response = client.get("/docs/", headers={"host": "evil.example"}, follow_redirects=False)
    problem(response, 404)


def test_an_object_of_very_many_members_is_refused(client: TestClient) -> None:
    members = {f"m{n}": 1 for n in range(1_001)}
    refused = problem(client.post("/v1/calculate", json=members), 400, "invalid-json")
    assert "more than 1000 members" in refused["detail"]


def test_the_models_are_listed_and_chosen_by_name(client: TestClient) -> None:
    listed = client.get("/v1/models").json()
    assert listed["object"] == "list"
    assert [model["id"] for model in listed["data"]] == ["exact", "direct", "wrong"]
    assert [model["default"] for model in listed["data"]] == [True, False, False]
    assert listed["data"][0]["domain"] == {
        "operations": ["+", "-", "*", "/"],
        "decimal_places": 30,
        "default_places": 8,
        "max_characters": 10_100,
        "works_in_steps": True,
    }
    direct = listed["data"][1]["domain"]
    assert (direct["decimal_places"], direct["default_places"]) == (2, 2)
    assert direct["works_in_steps"] is False
    assert listed["data"][0]["parameters"] > 1000
    assert listed["data"][0]["calibration"] is None
    for model in listed["data"]:
        assert client.get(f"/v1/models/{model['id']}").json() == model
    problem(client.get("/v1/models/nosuch"), 404, "unknown-model")
    assert ask(client, "100000+1", model="direct").json()["result"] == "100001"
    document = problem(ask(client, "1+1", model="nosuch"), 404, "unknown-model")
    assert "exact, direct, wrong" in document["detail"]


@pytest.mark.parametrize(
    "path", ["/nothing", "/v1", "/v1/calculate/more", "/%2e%2e/etc/passwd", "/static/../app.py"]
)
def test_an_unknown_path_is_404(client: TestClient, path: str) -> None:
    problem(client.get(path), 404)


def test_an_address_has_at_most_a_hundred_parameters(client: TestClient) -> None:
    for path in ("/v1/calculate", "/v1/models", "/healthz", "/"):
        refused = problem(client.get(f"{path}?{'a=&' * 100}"), 422, "invalid-request")
        assert refused["detail"] == "the address has more than 100 parameters"
    assert client.get(f"/healthz?{'a=&' * 99}a=").status_code == 200


def test_titles_are_those_of_rfc_9110_in_every_version_of_python(client: TestClient) -> None:
    assert problem(ask(client, "12+x"), 422)["title"] == PROBLEM["title"]
    assert problem(ask(client, "1" * 70_000), 413)["title"] == "Content Too Large"


def test_head_is_get_without_the_body(client: TestClient) -> None:
    for path in ("/healthz", "/", "/v1/models", "/nothing"):
        with_body, without = client.get(path), client.head(path)
        assert with_body.content
        assert (without.status_code, without.content) == (with_body.status_code, b"")
        assert without.headers["content-length"] == with_body.headers["content-length"]
    assert client.head("/v1/calculate/batch").status_code == 405
    assert 'method="HEAD",route="/healthz",status="200"' in client.get("/metrics").text


def test_metrics_count_requests_and_answers() -> None:
    models = (calculator_model(), calculator_model(wrong_at(ADDITION), name="wrong"))
    with client_of(*models) as client:
        ask(client, "(1+2)*3")
        ask(client, "1+2", model="wrong")
        ask(client, "1+")
        text = client.get("/metrics").text
    for line in (
        'calcgpt_answers_total{model="fake",verified="true"} 1.0',
        'calcgpt_answers_total{model="wrong",verified="false"} 1.0',
        'calcgpt_tokens_total{model="fake"} 22.0',
        'calcgpt_requests_total{method="POST",route="/v1/calculate",status="200"} 2.0',
        'calcgpt_requests_total{method="POST",route="/v1/calculate",status="422"} 1.0',
        "calcgpt_requests_in_flight 0.0",
    ):
        assert line in text.splitlines()


def test_a_confidence_says_what_it_was_measured_on() -> None:
    measured = confidence_record(
        [Confidence(answer=0.9, weakest_step=0.9, whole=whole) for whole in (0.4, 0.6, 0.8, 1.0)],
        [True, False, True, True],
    )
    model = calculator_model()
    model.checkpoint.metrics["test"] = {
        "n": 4,
        "file": "test.txt",
        "file_sha256": "ab",
        "confidence": measured,
    }
    with client_of(model) as client:
        assert client.get("/v1/models").json()["data"][0]["calibration"] == {
            "n": 4,
            "file": "test.txt",
            "file_sha256": "ab",
            "expected_calibration_error": pytest.approx(0.35),
            "no_error_above": 0.6,
            "kept": 0.5,
        }
    scores = {"n": 4, "task": "twice.py", "task_sha256": "cd", "confidence": measured}
    model.checkpoint.metrics["test"] = scores
    with client_of(model) as client:
        calibration = client.get("/v1/models").json()["data"][0]["calibration"]
        assert (calibration["file"], calibration["file_sha256"]) == ("twice.py", "cd")
