"""Decoding with a key/value cache, in NumPy, so that engines that do not use torch run without it.

Shapes: B sequences, P prompt tokens, T tokens, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from calcgpt.checkpoint import Checkpoint
from calcgpt.config import ModelConfig
from calcgpt.errors import ConfigError, DataError, check_integer, check_types
from datagen.sampling import MAX_SEED

if TYPE_CHECKING:
    import torch

    from calcgpt.data.tokenizer import Tokenizer
    from calcgpt.model.attention import KVCache

NO_TOKEN = -1  # the stop token if no token ends a text
Ints = NDArray[np.int64]
Floats = NDArray[np.float32]


@runtime_checkable
class ArrayDecoder(Protocol):
    """A decoder that takes and returns NumPy's arrays: int64 tokens and rows, float32 logits."""

    config: ModelConfig

    def __call__(self, tokens_BT: Ints, cache: Any, last_only: bool) -> Floats:
        """Returns the logits of tokens that follow those in the cache, and adds the tokens to it.

        The logits are (B, T, V), or (B, 1, V) of the last token with `last_only`.
        """

    def new_array_cache(self, batch: int, n_token: int) -> Any:
        """Returns an empty cache for `batch` sequences of at most `n_token` tokens. Its method
        `select(rows)` keeps only these rows."""


@runtime_checkable
class BatchWriter(Protocol):
    """A decoder that writes greedily, without returning to its caller after each token."""

    config: ModelConfig

    def write(self, prompts_BP: Ints, stop_token: int, length: int) -> tuple[Ints, Floats]:
        """Continues each row up to `stop_token`, by at most `length` tokens. Returns the tokens, -1
        after the end of a row, and their probabilities, both (B, L): L is at most `length`, and at
        least as long as the longest row."""


@runtime_checkable
class GreedyWriter(BatchWriter, Protocol):
    """A BatchWriter that also takes rows into a batch which is being written."""

    at_once: int  # rows that it writes at once without losing speed

    def new_array_cache(self, batch: int, n_token: int) -> Any:
        """Returns an empty cache, as an ArrayDecoder does."""

    def join(self, tokens_RP: Ints, cache: Any, stop_token: int) -> tuple[Ints, Floats]:
        """Adds sequences of these tokens to a cache as its last rows. Returns the next token of
        each, which is not in the cache yet, and its probability, both (R,). After `stop_token` a
        row is dropped."""

    def extend(
        self, tokens_BT: Ints, cache: Any, stop_token: int, length: int
    ) -> tuple[Ints, Floats]:
        """Continues what is in a cache by `tokens_BT` and then as `write` does. Rows that wrote
        `stop_token` are dropped from the cache."""


@runtime_checkable
class CachedModel(Protocol):
    """A model of torch that decodes with a cache: a LanguageModel, or what stands for one."""

    config: ModelConfig

    def new_cache(self, batch: int, n_token: int) -> KVCache: ...

    def parameters(self) -> Iterator[torch.nn.Parameter]: ...

    def __call__(self, tokens_BT: Any, cache: KVCache, last_only: bool) -> torch.Tensor: ...


Decoder: TypeAlias = "ArrayDecoder | CachedModel"


def as_array_decoder(decoder: Decoder) -> ArrayDecoder:
    """Returns a decoder that takes and returns arrays."""
    return decoder if isinstance(decoder, ArrayDecoder) else _TorchDecoder(decoder)


class _TorchDecoder:
    """A model of torch as an ArrayDecoder."""

    def __init__(self, model: CachedModel) -> None:
        self.config, self._model = model.config, model
        self._device = next(model.parameters()).device

    def new_array_cache(self, batch: int, n_token: int) -> KVCache:
        return self._model.new_cache(batch, n_token)

    def __call__(self, tokens_BT: Ints, cache: KVCache, last_only: bool) -> Floats:
        import torch

        with torch.inference_mode():
            tokens = torch.from_numpy(tokens_BT).to(self._device)
            logits: Floats = self._model(tokens, cache, last_only).float().cpu().numpy()
        return logits


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

    def extend(self, ids: Sequence[int], probabilities: Sequence[float]) -> None:
        """Adds what was written next."""
        self.ids.extend(ids)
        self.probabilities.extend(probabilities)


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
        model: Decoder,
        prompts_BP: Ints,
        stop_token: int,
        max_new_tokens: int | None = None,
        sampling: Sampling | None = None,
    ) -> None:
        batch, length = prompts_BP.shape
        self._left = room_after(model, length, max_new_tokens)
        self.rows = list(range(batch)) if self._left > 0 else []  # the open ones
        self._stop_token = stop_token
        self._sampling = sampling or Sampling()
        self._rng = np.random.Generator(np.random.PCG64(self._sampling.seed))
        self._model, self._tokens = as_array_decoder(model), np.asarray(prompts_BP)
        if self.rows:
            self._n_shared = shared_prefix(self._tokens) if batch > 1 else 0
            n_row = 1 if self._n_shared else batch
            self._cache = self._model.new_array_cache(n_row, length + self._left - 1)

    def step(self) -> Step:
        """Adds a token to every open row. There must be at least one."""
        if self._n_shared:  # the shared prefix of the prompts is read once
            self._model(self._tokens[:1, : self._n_shared], self._cache, True)
            self._cache.select(np.zeros(len(self.rows), np.int64))
            self._tokens = self._tokens[:, self._n_shared :]
            self._n_shared = 0
        logits_BV = self._model(self._tokens, self._cache, True)[:, -1]
        next_B = choose(logits_BV, self._sampling, self._rng)
        weights_BV = np.exp(logits_BV - logits_BV.max(axis=1, keepdims=True))
        probs_B = weights_BV[np.arange(len(next_B)), next_B] / weights_BV.sum(axis=1)
        step = Step(self.rows, next_B.tolist(), probs_B.tolist())
        self._left -= 1
        self._tokens = next_B[:, None]
        tokens = zip(step.rows, step.ids, strict=True)
        self.drop({row for row, token in tokens if token == self._stop_token or self._left == 0})
        return step

    def drop(self, rows: Collection[int]) -> None:
        """Removes these rows from the batch, if they are open."""
        keep = [index for index, row in enumerate(self.rows) if row not in rows]
        if len(keep) == len(self.rows):
            return
        self.rows = [self.rows[index] for index in keep]
        if self.rows:
            self._tokens = self._tokens[keep]
            if not self._n_shared:  # otherwise the cache still has a single row, which all share
                self._cache.select(np.array(keep))


