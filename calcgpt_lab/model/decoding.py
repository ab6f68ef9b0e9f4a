"""Decoding token by token with a key/value cache.

Shapes: B sequences, P prompt tokens, T tokens, V vocabulary.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from calcgpt.base.errors import ConfigError, DataError, check_integer, check_types
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import ModelConfig
from calcgpt.inference.decoding import Decoder, Floats, Writing, Written
from calcgpt.tokenizer import Tokenizer
from datagen.sampling import MAX_SEED

NO_TOKEN = -1  # the stop token if no token ends a text
Ints = NDArray[np.int64]


@runtime_checkable
class Model(Protocol):
    """A model that decodes with a cache, as those of torch do. This module needs no torch: what
    scores with another engine imports it, too."""

    config: ModelConfig

    def new_cache(self, batch: int, n_token: int) -> Any:
        """Returns an empty cache for `batch` sequences of at most `n_token` tokens. Its method
        `select(rows)` keeps only these rows."""

    def next_logits(self, tokens_BT: Ints, cache: Any) -> Floats:
        """Returns the logits (B, V) of what follows tokens that are added to the cache."""


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen. At temperature 0, decoding is greedy and the other fields have
    no effect. Raises ConfigError for a value out of range."""

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        # Below 1e-4, float32 logits overflow. The limit is greedy decoding: temperature 0.
        check_types(temperature=(self.temperature, int, float), top_p=(self.top_p, int, float))
        if self.temperature != 0 and not 1e-4 <= self.temperature < math.inf:
            raise ConfigError("temperature must be 0, or at least 0.0001 and finite")
        if not 0 < self.top_p <= 1:
            raise ConfigError("top_p must be above 0 and at most 1")
        if self.top_k is not None:
            check_integer("top_k", self.top_k, 1, 2**16)
        check_integer("seed", self.seed, 0, MAX_SEED)


@dataclass(frozen=True)
class Completion:
    """The tokens that a model wrote after a prompt, and the probability of each at temperature 1,
    even if they were sampled at another temperature."""

    ids: list[int] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Step:
    """The result of one forward pass: a token for each of the B open rows."""

    rows: list[int]  # indices of the prompts, ascending
    ids: list[int]
    probabilities: list[float]


class Generation:
    """Continues a batch of prompts, one token per step.

    All prompts have the same length, P >= 1. A row ends with `stop_token`, after `max_new_tokens`
    or when the model's context is full. For a given batch, `sampling.seed` determines the result.
    """

    def __init__(
        self,
        model: Model,
        prompts_BP: Ints,
        stop_token: int,
        max_new_tokens: int | None = None,
        sampling: Sampling | None = None,
    ) -> None:
        batch, length = prompts_BP.shape
        room = model.config.block_size - length + 1  # the last token is never read
        self._left = room if max_new_tokens is None else min(room, max_new_tokens)
        self.rows = list(range(batch)) if self._left > 0 else []  # the open ones
        self._stop_token = stop_token
        self._sampling = sampling or Sampling()
        self._rng = np.random.Generator(np.random.PCG64(self._sampling.seed))
        self._model = model
        self._tokens = np.asarray(prompts_BP)
        if self.rows:
            self._cache = model.new_cache(batch, length + self._left - 1)

    def step(self) -> Step:
        """Adds a token to every open row. There must be at least one."""
        logits_BV = self._model.next_logits(self._tokens, self._cache)
        next_B = choose(logits_BV, self._sampling, self._rng)
        weights_BV = np.exp(logits_BV - logits_BV.max(axis=1, keepdims=True))
        probs_B = weights_BV[np.arange(len(next_B)), next_B] / weights_BV.sum(axis=1)
        step = Step(self.rows, next_B.tolist(), probs_B.tolist())
        self._left -= 1
        is_open_B = (next_B != self._stop_token) & (self._left > 0)
        self._tokens, open_B = next_B[is_open_B, None], np.flatnonzero(is_open_B)
        if len(open_B) < len(self.rows):
            self.rows = [self.rows[index] for index in open_B]
            self._cache.select(open_B)
        return step


def generate(
    model: Model,
    prompts_BP: Ints,
    stop_token: int,
    max_new_tokens: int | None = None,
    sampling: Sampling | None = None,
) -> list[Completion]:
    """Returns the completion of each prompt, which includes `stop_token`; see `Generation`."""
    generation = Generation(model, prompts_BP, stop_token, max_new_tokens, sampling)
    outputs = [Completion() for _ in prompts_BP]
    while generation.rows:
        step = generation.step()
        for row, token, probability in zip(step.rows, step.ids, step.probabilities, strict=True):
            outputs[row].ids.append(token)
            outputs[row].probabilities.append(probability)
    return outputs


