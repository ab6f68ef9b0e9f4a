"""Decoding with a key/value cache.

Shapes: B sequences, P prompt tokens, V vocabulary.
"""

from __future__ import annotations

import math
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


@torch.inference_mode()
def generate(
    model: Decoder,
    prompts_BP: torch.Tensor,
    stop_token: int,
    max_new_tokens: int | None = None,
    sampling: Sampling | None = None,
) -> list[Completion]:
    """What follows each prompt, up to and including `stop_token`, one completion a row.

    All prompts have the same length, P >= 1. A row ends after `max_new_tokens`, or where the
    model's context is full. Deterministic under `sampling.seed` for a given batch.
    """
    sampling = sampling or Sampling()
    batch, length = prompts_BP.shape
    room = model.config.block_size - length + 1  # the last token need not be read again
    limit = room if max_new_tokens is None else min(room, max_new_tokens)
    outputs = [Completion() for _ in range(batch)]
    if batch == 0 or limit <= 0:
        return outputs
    rng = torch.Generator(device=prompts_BP.device).manual_seed(sampling.seed)
    rows = torch.arange(batch, device=prompts_BP.device)  # rows still open -> rows of the output
    n_shared = _shared_prefix(prompts_BP) if batch > 1 else 0
    cache = model.new_cache(1 if n_shared else batch, length + limit - 1)
    if n_shared:  # what all prompts begin with is read once
        model(prompts_BP[:1, :n_shared], cache, True)
        cache.select(torch.zeros_like(rows))
    tokens = prompts_BP[:, n_shared:]
    for _ in range(limit):
        logits_BV = model(tokens, cache, True)[:, -1].float()
        next_B = choose(logits_BV, sampling, rng)
        probs_B = logits_BV.softmax(dim=-1).gather(1, next_B[:, None]).squeeze(1)
        for row, token, probability in zip(
            rows.tolist(), next_B.tolist(), probs_B.tolist(), strict=True
        ):
            outputs[row].ids.append(token)
            outputs[row].probabilities.append(probability)
        open_B = next_B != stop_token
        if not open_B.all():  # finished rows leave the batch
            keep = open_B.nonzero().squeeze(1)
            if not len(keep):
                break
            rows, next_B = rows[keep], next_B[keep]
            cache.select(keep)
        tokens = next_B[:, None]
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
        ordered[ordered.cumsum(dim=-1) - ordered >= sampling.top_p] = 0
        probs_BV = torch.zeros_like(probs_BV).scatter_(-1, order, ordered)
    return torch.multinomial(probs_BV, 1, generator=rng).squeeze(1)
