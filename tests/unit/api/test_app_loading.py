"""The service while models load, if they cannot be loaded, and if they fail."""

import threading
from collections.abc import Iterator

import pytest
from fake_decoder import calculator_model, right
from fastapi.testclient import TestClient
from serving import ask, client_of, events_of, problem
from waiting import PATIENCE, wait_for

from api.app import create_app
from api.service import LoadedModel
from api.settings import Settings


def test_until_the_model_is_loaded_it_is_503_and_the_process_is_healthy() -> None:
    may_load = threading.Event()
    ready: list[str] = []

    def load() -> Iterator[LoadedModel]:
        assert may_load.wait(PATIENCE)
        yield calculator_model()

    app = create_app(Settings(), load, on_ready=lambda model: ready.append(model.name))
    with TestClient(app) as client:
        for response in (client.get("/readyz"), ask(client, "1+1"), ask(client, "1+1", model="x")):
            assert "loading" in problem(response, 503, "loading")["detail"]
            assert int(response.headers["retry-after"]) >= 1
        assert client.get("/healthz").json() == {"status": "ok", "model": None}
        assert client.get("/v1/models").json()["data"] == []
        assert ready == []
        may_load.set()
        wait_for(lambda: client.get("/readyz").status_code == 200)
        assert ask(client, "1+1").json()["result"] == "2"
    assert ready == ["fake"]


def test_a_model_warms_up_while_it_answers() -> None:
    model, answered = calculator_model(), threading.Event()

    def warm_up() -> Iterator[None]:
        while not answered.is_set():
            yield
        ended.set()

    ended = threading.Event()
    model.decoder.warm_up = warm_up
    with client_of(model) as client:
        assert ask(client, "1+1").json()["result"] == "2"
        answered.set()
        assert ended.wait(PATIENCE)


def test_a_model_that_does_not_load_is_reported_and_never_ready() -> None:
    failures: list[Exception] = []

    def load() -> Iterator[LoadedModel]:
        raise OSError("the disk is gone")
        yield

    with TestClient(create_app(Settings(), load, on_failure=failures.append)) as client:
        wait_for(lambda: bool(failures))
        problem(client.get("/readyz"), 503)
        problem(ask(client, "1+1"), 503)
        assert client.get("/healthz").status_code == 200
    (failure,) = failures
    assert str(failure) == "the disk is gone"


def test_an_internal_error_is_500_without_details(caplog: pytest.LogCaptureFixture) -> None:
    def broken(prompt: str) -> str:
        if "*" in prompt:
            raise RuntimeError("a secret of the machine room")
        return right(prompt)

    with client_of(calculator_model(broken)) as client:
        response = ask(client, "2*3")
        problem(response, 500)
        streamed = client.post("/v1/calculate/stream", json={"expression": "2*3"})
        assert events_of(streamed.text)[-1][1]["status"] == 500
        assert ask(client, "2+3").json()["result"] == "5"  # the turn has ended
    for text in (response.text, streamed.text):
        assert "secret" not in text
        assert "RuntimeError" not in text
    assert any(record.exc_info for record in caplog.records)  # the log has it


def test_models_other_than_the_default_may_fail_to_load() -> None:
    """What is loaded goes on answering, and what is not is not waited for."""
    failures: list[Exception] = []

    def load() -> Iterator[LoadedModel]:
        yield calculator_model()
        raise OSError("the disk is gone")

    with TestClient(create_app(Settings(), load, on_failure=failures.append)) as client:
        wait_for(lambda: ask(client, "1+1", model="other").status_code == 404)
        assert ask(client, "1+1").json()["result"] == "2"
    assert failures == []
