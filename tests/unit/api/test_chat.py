"""/v1/chat/completions, and expressions in an address: what they accept, and that all ways to ask
give the same answer."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fake_decoder import calculator_model, worked_model, wrong_at
from fastapi.testclient import TestClient
from httpx2 import Response
from serving import ask, client_of, problem, stream
from waiting import wait_for

from api.chat import IGNORED, ChatRequest
from datagen.operations import ADDITION


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    models = (
        worked_model(name="exact"),
        calculator_model(wrong_at(ADDITION), name="wrong"),
        calculator_model(lambda prompt: "1", name="mute"),
    )
    with client_of(*models) as client:
        yield client


def said(text: Any, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": text}


def streamed(response: Response) -> list[dict[str, Any]]:
    """Returns the events of a complete stream."""
    assert response.headers["content-type"].startswith("text/event-stream")
    *events, last = response.text.removesuffix("\n\n").split("\n\n")
    assert last == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events]


def chat(client: TestClient, text: str, **more: Any) -> Response:
    return client.post("/v1/chat/completions", json={"messages": [said(text)], **more})


@pytest.mark.parametrize(
    "typed", ["1+2", "(1.5+2)*(3-4)-5/8", "8/2", "-7", "2^3", "1/0", "99999*9+1", "1+", "1+2)"]
)
def test_all_ways_to_ask_give_the_same_answer(client: TestClient, typed: str) -> None:
    expected = ask(client, typed)
    by_address = client.get("/v1/calculate", params={"expression": typed})
    others = [chat(client, typed), by_address, chat(client, typed, stream=True)]
    assert {other.status_code for other in others} == {expected.status_code}
    if expected.status_code != 200:
        for other in others:
            assert without_id(other) == without_id(expected)
        return
    answer = expected.json()
    work = "".join(f"{node['prompt']}{node['output']}\n" for node in answer["nodes"])
    whole = others[0].json()
    assert by_address.json() == whole["calculation"] == answer
    message = whole["choices"][0]["message"]
    shown = answer["result"].removesuffix(".0")  # as people write it
    assert (message["content"], message["reasoning_content"]) == (shown, work)

    *chunks, last = streamed(others[2])
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    for name in ("content", "reasoning_content"):
        assert "".join(delta.get(name, "") for delta in deltas) == message[name]
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["calculation"] == answer


def without_id(response: Response) -> dict[str, Any]:
    return {name: value for name, value in response.json().items() if name != "request_id"}


def test_proxies_are_told_to_pass_a_stream_on_at_once(client: TestClient) -> None:
    for response in (chat(client, "1+2", stream=True), stream(client, "1+2")):
        assert response.headers["X-Accel-Buffering"] == "no"


def test_the_last_message_of_a_user_is_the_expression(client: TestClient) -> None:
    parts = [{"type": "input_text", "text": "6"}, {"type": "input_text", "text": "*7"}]
    talk = [said("You are a calculator.", "system"), said("1+1"), said("2", "assistant")]
    answer = client.post("/v1/chat/completions", json={"messages": [*talk, said(parts)]}).json()
    assert answer["choices"][0]["message"]["content"] == "42"
    talk = [said("2*2"), said("4", "assistant")]
    answer = client.post("/v1/chat/completions", json={"messages": talk}).json()
    assert answer["calculation"]["result"] == "4"


def test_what_a_client_demands_holds_here_too(client: TestClient) -> None:
    assert chat(client, "1+1", model="wrong").json()["calculation"]["verified"] is False
    problem(chat(client, "1+1", model="wrong", require_verified=True), 422, "not-verified")
    problem(chat(client, "1+1", min_confidence=1), 422, "not-confident")
    problem(chat(client, "1+1", model="gpt-5"), 404, "unknown-model")
    assert problem(chat(client, "1+x"), 422, "syntax")["position"] == 2
    mute = chat(client, "1+1", model="mute").json()["choices"][0]["message"]
    assert mute["content"] == "not a number"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "body.messages: "),
        ({"messages": []}, "body.messages: "),
        ({"messages": [said("1+1", "assistant")]}, "no message with the role `user`"),
        ({"messages": [said("1+1", "wizard")]}, "body.messages.0.role: "),
        ({"messages": [said(1)]}, "part that is not text"),
        ({"messages": [said(None)]}, "part that is not text"),
        ({"messages": [said(["1+1"])]}, "part that is not text"),
        ({"messages": [said([{"type": "image_url", "text": "1+1"}])]}, "part that is not text"),
        ({"messages": [said([{"type": "text"}])]}, "part that is not text"),
        ({"messages": [said("1+1")], "n": 2}, "body.n: "),
        ({"messages": [said("1+1")], "placs": 2}, "body.placs: "),
        ({"messages": [said("1+1")], "modalities": ["text", "audio"]}, "body.modalities.1: "),
    ],
)
def test_what_is_not_supported_is_refused(
    client: TestClient, body: dict[str, Any], says: str
) -> None:
    response = client.post("/v1/chat/completions", json=body)
    assert says in problem(response, 422, "invalid-request")["detail"]


def test_options_without_effect_are_accepted(client: TestClient) -> None:
    """All of OpenAI's API that is not a member of the request."""
    params = pytest.importorskip("openai.types.chat.completion_create_params")
    names = {*params.CompletionCreateParamsBase.__annotations__, "stream"}
    assert names - ChatRequest.model_fields.keys() == IGNORED
    for value in (0.5, [{}], None):
        assert chat(client, "6*7", **dict.fromkeys(IGNORED, value)).json()["calculation"][
            "verified"
        ]


