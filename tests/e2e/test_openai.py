"""The `openai` client against a service with the shipped model."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel
from serving import server

from api.chat import CHAT_REQUEST, CHAT_RESPONSE, REASONING

openai = pytest.importorskip("openai", reason="the openai client is not installed")

KEY = "open-sesame"
FUNCTION = {"name": "Calculate", "arguments": '{"expression": "12.5+3"}'}
TOOL_CALLS = [{"id": "call_1", "type": "function", "function": FUNCTION}]
CALL = {"role": "assistant", "content": None, "tool_calls": TOOL_CALLS}
USAGE = CHAT_RESPONSE["usage"]


class Calculate(BaseModel):
    """Calculates an expression."""

    expression: str


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with server("calculator", CALCGPT_API_KEYS=KEY) as running:
        yield running.address


@pytest.fixture
def client(address: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0)


def test_the_models_are_listed(client: openai.OpenAI) -> None:
    (model,) = client.models.list()
    assert model.id == "calculator"
    assert client.models.retrieve("calculator") == model


def test_a_chat_answers_with_the_result(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(**CHAT_REQUEST, extra_body={"places": 2})
    openai.types.chat.ChatCompletion.model_validate(answer.model_dump())
    message = answer.choices[0].message
    assert message.content == "15.5"
    assert message.model_extra == {"reasoning_content": REASONING.replace("$8(", "$(")}
    assert answer.model_extra
    assert answer.model_extra["calculation"]["verified"] is True
    assert answer.usage
    assert answer.usage.completion_tokens == USAGE["completion_tokens"]


def test_a_chat_is_streamed(client: openai.OpenAI) -> None:
    options = {"stream_options": {"include_usage": True}}
    chunks = list(client.chat.completions.create(**CHAT_REQUEST, stream=True, **options))
    for chunk in chunks:
        openai.types.chat.ChatCompletionChunk.model_validate(chunk.model_dump())
    thoughts = [
        choice.delta.model_extra["reasoning_content"]
        for chunk in chunks
        for choice in chunk.choices
        if choice.delta.model_extra
    ]
    assert "".join(thoughts) == REASONING
    assert len(thoughts) > USAGE["completion_tokens"]  # character by character
    assert chunks[-1].usage
    assert chunks[-1].usage.model_dump(exclude_none=True) == USAGE
    with client.chat.completions.stream(**CHAT_REQUEST) as stream:
        message = stream.get_final_completion().choices[0].message
    assert message.content == "15.5"


def test_an_agent_calls_it_as_a_tool_and_talks_on(client: openai.OpenAI) -> None:
    """A model, here a script, calls a tool; the conversation with the call is sent as it is."""
    answers = openai.types.chat.ChatCompletion.model_validate(
        CHAT_RESPONSE | {"choices": [{"index": 0, "message": CALL, "finish_reason": "tool_calls"}]}
    )
    message = answers.choices[0].message
    messages: list[Any] = [{"role": "user", "content": "12.5+3"}, message]
    tool = openai.pydantic_function_tool(Calculate)
    for call in message.tool_calls or []:
        asked = Calculate.model_validate_json(call.function.arguments)
        question = [{"role": "user", "content": asked.expression}]
        answer = client.chat.completions.create(model="calculator", messages=question)
        content = answer.choices[0].message.content
        messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    assert messages[-1]["content"] == "15.5"
    messages.append({"role": "user", "content": "15.5*2"})
    for choice in ("auto", "required"):
        last = client.chat.completions.create(
            model="calculator", messages=messages, tools=[tool], tool_choice=choice, logprobs=True
        )
        assert last.choices[0].message.content == "31"


def test_an_invalid_expression_or_key_is_a_client_error(client: openai.OpenAI) -> None:
    messages = [{"role": "user", "content": "What is a number?"}]
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        client.chat.completions.create(**CHAT_REQUEST | {"messages": messages})
    assert refused.value.type == "urn:calcgpt:problem:syntax"
    assert isinstance(refused.value.body, dict)
    assert refused.value.body["position"] == 8
    assert refused.value.request_id
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(**CHAT_REQUEST | {"model": "gpt-5"})
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").chat.completions.create(**CHAT_REQUEST)