def generate(
    model: Decoder,
    prompts_BP: Ints,
    stop_token: int,
    max_new_tokens: int | None = None,
    sampling: Sampling | None = None,
) -> list[Completion]:
    """Returns the completion of each prompt, which includes `stop_token`; see `Generation`."""
    is_greedy = sampling is None or sampling.temperature == 0
    if is_greedy and isinstance(model, BatchWriter):
        return _write_greedily(model, np.asarray(prompts_BP), stop_token, max_new_tokens)
    generation = Generation(model, prompts_BP, stop_token, max_new_tokens, sampling)
    outputs = [Completion() for _ in prompts_BP]
    while generation.rows:
        step = generation.step()
        for row, token, probability in zip(step.rows, step.ids, step.probabilities, strict=True):
            outputs[row].ids.append(token)
            outputs[row].probabilities.append(probability)
    return outputs


def complete(
    decoder: Decoder, tokenizer: Tokenizer, prompts: Sequence[str], stop_token: int
) -> list[Completion]:
    """Returns the greedy completion of each prompt. Prompts of one length are one batch."""
    by_length: dict[int, list[int]] = {}
    for row, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt), []).append(row)
    completions: dict[int, Completion] = {}
    for _, rows in sorted(by_length.items()):
        tokens_BP = np.array([tokenizer.encode(prompts[row]) for row in rows], np.int64)
        completions |= zip(rows, generate(decoder, tokens_BP, stop_token), strict=True)
    return [completions[row] for row in range(len(prompts))]


def _write_greedily(
    model: BatchWriter, prompts_BP: Ints, stop_token: int, max_new_tokens: int | None
) -> list[Completion]:
    length = room_after(model, prompts_BP.shape[1], max_new_tokens)
    if length < 1:
        return [Completion() for _ in prompts_BP]
    completions = zip(*until_end(*model.write(prompts_BP, stop_token, length)), strict=True)
    return [Completion(ids, probabilities) for ids, probabilities in completions]


def until_end(ids_BL: Ints, probabilities_BL: Floats) -> tuple[list[list[int]], list[list[float]]]:
    """Returns what each row has before its first -1."""
    ends = (ids_BL >= 0).sum(axis=1).tolist()
    return (
        [ids[:end] for ids, end in zip(ids_BL.tolist(), ends, strict=True)],
        [probs[:end] for probs, end in zip(probabilities_BL.tolist(), ends, strict=True)],
    )


def room_after(
    model: Decoder | BatchWriter, n_prompt: int, max_new_tokens: int | None = None
) -> int:
    """Returns how many tokens may follow a prompt."""
    room = model.config.block_size - n_prompt + 1  # the last token is never read
    return room if max_new_tokens is None else min(room, max_new_tokens)


def sample(
    checkpoint: Checkpoint,
    prompt: str,
    max_new_tokens: int = 200,
    sampling: Sampling | None = None,
    decoder: Decoder | None = None,
) -> Iterator[str]:
    """Continues a text, and yields what the model writes, in parts.

    Ends after `max_new_tokens`, when the model's context is full or, for a model of problems, after
    `$`. `decoder` runs the model; by default torch does. Raises DataError if the prompt is empty,
    longer than the context, or has characters that the model does not know.
    """
    check_types(
        checkpoint=(checkpoint, Checkpoint),
        prompt=(prompt, str),
        sampling=(sampling, Sampling, None),
        decoder=(decoder, ArrayDecoder, CachedModel, None),
    )
    check_integer("max_new_tokens", max_new_tokens, 0, 10**9)
    tokenizer, model = checkpoint.tokenizer, checkpoint.model if decoder is None else decoder
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


def shared_prefix(prompts_BP: Ints) -> int:
    """Returns the number of leading tokens that all prompts share, at most P - 1."""
    equal_P = (prompts_BP == prompts_BP[0]).all(axis=0)
    equal_P[-1] = False
    return int(equal_P.argmin())


def log_softmax(logits: Floats) -> Floats:
    """Returns log-probabilities over the last axis."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    logprobs: Floats = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return logprobs


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