class TokenDecoder(Decoder):
    """Writes texts token by token. Tokens are characters."""

    def __init__(self, model: Model, tokenizer: Tokenizer) -> None:
        """Raises DataError unless each token is one character."""
        self.model, self.block_size = model, model.config.block_size
        self.tokenizer = tokenizer.require_characters()
        self.stop = self.tokenizer.vocabulary.find("$")  # NO_TOKEN if it is not there

    def begin(self, prompt: str) -> Writing:
        return TokenWriting(self, prompt)

    def complete(self, prompts: Sequence[str], sampling: Sampling | None = None) -> list[Written]:
        """Returns what follows each prompt. Those of one length are one batch, with draws of
        its own."""
        completions: dict[int, Written] = {}
        by_length: dict[int, list[int]] = {}
        for row, prompt in enumerate(prompts):
            by_length.setdefault(len(prompt), []).append(row)
        for index, (_, rows) in enumerate(sorted(by_length.items())):
            tokens_BP = np.array([self.tokenizer.encode(prompts[row]) for row in rows], np.int64)
            own = sampling and replace(sampling, seed=sampling.seed ^ index)
            written = generate(self.model, tokens_BP, self.stop, sampling=own)
            for row, completion in zip(rows, written, strict=True):
                probabilities = np.array(completion.probabilities, np.float32)
                completions[row] = Written(self.tokenizer.decode(completion.ids), probabilities)
        return [completions[row] for row in range(len(prompts))]


class TokenWriting(Writing):
    """A text that a `TokenDecoder` writes."""

    def __init__(self, decoder: TokenDecoder, prompt: str) -> None:
        self._decode = decoder.tokenizer.decode
        prompt_1P = decoder.tokenizer.encode(prompt)[None].astype(np.int64)
        self._generation = Generation(decoder.model, prompt_1P, decoder.stop)
        self._text, self._probabilities = "", list[float]()
        self.is_done = not self._generation.rows

    def write(self, n: int) -> int:
        before = len(self._text)
        while not self.is_done and len(self._text) < before + n:
            step = self._generation.step()
            self._text += self._decode(step.ids)
            self._probabilities += step.probabilities
            self.is_done = not self._generation.rows
        return len(self._text) - before

    def written(self, start: int = 0) -> Written:
        return Written(self._text[start:], np.array(self._probabilities[start:], np.float32))


def sample(
    checkpoint: Checkpoint,
    prompt: str,
    max_new_tokens: int = 200,
    sampling: Sampling | None = None,
) -> Iterator[str]:
    """Continues a text, and yields what the model writes, in parts.

    Ends after `max_new_tokens`, when the model's context is full or, for a model of problems, after
    `$`. Raises DataError if the prompt is empty, longer than the context, or has characters that
    the model does not know.
    """
    check_types(
        checkpoint=(checkpoint, Checkpoint),
        prompt=(prompt, str),
        sampling=(sampling, Sampling, None),
    )
    check_integer("max_new_tokens", max_new_tokens, 0, 10**9)
    tokenizer, model = checkpoint.tokenizer, checkpoint.model
    prompt_P, limit = tokenizer.encode(prompt), model.config.block_size
    if not 1 <= len(prompt_P) <= limit:
        raise DataError(f"the prompt has {len(prompt_P)} tokens; it must have 1 to {limit}")
    stop, prompt_1P = stop_token(checkpoint), prompt_P[None].astype(np.int64)
    generation = Generation(model, prompt_1P, stop, max_new_tokens, sampling)
    return _texts(generation, tokenizer.incremental_decoder())


def _texts(generation: Generation, decode: Callable[[list[int], bool], str]) -> Iterator[str]:
    while generation.rows:
        ids = generation.step().ids
        if text := decode(ids, not generation.rows):
            yield text


def stop_token(checkpoint: Checkpoint) -> int:
    """Returns the id of the `$` that ends a problem. Returns NO_TOKEN if the model was trained on a
    stream of text, such as the blog's problems, or if it does not know the character."""
    if checkpoint.recipe.train.batches == "stream":
        return NO_TOKEN
    return checkpoint.tokenizer.require_characters().vocabulary.find("$")  # -1 if it is not there


def choose(logits_BV: Floats, sampling: Sampling, rng: np.random.Generator) -> Ints:
    """Returns the next token of each row, (B,). Raises DataError if it has to sample from logits
    that are not finite."""
    if sampling.temperature == 0:
        greedy_B: Ints = logits_BV.argmax(axis=1)
        return greedy_B
    if not np.isfinite(logits_BV).all():
        raise DataError("the model's logits are not finite: its weights are damaged")
    # The most probable first; among equals, the one with the lowest id.
    order_BV = np.argsort(-logits_BV, axis=1, kind="stable")
    scaled_BV = np.take_along_axis(logits_BV, order_BV, axis=1) / np.float64(sampling.temperature)
    weights_BV = np.exp(scaled_BV - scaled_BV[:, :1])
    if sampling.top_k is not None:
        weights_BV[:, sampling.top_k :] = 0  # exactly k remain, also where some are equal
    cumulative_BV = weights_BV.cumsum(axis=1)
    if sampling.top_p < 1:
        # Nucleus sampling (Holtzman et al. 2020): a token stays if those more probable than it
        # have less than p in total. The most probable token always stays.
        beyond_BV = cumulative_BV - weights_BV >= sampling.top_p * cumulative_BV[:, -1:]
        weights_BV[:, 1:][beyond_BV[:, 1:]] = 0
        cumulative_BV = weights_BV.cumsum(axis=1)
    drawn_B1 = rng.random((len(weights_BV), 1)) * cumulative_BV[:, -1:]
    rank_B = (cumulative_BV <= drawn_B1).sum(axis=1)
    rank_B = np.minimum(rank_B, (weights_BV > 0).sum(axis=1) - 1)  # the product may be rounded up
    tokens_B: Ints = np.take_along_axis(order_BV, rank_B[:, None], axis=1)[:, 0]
    return tokens_B
