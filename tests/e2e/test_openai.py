"""The `openai` client against a service with the shipped model."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2 as httpx
import pytest
from forks import PATIENCE
from serving import server, wait_for

from api.schemas.chat import CHAT_REQUEST, REASONING, RESPONSES_REQUEST
from api.schemas.completions import CHOICE, COMPLETION, REQUEST, USAGE

openai = pytest.importorskip("openai", reason="the openai client is not installed")

KEY = "open-sesame"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with server("scratchpad-small", CALCGPT_API_KEYS=KEY) as running:
        yield running.address


@pytest.fixture
def client(address: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0)


def test_a_completion_is_as_documented(client: openai.OpenAI) -> None:
    completion = client.completions.create(**REQUEST)
    assert [choice.model_dump() for choice in completion.choices] == [CHOICE]
    assert completion.usage
    assert completion.usage.model_dump(exclude_none=True) == USAGE
    assert completion.model == "scratchpad-small"


def test_log_probabilities_come_with_the_tokens(client: openai.OpenAI) -> None:
    completion = client.completions.create(**REQUEST, logprobs=2)
    (choice,) = completion.choices
    assert choice.logprobs
    assert "".join(choice.logprobs.tokens or []) == f"{COMPLETION}$"
    assert min(choice.logprobs.token_logprobs or []) > -0.1
    assert max(map(len, choice.logprobs.top_logprobs or [])) == 2


def test_a_stream_sends_one_character_at_a_time(client: openai.OpenAI) -> None:
    *chunks, last, usage = client.completions.create(
        **REQUEST, stream=True, stream_options={"include_usage": True}
    )
    assert [chunk.choices[0].text for chunk in chunks] == list(COMPLETION)
    assert last.choices[0].finish_reason == "stop"
    assert usage.usage
    assert usage.usage.completion_tokens == USAGE["completion_tokens"]


def test_a_closed_stream_frees_its_places(client: openai.OpenAI, address: str) -> None:
    stream = client.completions.create(
        prompt="$", model="scratchpad-small", max_tokens=250, n=100, stream=True
    )
    next(stream)
    metrics = lambda: httpx.get(f"{address}/metrics", timeout=PATIENCE).text  # noqa: E731
    assert "calcgpt_requests_in_flight 300.0" in metrics()
    stream.close()
    wait_for(lambda: "calcgpt_requests_in_flight 0.0" in metrics())
    assert 'calcgpt_sheds_total{reason="disconnected"} 1.0' in metrics()


def test_the_models_are_listed(client: openai.OpenAI) -> None:
    (model,) = client.models.list()
    assert model.id == "scratchpad-small"
    assert client.models.retrieve("scratchpad-small") == model


def test_an_error_has_the_problem_in_its_body(client: openai.OpenAI) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        client.completions.create(model="scratchpad-small", prompt="$q")
    assert refused.value.type == "urn:calcgpt:problem:invalid-request"
    assert isinstance(refused.value.body, dict)
    assert "character 'q' at position 1" in refused.value.body["detail"]
    assert refused.value.request_id
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="gpt-5", prompt="$")
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").completions.create(
            model="scratchpad-small", prompt="$"
        )


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
    with client.chat.completions.stream(**CHAT_REQUEST) as stream:
        message = stream.get_final_completion().choices[0].message
    assert message.content == "15.5"


def test_a_response_answers_with_the_result(client: openai.OpenAI) -> None:
    answer = client.responses.create(**RESPONSES_REQUEST)
    openai.types.responses.Response.model_validate(answer.model_dump())
    assert answer.output_text == "15.5"
    with client.responses.stream(**RESPONSES_REQUEST) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert final.output_text == "15.5"
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert deltas == ["15.5"]
    assert final.usage == answer.usage


def test_an_invalid_expression_or_key_is_a_client_error(client: openai.OpenAI) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        client.responses.create(model="scratchpad-small", input="What is a number?")
    assert refused.value.type == "urn:calcgpt:problem:syntax"
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").chat.completions.create(**CHAT_REQUEST)
