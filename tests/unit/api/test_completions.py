"""/v1/completions: texts, log-probabilities, sampling and streams."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch
from completions import ask, requests, streamed, texts
from fake_decoder import TEXT_BLOCK_SIZE, recite, text_model
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st
from serving import client_of, problem

from api.service import LoadedModel, load_model
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import Recipe, TrainConfig
from calcgpt.data.tokenizer import arithmetic_tokenizer, byte_pair_tokenizer, text_tokenizer
from calcgpt.inference.generate import generate
from calcgpt.inference.results import EXAMPLE_PROMPT as PROMPT

LETTERS = "abc"
UNICODE = st.characters(codec="utf-8", exclude_characters="\N{REPLACEMENT CHARACTER}")

letters = text_model("letters", text_tokenizer(LETTERS))
pieces = text_model("pieces", byte_pair_tokenizer("the cat and the hat and the cat", 270))


@pytest.fixture(scope="module")
def client(tiny: Checkpoint) -> Iterator[TestClient]:
    with client_of(load_model(tiny, "torch"), letters, pieces) as client:
        yield client


def added_up(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The choices whose pieces came in these events."""
    choices: dict[int, dict[str, Any]] = {}
    for event in events:
        (part,) = event["choices"]
        whole = choices.setdefault(
            part["index"], {"index": part["index"], "text": "", "logprobs": None}
        )
        assert whole.get("finish_reason") is None  # nothing may follow the end of a choice
        whole["text"] += part["text"]
        whole["finish_reason"] = part["finish_reason"]
        if part["logprobs"]:
            whole["logprobs"] = whole["logprobs"] or {name: [] for name in part["logprobs"]}
            for name, values in part["logprobs"].items():
                whole["logprobs"][name] += values
    return [choices[index] for index in sorted(choices)]


def written_by(tiny: Checkpoint, prompt: str, n: int) -> list[int]:
    """Returns the ids that the model writes greedily, `$` included."""
    stop = int(tiny.tokenizer.encode("$")[0])
    prompts_BP = torch.tensor([tiny.tokenizer.encode(prompt).tolist()])
    (completion,) = generate(tiny.model, prompts_BP, stop, n)
    return completion.ids


def logprobs_of(tiny: Checkpoint, ids: list[int]) -> torch.Tensor:
    """Log-probabilities of what follows each token, (T, V), from a plain forward pass."""
    with torch.inference_mode():
        return tiny.model(torch.tensor([ids]))[0].log_softmax(dim=-1)


def test_a_completion_is_what_the_model_writes(client: TestClient, tiny: Checkpoint) -> None:
    response = ask(client, model="tiny", prompt=PROMPT, temperature=0, max_tokens=9)
    assert response.status_code == 200
    body = response.json()
    ids = written_by(tiny, PROMPT, 9)
    assert body.pop("id").startswith("cmpl-")
    assert body.pop("created") > 1_700_000_000
    assert body == {
        "object": "text_completion",
        "model": "tiny",
        "choices": [
            {
                "index": 0,
                "text": tiny.tokenizer.decode(ids),
                "logprobs": None,
                "finish_reason": "length",
            }
        ],
        "usage": {"prompt_tokens": 26, "completion_tokens": 9, "total_tokens": 35},
    }


@given(st.text("$()=+-*/.0123456789", min_size=1, max_size=TEXT_BLOCK_SIZE), st.integers(0, 80))
@settings(max_examples=40)
def test_greedy_text_is_that_of_generate(
    client: TestClient, tiny: Checkpoint, prompt: str, n: int
) -> None:
    ids = written_by(tiny, prompt, n)
    body = ask(client, prompt=prompt, temperature=0, max_tokens=n).json()
    (choice,) = body["choices"]
    ended = bool(ids) and tiny.tokenizer.decode(ids[-1:]) == "$"
    assert choice["text"] == tiny.tokenizer.decode(ids).removesuffix("$")
    assert choice["finish_reason"] == ("stop" if ended else "length")
    assert body["usage"]["completion_tokens"] == len(ids)


