"""What the service answers, and that whatever is wrong comes back as a problem document."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from api.app import create_app
from calcgpt.calculator import Calculation, Calculator, parse_expression
from calcgpt.checkpoint import Checkpoint
from calcgpt.confidence import Confidence
from datagen.arithmetic import answer
from datagen.notation import answer_text, number_text, render_answer, render_prompt

JSON = {"content-type": "application/json"}


class Exact:
    """Stands for a calculator whose model is always right."""

    checkpoint = SimpleNamespace(name="exact")

    def calculate(self, expression: str) -> Calculation:
        problem = parse_expression(expression)
        value = answer(problem)
        return Calculation(
            expression=f"{number_text(problem.a)}{problem.op}{number_text(problem.b)}",
            result=answer_text(value),
            exact=answer_text(value),
            verified=True,
            prompt=render_prompt(problem),
            output=f"{render_answer(value)}$",
            confidence=Confidence(answer=0.9, weakest_step=1.0, whole=0.9),
            model=self.checkpoint.name,
        )


class Broken(Exact):
    """Stands for a calculator with a defect."""

    def calculate(self, expression: str) -> Calculation:
        raise RuntimeError("a secret of the machine room")


def exact() -> Calculator:
    return cast(Calculator, Exact())


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


@contextmanager
def serving(load: Callable[[], Calculator]) -> Iterator[TestClient]:
    """A client of the service, once the model is loaded."""
    with TestClient(create_app(load), raise_server_exceptions=False) as client:
        wait_for(lambda: client.get("/readyz").status_code == 200)
        yield client


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with serving(exact) as client:
        yield client


def problem(response: Response, status: int) -> dict[str, Any]:
    """The problem document that a response must be."""
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert document["status"] == status
    assert document["title"]
    assert document["detail"]
    assert document.keys() <= {"type", "title", "status", "detail", "position"}
    assert "Traceback" not in response.text
    return document


def ask(client: TestClient, expression: object) -> Response:
    return client.post("/v1/calculate", json={"expression": expression})


def test_an_answer_comes_with_its_evidence(client: TestClient) -> None:
    response = ask(client, " 12.5 × 3")
    assert response.status_code == 200
    assert response.json() == {
        "expression": "12.5*3",
        "result": "37.5",
        "exact": "37.5",
        "verified": True,
        "prompt": "$(00000012.5*0000000003)=",
        "output": "5.73000000$",
        "confidence": {"answer": 0.9, "weakest_step": 1.0, "whole": 0.9},
        "model": "exact",
    }


def test_a_real_model_answers_with_what_it_wrote(tiny: Checkpoint) -> None:
    calculator = Calculator(tiny)
    with serving(lambda: calculator) as client:
        answered = ask(client, "782+21").json()
        ready = client.get("/readyz").json()
    assert ready == {"status": "ok", "model": "tiny"}
    assert answered["model"] == "tiny"
    assert answered["exact"] == "803"
    assert answered["output"] == calculator.calculate("782+21").output
    assert answered["verified"] == (answered["result"] == "803")
    assert {"result", "prompt", "expression"} <= answered.keys()


@pytest.mark.parametrize(
    ("expression", "position", "reason"),
    [
        ("12.5*", 5, "a number is expected"),
        ("", 0, "a number is expected"),
        ("1,5+2", 1, "comma"),
        ("1.234+1", 4, "two decimal places"),
        ("1+2+3", 3, "one operation"),
        ("1" * 1_000_000, 100, "longer than 100 characters"),
        ("1+\x00", 2, "a number is expected"),
        ("<script>", 0, "a number is expected"),
    ],
)
def test_what_is_no_expression_is_422_with_the_place(
    client: TestClient, expression: str, position: int, reason: str
) -> None:
    document = problem(ask(client, expression), 422)
    assert document["position"] == position
    assert reason in document["detail"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"expression": 5}', "expression"),
        (b'{"expression": null}', "expression"),
        (b'{"expression": ["1+1"]}', "expression"),
        (b"{}", "expression"),
        (b'{"expression": "1+1", "precision": 3}', "precision"),
        (b"[]", "body"),
        (b'"1+1"', "body"),
        (b"null", "body"),
        (b"", "body"),
        (b'{"expression": "1+1"', "JSON"),
        (b"expression=1+1", "JSON"),
    ],
)
def test_a_body_of_another_form_is_422_by_field(
    client: TestClient, body: bytes, field: str
) -> None:
    response = client.post("/v1/calculate", content=body, headers=JSON)
    assert field in problem(response, 422)["detail"]


@pytest.mark.parametrize(
    "body",
    [
        b'{"expression": "\xff\xfe"}',
        b"\x80\x81\x82",
        b"[" * 100_000,
        b'{"expression": ' + b"1" * 5_000 + b"}",
        b'{"expression": "1+\\ud800"}',
        b'{"expression": "1+1", "\\ud800": 1}',
    ],
    ids=["utf-8", "binary", "deep", "long-number", "surrogate", "surrogate-field"],
)
def test_a_hostile_body_is_the_clients_fault(client: TestClient, body: bytes) -> None:
    response = client.post("/v1/calculate", content=body, headers=JSON)
    assert response.status_code in (400, 422)
    problem(response, response.status_code)


def test_a_bad_request_does_not_disturb_the_next(client: TestClient) -> None:
    problem(ask(client, "1+"), 422)
    assert ask(client, "1+1").json()["result"] == "2"


@pytest.mark.parametrize("path", ["/nothing", "/v1", "/v1/calculate/more", "/%2e%2e/etc/passwd"])
def test_an_unknown_path_is_404(client: TestClient, path: str) -> None:
    problem(client.get(path), 404)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("GET", "/v1/calculate", "POST"), ("POST", "/healthz", "GET"), ("DELETE", "/readyz", "GET")],
)
def test_a_wrong_method_is_405_and_says_which_is_right(
    client: TestClient, method: str, path: str, allowed: str
) -> None:
    response = client.request(method, path)
    problem(response, 405)
    assert response.headers["allow"] == allowed


def test_health_and_readiness(client: TestClient) -> None:
    assert client.get("/healthz").status_code == 200
    assert client.get("/healthz").json()["status"] == "ok"
    assert client.get("/readyz").json() == {"status": "ok", "model": "exact"}


def test_until_the_model_is_loaded_it_is_503_and_the_process_is_healthy() -> None:
    may_load = threading.Event()
    named: list[str] = []

    def load() -> Calculator:
        assert may_load.wait(20)
        return exact()

    with TestClient(create_app(load, on_ready=named.append)) as client:
        for response in (client.get("/readyz"), ask(client, "1+1")):
            assert "loading" in problem(response, 503)["detail"]
            assert int(response.headers["retry-after"]) >= 1
        assert client.get("/healthz").status_code == 200
        assert named == []
        may_load.set()
        wait_for(lambda: client.get("/readyz").status_code == 200)
        assert ask(client, "1+1").json()["result"] == "2"
    assert named == ["exact"]


def test_a_model_that_does_not_load_is_reported_and_never_ready() -> None:
    failures: list[Exception] = []

    def load() -> Calculator:
        raise OSError("the disk is gone")

    with TestClient(create_app(load, on_failure=failures.append)) as client:
        wait_for(lambda: bool(failures))
        problem(client.get("/readyz"), 503)
        problem(ask(client, "1+1"), 503)
        assert client.get("/healthz").status_code == 200
    (failure,) = failures
    assert str(failure) == "the disk is gone"


def test_a_defect_is_500_without_its_insides(caplog: pytest.LogCaptureFixture) -> None:
    with serving(lambda: cast(Calculator, Broken())) as client:
        response = ask(client, "1+1")
        problem(response, 500)
        assert client.get("/healthz").status_code == 200
    assert "secret" not in response.text
    assert "RuntimeError" not in response.text
    assert any(record.exc_info for record in caplog.records)  # the log has it


def test_the_schema_describes_request_answer_and_problems(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    responses = schema["paths"]["/v1/calculate"]["post"]["responses"]
    assert {"200", "422", "503"} <= responses.keys()
    assert "application/problem+json" in responses["422"]["content"]
    answered = ask(client, "1+1").json()
    assert answered.keys() == schema["components"]["schemas"]["CalculateResponse"][
        "properties"
    ].keys()  # fmt: skip


def test_the_root_leads_to_the_documentation(client: TestClient) -> None:
    response = client.get("/", follow_redirects=False)
    assert response.is_redirect
    assert response.headers["location"] == "/docs"
