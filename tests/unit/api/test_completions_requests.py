"""/v1/completions: accepted and refused requests, and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from completions import ask, requests, streamed, texts
from fake_decoder import long_model, text_model
from fastapi.testclient import TestClient
from httpx2 import Response
from hypothesis import given, settings
from hypothesis import strategies as st
from serving import JSON, client_of, problem, wait_for

from api.groups import Job
from api.schemas.completions import CompletionRequest
from api.service import load_model
from calcgpt.checkpoint import Checkpoint
from calcgpt.data.tokenizer import text_tokenizer
from calcgpt.inference.results import EXAMPLE_PROMPT as PROMPT


@pytest.fixture(scope="module")
def client(tiny: Checkpoint) -> Iterator[TestClient]:
    with client_of(load_model(tiny, "torch")) as client:
        yield client


def test_null_is_the_default(client: TestClient) -> None:
    names = client.get("/openapi.json").json()["components"]["schemas"]["CompletionRequest"]
    nulls = dict.fromkeys(names["properties"], None)
    body = {**nulls, "prompt": PROMPT, "seed": 1}
    assert texts(client, **body) == texts(client, prompt=PROMPT, seed=1)
    problem(ask(client, **nulls), 422, "invalid-request")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "body.prompt: "),
        ({"prompt": ""}, "body.prompt: "),
        ({"prompt": []}, "body.prompt: "),
        ({"prompt": [[]]}, "body.prompt: "),
        ({"prompt": ["1", [1]]}, "body.prompt: "),
        ({"prompt": [1, "1"]}, "body.prompt: "),
        ({"prompt": [-1]}, "body.prompt: "),
        ({"prompt": [True]}, "body.prompt: "),
        ({"prompt": "(1+x)"}, "prompt 0: character 'x' at position 3"),
        ({"prompt": ["1", "1\n"]}, r"prompt 1: character '\n' at position 1"),
        ({"prompt": [3, 21]}, "prompt 0: token 21 at position 1: the last token is 20"),
        ({"prompt": "1" * 65}, "65 tokens; the model reads at most 64"),
        ({"max_tokens": -1}, "body.max_tokens: "),
        ({"max_tokens": "1"}, "body.max_tokens: "),
        ({"temperature": 2.1}, "body.temperature: "),
        ({"top_p": 1.1}, "body.top_p: "),
        ({"top_k": 0}, "body.top_k: "),
        ({"seed": 1.5}, "body.seed: "),
        ({"n": 0}, "body.n: "),
        ({"logprobs": 6}, "body.logprobs: "),
        ({"logprobs": True}, "body.logprobs: "),
        ({"stop": ""}, "body.stop: "),
        ({"stop": ["1", ""]}, "body.stop: "),
        ({"stop": ["1"] * 5}, "body.stop: "),
        ({"stop": "1" * 129}, "body.stop: "),
        ({"stop": ["1", "1" * 129], "stream": True}, "body.stop: "),
        ({"n": 101}, "body.n: "),
        ({"stream_options": {"more": True}}, "stream_options.more"),
        ({"best_of": 2}, "body.best_of: "),
        ({"presence_penalty": 0.1}, "body.presence_penalty: "),
        ({"frequency_penalty": -0.1}, "body.frequency_penalty: "),
        ({"logit_bias": {"1": 1}}, "body.logit_bias: "),
        ({"suffix": "1"}, "body.suffix: "),
        ({"messages": []}, "body.messages: "),
    ],
)
def test_unsupported_options_are_refused(
    client: TestClient, body: dict[str, Any], says: str
) -> None:
    content = json.dumps({**({"prompt": "1"} if body else {}), **body})
    response = client.post("/v1/completions", content=content, headers=JSON)
    assert says in problem(response, 422, "invalid-request")["detail"]


def test_options_without_effect_are_accepted(client: TestClient) -> None:
    ignored = {"user": "me", "best_of": 1, "presence_penalty": 0, "frequency_penalty": 0.0}
    ignored |= {"logit_bias": {}, "suffix": "", "stream_options": {"include_obfuscation": False}}
    greedy = {"prompt": PROMPT, "temperature": 0}
    assert texts(client, **greedy, **ignored) == texts(client, **greedy)


def test_the_number_of_choices_is_limited(client: TestClient) -> None:
    detail = problem(ask(client, prompt=["1"] * 51, n=2), 422, "too-many-items")["detail"]
    assert detail == "102 choices; the limit is 100"


def test_every_choice_counts_as_an_operation() -> None:
    model = text_model("letters", text_tokenizer("abc"))
    model.decoder.gate.clear()
    with client_of(model, max_pending=3, max_items=3) as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, client, prompt=["a"], n=2)
        try:
            wait_for(lambda: "calcgpt_requests_in_flight 2.0" in client.get("/metrics").text)
            full = ask(client, prompt=["a", "b"], stream=True)
            assert "retry-after" in full.headers
            problem(full, 503, "full")
            assert 'calcgpt_sheds_total{reason="full"} 1.0' in client.get("/metrics").text
        finally:
            model.decoder.gate.set()
        assert first.result().status_code == 200
        assert ask(client, prompt=["a", "b", "c"], stream=True).status_code == 200
        wait_for(lambda: "calcgpt_requests_in_flight 0.0" in client.get("/metrics").text)


def test_a_hundred_tokens_of_a_prompt_or_of_its_continuation_count_as_an_operation() -> None:
    with client_of(long_model()) as client:
        scored = {"prompt": "0" * 4_000, "echo": True, "logprobs": 5, "max_tokens": 0}
        refused = problem(ask(client, **scored, n=100), 422, "too-many-items")
        assert refused["detail"] == "4,000 operations; the limit is 1,024"
        refused = problem(ask(client, **scored | {"max_tokens": 10}, n=100), 422, "too-many-items")
        assert refused["detail"] == "4,100 operations; the limit is 1,024"
        assert ask(client, **scored).status_code == 200


def error_in(response: Response) -> dict[str, Any]:
    """Returns the error that ended a stream after its start."""
    assert response.status_code == 200
    last = response.text.removesuffix("\n\n").split("\n\n")[-1]
    error: dict[str, Any] = json.loads(last.removeprefix("data: "))["error"]
    assert error["message"] == error["detail"]
    return error


def test_the_deadline_ends_a_completion() -> None:
    model = text_model("letters", text_tokenizer("abc"))
    model.decoder.gate.clear()
    with client_of(model, deadline=0.05) as client:
        try:
            problem(ask(client, prompt="a"), 504, "deadline")
            error = error_in(ask(client, prompt="a", stream=True))
            assert (error["status"], error["type"]) == (504, "urn:calcgpt:problem:deadline")
            problem(ask(client, prompt="a", echo=True, logprobs=1), 504, "deadline")
            assert 'calcgpt_sheds_total{reason="deadline"} 3.0' in client.get("/metrics").text
        finally:
            model.decoder.gate.set()
        wait_for(lambda: "calcgpt_requests_in_flight 0.0" in client.get("/metrics").text)


def test_an_internal_error_reveals_no_details() -> None:
    model = text_model("letters", text_tokenizer("abc"))
    model.decoder.fails_at = 3
    with client_of(model) as client:
        for how in ({}, {"prompt": "abc", "echo": True, "logprobs": 1}):
            problem(ask(client, **{"prompt": "a", **how}), 500)
        response = ask(client, prompt="a", stream=True)
        assert error_in(response)["status"] == 500
        assert "secret" not in response.text
        assert texts(client, prompt="a", max_tokens=1) == ["a"]  # the model's thread lives on


def test_a_number_that_no_float_holds_ends_nothing(client: TestClient) -> None:
    greedy = {"prompt": PROMPT, "temperature": 0}
    assert texts(client, **greedy, max_tokens=10**400) == texts(client, **greedy, max_tokens=64)


def broken(error: BaseException) -> property:
    """A property that raises this error."""

    def fail(job: Job) -> None:
        raise error

    return property(fail)


def test_the_models_thread_survives_any_error() -> None:
    with client_of(text_model("letters", text_tokenizer("abc"))) as client:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Job, "kind", broken(OverflowError("a secret of the machine room")))
            assert "secret" not in problem(ask(client, prompt="a"), 500)["detail"]
        assert texts(client, prompt="a", max_tokens=1) == ["a"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_without_the_models_thread_the_service_has_to_be_restarted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with client_of(text_model("letters", text_tokenizer("abc")), deadline=0.05) as client:
        for path in ("/healthz", "/readyz"):
            assert client.get(path).json() == {"status": "ok", "model": "letters"}
        monkeypatch.setattr(Job, "kind", broken(SystemExit()))
        problem(ask(client, prompt="a"), 504, "deadline")
        wait_for(lambda: client.get("/readyz").status_code == 503)
        for path in ("/healthz", "/readyz"):
            assert "restart" in problem(client.get(path), 503)["detail"]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)
NAMES = list(CompletionRequest.model_fields)


@given(
    requests(), st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=2), anything, max_size=3)
)
@settings(max_examples=150)
def test_no_request_causes_an_internal_error(
    client: TestClient, body: dict[str, Any], more: dict[str, Any]
) -> None:
    response = client.post("/v1/completions", content=json.dumps({**body, **more}), headers=JSON)
    assert response.status_code in {200, 404, 422}
    if response.headers["content-type"].startswith("text/event-stream"):
        streamed(response)  # ended well