@pytest.mark.parametrize("n", [0, 1, 12])
def test_logprobs_are_those_of_a_forward_pass(client: TestClient, tiny: Checkpoint, n: int) -> None:
    ids = tiny.tokenizer.encode(PROMPT).tolist() + written_by(tiny, PROMPT, n)
    expected_TV = logprobs_of(tiny, ids)
    body = ask(client, prompt=PROMPT, temperature=0, max_tokens=n, echo=True, logprobs=3).json()
    (choice,) = body["choices"]
    logprobs = choice["logprobs"]
    assert choice["text"] == "".join(logprobs["tokens"]) == tiny.tokenizer.decode(ids)
    assert logprobs["text_offset"] == list(range(len(ids)))
    assert logprobs["token_logprobs"][0] is logprobs["top_logprobs"][0] is None
    for position in range(1, len(ids)):
        expected_V, top = expected_TV[position - 1], logprobs["top_logprobs"][position]
        best = {*expected_V.topk(3).indices.tolist(), ids[position]}
        expected = {tiny.tokenizer.decode([token]): float(expected_V[token]) for token in best}
        assert top == pytest.approx(expected, abs=1e-4)
        assert list(top.values()) == sorted(top.values(), reverse=True)
        # Exactly: lm-eval compares them.
        assert logprobs["token_logprobs"][position] == top[tiny.tokenizer.decode([ids[position]])]

    written = ask(client, prompt=PROMPT, temperature=0, max_tokens=n, logprobs=3).json()
    if n:
        without_echo = written["choices"][0]["logprobs"]
        assert without_echo["tokens"] == logprobs["tokens"][len(PROMPT) :]
        assert without_echo["token_logprobs"] == logprobs["token_logprobs"][len(PROMPT) :]
        assert without_echo["text_offset"] == list(range(n))
    else:
        assert written["choices"][0]["logprobs"] is None


def test_zero_alternatives_return_the_token_itself(client: TestClient) -> None:
    body = ask(client, prompt=PROMPT, temperature=0, max_tokens=3, echo=True, logprobs=0).json()
    logprobs = body["choices"][0]["logprobs"]
    pairs = zip(logprobs["tokens"][1:], logprobs["token_logprobs"][1:], strict=True)
    assert logprobs["top_logprobs"][1:] == [{token: pytest.approx(value)} for token, value in pairs]


