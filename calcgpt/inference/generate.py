"""Decoding with a key/value cache.

Shapes: B sequences, P prompt tokens, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from calcgpt.config import ModelConfig
from calcgpt.errors import ConfigError, DataError


class Decoder(Protocol):
    """What decoding needs of a model: a LanguageModel, or one that another library runs."""

    config: ModelConfig

    def __call__(self, tokens_BT: torch.Tensor, cache: Any, last_only: bool) -> torch.Tensor:
        """Logits of the tokens after those in the cache, (B, 1, V) with `last_only`; the cache
        holds them afterwards."""

    def new_cache(self, batch: int, n_token: int) -> Any:
        """An empty cache for so many sequences of at most so many tokens; its `select(rows)` keeps
        these rows."""


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen. Temperature 0 is greedy; then the rest plays no part."""

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        # Below 1e-4, float32 logits overflow; that is greedy decoding, which is 0.
        if self.temperature != 0 and not 1e-4 <= self.temperature < math.inf:
            raise ConfigError("temperature must be 0, or at least 0.0001 and finite")
        if not 0 < self.top_p <= 1:
            raise ConfigError("top_p must be above 0 and at most 1")
        if self.top_k is not None and self.top_k < 1:
            raise ConfigError("top_k must be at least 1")


@dataclass(frozen=True)
class Completion:
    """What a model wrote after a prompt: the tokens, and the probability it gave each (at
    temperature 1, whatever it was sampled at)."""

    ids: list[int] = field(default_factory=list)
    probabilities: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Step:
    """What one forward pass added: a token to each of B open rows."""

    rows: list[int]  # which of the prompts, in ascending order
    ids: list[int]
    probabilities: list[float]
    logits_BV: torch.Tensor  # what they were chosen from


class Generation:
    """A batch of prompts in the course of being continued, a token a step.

    All prompts have the same length, P >= 1. A row ends with `stop_token`, after `max_new_tokens`,
    or where the model's context is full. Deterministic under `sampling.seed` for a given batch.
    """

    def __init__(
        self,
        model: Decoder,
        prompts_BP: torch.Tensor,
        stop_token: int,
        max_new_tokens: int | None = None,
        sampling: Sampling | None = None,
    ) -> None:
        batch, length = prompts_BP.shape
        room = model.config.block_size - length + 1  # the last token need not be read again
        self._left = room if max_new_tokens is None else min(room, max_new_tokens)
        self.rows = list(range(batch)) if self._left > 0 else []  # still open
        self._model = model
        self._stop_token = stop_token
        self._sampling = sampling or Sampling()
        self._rng = torch.Generator(device=prompts_BP.device).manual_seed(self._sampling.seed)
        self._tokens = prompts_BP
        if self.rows:
            self._n_shared = _shared_prefix(prompts_BP) if batch > 1 else 0
            self._cache = model.new_cache(1 if self._n_shared else batch, length + self._left - 1)

    @torch.inference_mode()
    def step(self) -> Step:
        """Add a token to every open row, of which there must be one."""
        if self._n_shared:  # what all prompts begin with is read once
            self._model(self._tokens[:1, : self._n_shared], self._cache, True)
            self._cache.select(
                torch.zeros(len(self.rows), dtype=torch.int64, device=self._tokens.device)
            )
            self._tokens = self._tokens[:, self._n_shared :]
            self._n_shared = 0
        logits_BV = self._model(self._tokens, self._cache, True)[:, -1].float()
        next_B = choose(logits_BV, self._sampling, self._rng)
        probs_B = logits_BV.softmax(dim=-1).gather(1, next_B[:, None]).squeeze(1)
        added = Step(self.rows, next_B.tolist(), probs_B.tolist(), logits_BV)
        self._left -= 1
        self._tokens = next_B[:, None]
        ended = zip(added.rows, added.ids, strict=True)
        self.drop({row for row, token in ended if token == self._stop_token or self._left == 0})
        return added

    def drop(self, rows: Collection[int]) -> None:
        """Close these rows, if they are open: they leave the batch."""
        keep = [place for place, row in enumerate(self.rows) if row not in rows]
        if len(keep) == len(self.rows):
            return
        self.rows = [self.rows[place] for place in keep]
        if self.rows:
            index = torch.tensor(keep, device=self._tokens.device)
            self._tokens = self._tokens[index]
            if not self._n_shared:  # else the cache has one row so far, which all need
                self._cache.select(index)


def generate(
    model: Decoder,
    prompts_BP: torch.Tensor,
    stop_token: int,
    max_new_tokens: int | None = None,
    sampling: Sampling | None = None,
) -> list[Completion]:
    """What follows each prompt, up to and including `stop_token`, one completion a row; see
    `Generation`."""
    generation = Generation(model, prompts_BP, stop_token, max_new_tokens, sampling)
    outputs = [Completion() for _ in prompts_BP]
    while generation.rows:
        step = generation.step()
        for row, token, probability in zip(step.rows, step.ids, step.probabilities, strict=True):
            outputs[row].ids.append(token)
            outputs[row].probabilities.append(probability)
    return outputs


def _shared_prefix(prompts_BP: torch.Tensor) -> int:
    """How many tokens all prompts begin with; of equal prompts, all but the last."""
    alike_P = (prompts_BP == prompts_BP[0]).all(dim=0)
    alike_P[-1] = False
    return int(alike_P.int().argmin())


def choose(logits_BV: torch.Tensor, sampling: Sampling, rng: torch.Generator) -> torch.Tensor:
    """The next token of each row, (B,)."""
    if sampling.temperature == 0:
        return logits_BV.argmax(dim=-1)
    if not logits_BV.isfinite().all():
        raise DataError("the model's logits are not finite: its weights are damaged")
    logits_BV = logits_BV.float() / sampling.temperature
    if sampling.top_k is not None and sampling.top_k < logits_BV.size(-1):
        threshold = logits_BV.topk(sampling.top_k, dim=-1).values[:, -1:]
        logits_BV = logits_BV.masked_fill(logits_BV < threshold, float("-inf"))
    probs_BV = logits_BV.softmax(dim=-1)
    if sampling.top_p < 1:
        # Nucleus (Holtzman et al. 2020): a token stays while those before it hold less than p.
        ordered, order = probs_BV.sort(dim=-1, descending=True)
        beyond_BV = ordered.cumsum(dim=-1) - ordered >= sampling.top_p
        beyond_BV[:, 0] = False  # nor does a p that is 0 in float32 leave none
        ordered[beyond_BV] = 0
        probs_BV = torch.zeros_like(probs_BV).scatter_(-1, order, ordered)
    return torch.multinomial(probs_BV, 1, generator=rng).squeeze(1)
