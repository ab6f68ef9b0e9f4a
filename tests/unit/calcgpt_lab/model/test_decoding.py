"""Decoding with a cache equals decoding without; sampling follows its distribution."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from calcgpt.base.errors import ConfigError, DataError
from calcgpt.config import ModelConfig
from calcgpt.tokenizer import CharTokenizer
from calcgpt_lab.model.decoding import Sampling, TokenDecoder, choose, generate
from calcgpt_lab.model.gpt import GPT

VOCAB = 21


@pytest.fixture(scope="module")
def model() -> GPT:
    torch.manual_seed(0)
    config = ModelConfig(
        n_layer=2, n_embd=16, n_head=4, n_kv_head=2, block_size=24, position="rope"
    )
    return GPT(config, VOCAB).eval()


def uncached(model: GPT, prompt: list[int], stop: int, limit: int) -> list[int]:
    """Decodes one row greedily, without a cache."""
    tokens = list(prompt)
    while len(tokens) - len(prompt) < limit:
        with torch.no_grad():
            tokens.append(int(model(torch.tensor([tokens]))[0, -1].argmax()))
        if tokens[-1] == stop:
            break
    return tokens[len(prompt) :]


def test_greedy_batches_equal_single_uncached_decoding(model: GPT) -> None:
    prompts = torch.randint(VOCAB, (32, 6), generator=torch.Generator().manual_seed(1))
    greedy = [uncached(model, row, 0, 12) for row in prompts.tolist()]
    # A stop token that some rows write early and others never: rows end at unlike times.
    stop = max(range(VOCAB), key=lambda t: len({row.index(t) for row in greedy if t in row}))
    expected = [uncached(model, row, stop, 12) for row in prompts.tolist()]
    assert len({len(row) for row in expected}) > 2
    assert [row.ids for row in generate(model, prompts, stop, 12)] == expected


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(),
        Sampling(1.0, seed=3),
        Sampling(0.5, seed=3),
        Sampling(2.0, top_k=3, seed=3),
        Sampling(1.5, top_p=0.7, seed=3),
    ],
)
def test_probabilities_are_those_of_an_uncached_pass_at_temperature_1(
    model: GPT, sampling: Sampling
) -> None:
    prompts = torch.randint(VOCAB, (16, 6), generator=torch.Generator().manual_seed(2))
    completions = generate(model, prompts, 0, 12, sampling)
    if sampling.temperature:
        assert (
            len({len(row.ids) for row in completions}) > 2
        )  # rows leave the batch at different steps
    for prompt, row in zip(prompts.tolist(), completions, strict=True):
        with torch.no_grad():
            probs_TV = model(torch.tensor([prompt + row.ids]))[0].softmax(dim=-1)
        expected = [float(probs_TV[5 + t, token]) for t, token in enumerate(row.ids)]
        assert row.probabilities == pytest.approx(expected, rel=1e-4)


def test_the_output_ends_when_the_context_is_full(model: GPT) -> None:
    [row] = generate(model, torch.zeros(1, 20, dtype=torch.long), stop_token=VOCAB + 1)
    # One more than the context has room for: the last token is never read.
    assert len(row.ids) == len(row.probabilities) == 24 - 20 + 1


@pytest.mark.parametrize("shape", [(0, 5), (2, 24)])
def test_an_empty_batch_and_a_nearly_full_context(model: GPT, shape: tuple[int, int]) -> None:
    rows = generate(model, torch.zeros(shape, dtype=torch.long), stop_token=VOCAB + 1)
    assert [len(row.ids) for row in rows] == [1] * shape[0]


def test_a_prompt_longer_than_the_context_gets_no_output(model: GPT) -> None:
    rows = generate(model, torch.zeros((2, 25), dtype=torch.long), stop_token=0)
    assert [(row.ids, row.probabilities) for row in rows] == [([], []), ([], [])]


def test_sampling_is_a_function_of_the_seed(model: GPT) -> None:
    prompts = torch.zeros(8, 4, dtype=torch.long)
    first, again, other = (
        generate(model, prompts, VOCAB + 1, 10, Sampling(1.0, seed=seed)) for seed in (1, 1, 2)
    )
    assert first == again != other


def test_prompts_of_other_lengths_have_draws_of_their_own(model: GPT) -> None:
    uniform = GPT(model.config, VOCAB).eval()
    for parameter in uniform.parameters():
        parameter.data.zero_()
    decoder = TokenDecoder(uniform, CharTokenizer("0123456789abcdefghijk"))
    texts = [written.text[:9] for written in decoder.complete(["0", "00", "000"], Sampling(1.0))]
    assert len(set(texts)) == 3


LOGITS = np.tile(np.log(np.array([0.3, 0.5, 0.05, 0.15], np.float32)), (20_000, 1))


def frequencies(sampling: Sampling) -> NDArray[np.float64]:
    drawn = choose(LOGITS, sampling, np.random.default_rng(0))
    return np.bincount(drawn, minlength=4)[[1, 0, 3, 2]] / len(drawn)


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(0.0), [1.0, 0, 0, 0]),
        (Sampling(1.0), [0.5, 0.3, 0.15, 0.05]),
        (Sampling(0.5), [0.25 / 0.365, 0.09 / 0.365, 0.0225 / 0.365, 0.0025 / 0.365]),
        (Sampling(1.0, top_k=2), [0.625, 0.375, 0, 0]),
        (Sampling(1.0, top_k=9), [0.5, 0.3, 0.15, 0.05]),
        (Sampling(1.0, top_p=0.79), [0.625, 0.375, 0, 0]),
        (Sampling(1.0, top_p=0.81), [0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0]),
        (Sampling(1.0, top_p=0.01), [1.0, 0, 0, 0]),
    ],
)
def test_tokens_are_drawn_with_their_probabilities(
    sampling: Sampling, expected: list[float]
) -> None:
    actual = frequencies(sampling)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=0.015)
    assert [f > 0 for f in actual.tolist()] == [e > 0 for e in expected]


def test_top_k_keeps_k_tokens_if_logits_are_equal() -> None:
    logits = np.zeros((1000, 8), np.float32)
    drawn = choose(logits, Sampling(1.0, top_k=3), np.random.default_rng(0))
    assert len(set(drawn.tolist())) == 3


@pytest.mark.parametrize(
    "bad",
    [
        {"temperature": -1.0},
        {"temperature": float("nan")},
        {"temperature": 1e-40},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_k": 0},
        {"seed": -1},
    ],
)
def test_invalid_sampling_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="must be"):
        Sampling(**bad)  # type: ignore[arg-type]


def test_sampling_from_damaged_weights_is_refused() -> None:
    logits = np.array([[0.0, np.nan]], np.float32)
    with pytest.raises(DataError, match="not finite"):
        choose(logits, Sampling(1.0), np.random.default_rng(0))


def test_the_smallest_nucleus_is_the_most_probable_token() -> None:
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((8, VOCAB), np.float32)
    drawn = choose(logits, Sampling(1.0, top_p=5e-324), rng)
    assert drawn.tolist() == logits.argmax(axis=1).tolist()


class Highest(np.random.Generator):
    """Always draws the largest number below 1."""

    def random(self, size: Any = None, *_: Any) -> Any:
        return np.full(size, 1 - 2.0**-53)


@given(st.lists(st.sampled_from([-1e4, 0.0, 1e-3, 1.0, 30.0]), min_size=1, max_size=8))
def test_the_largest_draw_takes_a_token_that_can_be_drawn(row: list[float]) -> None:
    logits, sampling = np.array([row], np.float32), Sampling(1.0, top_p=0.9)
    [token] = choose(logits, sampling, Highest(np.random.PCG64(0)))
    assert row[token] > max(row) - 100
