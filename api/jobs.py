"""What a model is asked to do: a prompt to continue, alone or in a group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import torch

from calcgpt.generate import Completion, Decoder, Generation, Sampling, Step

GREEDY = Sampling()


@dataclass(eq=False)
class Job:
    """A prompt to continue, and what has become of it."""

    model: str  # for the metrics
    decoder: Decoder
    prompt: list[int]
    stop_token: int
    max_new_tokens: int | None = None
    sampling: Sampling = GREEDY
    #: Whether what was written so far is enough; called in the model's thread.
    ends: Callable[[list[int]], bool] = lambda ids: False
    #: Told of each token and its probability, in the event loop.
    on_token: Callable[[int, float], None] | None = None
    #: As many of the most probable tokens are kept at each place, with their log-probabilities.
    n_top: int = 0

    completion: Completion = field(default_factory=Completion)
    top: list[dict[int, float]] = field(default_factory=list)
    cancelled: bool = False
    done: asyncio.Future[None] | None = None

    @property
    def kind(self) -> Hashable:
        """Jobs of the same kind can share a batch. One that is sampled shares with none: what comes
        of its seed must not depend on who else is there."""
        if self.sampling.temperature > 0:
            return id(self)
        return id(self.decoder), len(self.prompt), self.stop_token

    def add(self, step: Step, place: int) -> None:
        """Note the token that a step wrote in this place of its batch."""
        self.completion.ids.append(step.ids[place])
        self.completion.probabilities.append(step.probabilities[place])
        if self.n_top:
            logits_V = step.logits_BV[place]
            best = logits_V.log_softmax(dim=-1).topk(min(self.n_top, len(logits_V)))
            self.top.append(dict(zip(best.indices.tolist(), best.values.tolist(), strict=True)))

    @property
    def is_full(self) -> bool:
        """Whether it wants no more tokens, whether or not the model has stopped."""
        written = self.completion.ids
        limit = self.max_new_tokens
        return (limit is not None and len(written) >= limit) or self.ends(written)


class Group:
    """Jobs of one kind that are decoded together."""

    def __init__(self, jobs: list[Job]) -> None:
        first = jobs[0]
        self.jobs = jobs
        self.generation = Generation(
            first.decoder,
            torch.tensor([job.prompt for job in jobs]),
            first.stop_token,
            sampling=first.sampling,
        )

    def step(self) -> tuple[Step, list[Job]]:
        """A token for every job; which of them ended with it."""
        step = self.generation.step()
        for place, row in enumerate(step.rows):
            self.jobs[row].add(step, place)
        self.generation.drop({row for row in step.rows if self.jobs[row].is_full})
        still = set(self.generation.rows)
        return step, [self.jobs[row] for row in step.rows if row not in still]

    def drop_cancelled(self) -> None:
        """Give the places of those back for which nobody waits any more."""
        self.generation.drop({row for row in self.generation.rows if self.jobs[row].cancelled})
