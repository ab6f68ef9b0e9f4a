"""The `openai` client against a service with the shipped model."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2 as httpx
import pytest
from forks import PATIENCE
from serving import server, wait_for

from api.schemas.completions import CHOICE, COMPLETION, REQUEST, USAGE

openai = pytest.importorskip("openai", reason="the openai client is not installed")

KEY = "open-sesame"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with server("steps", CALCGPT_API_KEYS=KEY) as running:
        yield running.address


@pytest.fixture
def client(address: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{address}/v1", api_key=KEY, max_retries=0)


def test_a_completion_is_as_documented(client: openai.OpenAI) -> None:
    completion = client.completions.create(**REQUEST)
    assert [choice.model_dump() for choice in completion.choices] == [CHOICE]
    assert completion.usage
    assert completion.usage.model_dump(exclude_none=True) == USAGE
    assert completion.model == "steps"


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
        prompt="$", model="steps", max_tokens=250, n=100, stream=True
    )
    next(stream)
    metrics = lambda: httpx.get(f"{address}/metrics", timeout=PATIENCE).text  # noqa: E731
    assert "calcgpt_requests_in_flight 300.0" in metrics()
    stream.close()
    wait_for(lambda: "calcgpt_requests_in_flight 0.0" in metrics())
    assert 'calcgpt_sheds_total{reason="disconnected"} 1.0' in metrics()


def test_the_models_are_listed(client: openai.OpenAI) -> None:
    (model,) = client.models.list()
    assert model.id == "steps"


def test_an_error_has_the_problem_in_its_body(client: openai.OpenAI) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        client.completions.create(model="steps", prompt="$q")
    assert refused.value.type == "urn:calcgpt:problem:invalid-request"
    assert isinstance(refused.value.body, dict)
    assert "character 'q' at position 1" in refused.value.body["detail"]
    assert refused.value.request_id
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="gpt-5", prompt="$")
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").completions.create(model="steps", prompt="$")