FUNCTION = {"name": "calculate", "arguments": '{"expression": "6*7"}'}
TOOL_CALL = {"id": "call_1", "type": "function", "function": FUNCTION}
CALLED = {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]}


def test_messages_that_are_not_read_may_have_anything(client: TestClient) -> None:
    """As LangChain and LiteLLM send them: tools, pictures, and members of other models."""
    talk = [
        said("Use the tool.", "developer"),
        said([{"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}]),
        CALLED,
        said("42", "tool") | {"tool_call_id": "call_1"},
        said([{"type": "refusal", "refusal": "No."}], "assistant") | {"function_call": FUNCTION},
        said("42", "function") | {"name": "calculate", "provider_specific_fields": None},
        said("6*7") | {"name": "ann"},
        said([], "assistant"),
    ]
    answer = client.post("/v1/chat/completions", json={"messages": talk})
    assert answer.json()["calculation"]["result"] == "42"


def test_a_plus_in_an_address_is_explained(client: TestClient) -> None:
    address = "/v1/calculate?expression=12,500%2B3&decimal_comma=true&percent=plain&places=2"
    assert client.get(address).json()["result"] == "15.5"
    document = problem(client.get("/v1/calculate?expression=12.5+3"), 422, "no-operation")
    assert "write + as %2B" in document["detail"]
    document = problem(client.get("/v1/calculate?expression=12.5%203"), 422, "no-operation")
    assert "%2B" not in document["detail"]
    sums = ["2+(3*4)", "(1-2)+%283)", "5%25+(6)", "2%20+[3]", "12+500", "½+(3)", "3+|4|"]
    sums += [
        "2+square+root+of+9",
        *(f"2+{name}" for name in ("pi", "e", "√9", "sqrt(9)", "max(1)")),
    ]
    for sum_ in sums:
        document = problem(client.get(f"/v1/calculate?expression={sum_}"), 422, "no-operation")
        assert "write + as %2B" in document["detail"]  # else a product or 12500
    document = problem(client.get("/v1/calculate?expression=pi+2"), 422, "no-operation")
    assert "write it as %2B" in document["detail"]
    right = ("2%2B(3)", "2+%2B+(3)", "2+*+(3)", "2(3)", "2%20(3)", "2+times+3", "10+mod+3")
    for text in right:
        assert client.get(f"/v1/calculate?expression={text}").json()["verified"]
    for wrong in ("wrong=1", "expression=2%2B2"):  # the last of two would count, or the first
        address = f"/v1/calculate?expression=1%2B1&{wrong}"
        problem(client.get(address), 422, "invalid-request")
    problem(client.get("/v1/calculate"), 422, "invalid-request")


def test_the_deadline_ends_a_stream_with_an_error() -> None:
    model = worked_model()
    model.decoder.gate.clear()
    with client_of(model, deadline=0.2) as client:
        try:
            problem(chat(client, "1+1"), 504, "deadline")
            lines = chat(client, "1+1", stream=True).text.strip().split("\n\n")
            assert len(lines) == 3
            error = json.loads(lines[-1].partition("data: ")[2])["error"]
            assert error["type"] == "urn:calcgpt:problem:deadline"
            assert error["message"] == error["detail"]
        finally:
            model.decoder.gate.set()
        wait_for(lambda: "calcgpt_requests_in_flight 0.0" in client.get("/metrics").text)