def test_the_end_token_is_not_part_of_the_text() -> None:
    """It has its log-probability all the same: lm-eval takes the last token of an echo for the one
    that was written, and would otherwise miss one of the prompt."""
    notation = text_model("notation", arithmetic_tokenizer())
    calculator = load_model(notation.checkpoint, "torch").calculator
    ending = LoadedModel(notation.checkpoint, notation.decoder, "fake", calculator)
    recite(ending, "$(1+1)=2$9999")
    with client_of(ending) as client:
        body = ask(client, prompt="$(1+1)=", echo=True, logprobs=1, stop=["9"]).json()
    (choice,) = body["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("$(1+1)=2", "stop")
    assert "".join(choice["logprobs"]["tokens"]) == "$(1+1)=2$"
    assert body["usage"]["completion_tokens"] == 2


def cut(text: str, stops: list[str]) -> tuple[str, str]:
    """A text, written a character at a time, up to the first string that ends it."""
    for n in range(len(text) + 1):
        positions = [position for stop in stops if (position := text[:n].find(stop)) >= 0]
        if positions:
            return text[: min(positions)], "stop"
    return text, "length"


@given(
    st.text(LETTERS, min_size=1, max_size=30),
    st.lists(st.text(LETTERS, min_size=1, max_size=4), max_size=4),
)
@settings(max_examples=40)  # `test_stops.py` has the others
def test_stop_strings_end_a_text_before_them(
    client: TestClient, text: str, stops: list[str]
) -> None:
    recite(letters, f"a{text}")
    body = {"model": "letters", "prompt": "a", "temperature": 0, "max_tokens": len(text)}
    (choice,) = ask(client, **body, stop=stops).json()["choices"]
    assert (choice["text"], choice["finish_reason"]) == cut(text, stops)
    (piecewise,) = added_up(streamed(ask(client, **body, stop=stops, stream=True)))
    assert piecewise == choice
    if len(stops) == 1:
        assert texts(client, **body, stop=stops[0]) == [choice["text"]]


@given(st.text(UNICODE, min_size=1, max_size=15), st.booleans())
@settings(max_examples=60)
def test_characters_of_several_tokens_arrive_whole(
    client: TestClient, text: str, with_stop: bool
) -> None:
    tokenizer = pieces.checkpoint.tokenizer
    recited = f"the cat{text}"[: TEXT_BLOCK_SIZE // 4]
    recite(pieces, recited)
    prompt = tokenizer.encode("the").tolist()
    following = pieces.checkpoint.tokenizer.encode(recited).tolist()[len(prompt) :]
    stops, more = ([recited[-1]], 5) if with_stop else ([], 0)
    body = {"model": "pieces", "prompt": prompt, "max_tokens": len(following) + more, "logprobs": 1}
    whole = ask(client, **body, temperature=0, stop=stops).json()
    (choice,) = whole["choices"]
    assert (choice["text"], choice["finish_reason"]) == cut(tokenizer.decode(following), stops)
    assert whole["usage"]["completion_tokens"] <= len(following)
    (piecewise,) = added_up(streamed(ask(client, **body, temperature=0, stop=stops, stream=True)))
    assert piecewise == choice


@given(requests())
@settings(max_examples=30)
def test_the_parts_of_a_stream_add_up_to_the_whole(
    client: TestClient, body: dict[str, Any]
) -> None:
    whole = ask(client, **body).json()
    options = {"include_usage": True}
    *events, last = streamed(ask(client, **body, stream=True, stream_options=options))
    assert added_up(events) == whole["choices"]
    assert (last["choices"], last["usage"]) == ([], whole["usage"])
    assert {event["id"] for event in events} == {last["id"]}
    assert all(event["usage"] is None for event in events)


def test_prompts_come_in_four_forms(client: TestClient, tiny: Checkpoint) -> None:
    both = [PROMPT, "$(1+"]
    ids = [tiny.tokenizer.encode(prompt).tolist() for prompt in both]
    greedy = {"temperature": 0, "echo": True}
    expected = [texts(client, prompt=prompt, **greedy)[0] for prompt in both]
    assert [texts(client, prompt=tokens, **greedy)[0] for tokens in ids] == expected
    assert texts(client, prompt=both, **greedy) == expected
    assert texts(client, prompt=ids, **greedy) == expected
    twice = ask(client, prompt=both, **greedy, n=2).json()
    assert [c["text"] for c in twice["choices"]] == [t for t in expected for _ in range(2)]
    assert twice["usage"]["prompt_tokens"] == len("".join(both))


def test_a_seed_gives_the_same_texts_under_any_load(client: TestClient) -> None:
    body = {"prompt": PROMPT, "max_tokens": 30, "n": 4, "seed": 5}
    alone = texts(client, **body)
    assert len(set(alone)) == 4  # each choice has a seed of its own
    assert texts(client, **{**body, "n": 2}) == alone[:2]
    assert texts(client, **{**body, "seed": 4}) != alone

    with ThreadPoolExecutor(16) as pool:
        others = [pool.submit(texts, client, prompt=PROMPT, n=5) for _ in range(6)]
        others += [pool.submit(texts, client, prompt=PROMPT, temperature=0) for _ in range(6)]
        assert [pool.submit(texts, client, **body).result() for _ in range(4)] == [alone] * 4
        assert all(other.result() for other in others)


def test_without_a_seed_each_request_draws_its_own(client: TestClient) -> None:
    body = {"prompt": PROMPT, "max_tokens": 30, "n": 16}  # one alone may end at once, twice
    assert texts(client, **body) != texts(client, **body)


def test_a_line_of_a_task_ends_with_its_dollar() -> None:
    task = text_model("task", text_tokenizer("twice 21=42$"))
    recipe = Recipe(model=task.checkpoint.recipe.model, train=TrainConfig(batches="problems"))
    task = replace(task, checkpoint=replace(task.checkpoint, recipe=recipe))
    recite(task, "twice 21=42$11")
    with client_of(task) as client:
        (choice,) = ask(client, prompt="twice 21=").json()["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("42", "stop")


@pytest.mark.parametrize("how", [{"top_k": 1}, {"top_p": 0}, {"temperature": 1e-5}])
def test_sampling_from_one_token_is_greedy(client: TestClient, how: dict[str, Any]) -> None:
    greedy = texts(client, prompt=PROMPT, temperature=0)
    assert texts(client, prompt=PROMPT, **how) == greedy


def test_a_request_names_a_model_or_uses_the_default(client: TestClient) -> None:
    recite(letters, "abcabc")
    assert ask(client, prompt="1").json()["model"] == "tiny"
    assert texts(client, model="letters", prompt="a", max_tokens=5) == ["bcabc"]
    problem(ask(client, prompt="1", model="absent"), 404, "unknown-model")
    assert "'1'" in problem(ask(client, model="letters", prompt="1"), 422)["detail"]
