"""Jobs of the service, and the groups that write them in turns.

There are two kinds of groups. A `Pool` is for an engine that writes by itself and for clients
that do not wait for single tokens. It writes several tokens in a turn, and jobs that arrive later
join it between two turns. `Lockstep` writes one token in a turn, and jobs that arrive later form
the next group.

Shapes: B rows of a batch, P prompt tokens.
"""

import asyncio
import math
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from calcgpt.inference.continuous import ContinuousBatch
from calcgpt.inference.generate import Completion, Decoder, Generation, GreedyWriter

# A pool writes about TURN tokens in a turn, and at least MIN_TURN and at most MAX_TURN of each row.
# Other jobs join between two turns, so that the turns of many rows are short.
TURN, MIN_TURN, MAX_TURN = 96, 16, 32
REPORTED = 3  # times the work of others, about: `Lockstep` writes with Python between two tokens
USUAL_LENGTH = 337  # tokens of a text whose weight is 1


@dataclass(eq=False)
class Job:
    """A prompt to continue, and the tokens written so far."""

    model: str  # for the metrics
    decoder: Decoder
    prompt: list[int]
    stop_token: int
    #: Is called in the event loop with each token and its probability.
    on_token: Callable[[int, float], None] | None = None
    client: str = ""  # who waits for it
    n_characters: int = 1  # to write, if the model makes no mistake
    start: float = 0.0  # its place in a `FairQueue`

    completion: Completion = field(default_factory=Completion)
    cancelled: bool = False
    done: asyncio.Future[None] = field(init=False)  # set when the job is queued
    #: The number of jobs of usual length that take as much memory and time.
    weight: float = field(init=False)

    def __post_init__(self) -> None:
        length = len(self.prompt) + self.n_characters
        self.weight = _weight(min(length, self.decoder.config.block_size + 1))
        # Once: a check of a protocol takes 10 us.
        self._writer = self.decoder if isinstance(self.decoder, GreedyWriter) else None

    @property
    def cost(self) -> int:
        """The work as a number of characters. Those that are reported one by one take longer."""
        return self.n_characters * (REPORTED if self.on_token else 1)

    @property
    def kind(self) -> Hashable:
        """Jobs of the same kind can share a batch."""
        if self.writer:
            return id(self.decoder), self.stop_token
        return id(self.decoder), len(self.prompt), self.stop_token

    @property
    def writer(self) -> GreedyWriter | None:
        """The decoder, if it writes by itself and nobody waits for single tokens. Such a job may
        join others in a pool."""
        return self._writer if self.on_token is None else None

    def fits(self, jobs: Sequence["Job"], max_batch: int) -> bool:
        """Returns whether a batch of these jobs has room for this one, by weight. Each row takes
        as much room as the longest text. An empty batch has room for any job."""
        largest = max([self.weight, *(job.weight for job in jobs)])
        return not jobs or (len(jobs) + 1) * largest <= max_batch


def _weight(length: int) -> float:
    """Returns the weight of a text of so many tokens. Keys and values take memory for each token,
    and each token attends to all earlier ones, so the weight grows faster than the text."""
    return max(1.0, math.pow(length / USUAL_LENGTH, 1.5))


@dataclass(frozen=True)
class Turn:
    """What a group did in a turn."""

    sizes: list[int]  # rows of each forward pass
    n_token: int  # written by all rows
    written: list[tuple[Job, int, float]]  # tokens that are reported one by one
    ended: list[Job]


class Group:
    """Jobs that are written together."""

    @property
    def jobs(self) -> list[Job]:
        """The open jobs."""
        raise NotImplementedError

    @property
    def is_reported(self) -> bool:
        """Whether somebody waits for single tokens."""
        return any(job.on_token for job in self.jobs)


class Lockstep(Group):
    """Jobs with prompts of one length, which write a token in each turn."""

    def __init__(self, jobs: list[Job]) -> None:
        first = jobs[0]
        self._jobs = jobs
        prompts_BP = np.array([job.prompt for job in jobs], np.int64)
        self._generation = Generation(first.decoder, prompts_BP, first.stop_token)

    @property
    def jobs(self) -> list[Job]:
        return [self._jobs[row] for row in self._generation.rows]

    def drop(self, jobs: Collection[Job]) -> None:
        """Removes these jobs."""
        rows = self._generation.rows
        self._generation.drop({row for row in rows if self._jobs[row] in jobs})

    def turn(self) -> Turn:
        """Writes a token of every job."""
        jobs = self.jobs
        step = self._generation.step()
        for index, job in enumerate(jobs):
            job.completion.extend([step.ids[index]], [step.probabilities[index]])
        written = [
            (job, step.ids[index], step.probabilities[index])
            for index, job in enumerate(jobs)
            if job.on_token
        ]
        remaining = set(self.jobs)
        ended = [job for job in jobs if job not in remaining]
        return Turn([len(jobs)], len(jobs), written, ended)


class Pool(Group):
    """Jobs that may join and end at any time. They must be of one kind."""

    def __init__(self, jobs: list[Job]) -> None:
        first, writer = jobs[0], jobs[0].writer
        assert writer
        self.kind, self._at_once = first.kind, writer.at_once
        self._batch = ContinuousBatch(writer, first.stop_token)
        self._open: dict[int, Job] = {}
        self._new = list(jobs)  # whose prompts are not read yet

    @property
    def jobs(self) -> list[Job]:
        return [*self._open.values(), *self._new]

    @property
    def is_full(self) -> bool:
        """Whether more jobs would slow down the others."""
        return len(self._open) + len(self._new) >= self._at_once

    def join(self, job: Job) -> None:
        """Adds a job, whose prompt is read in the next turn."""
        self._new.append(job)

    def drop(self, jobs: Collection[Job]) -> None:
        """Removes these jobs."""
        self._new = [job for job in self._new if job not in jobs]
        self._batch.drop({row for row, job in self._open.items() if job in jobs})
        self._open = {row: job for row, job in self._open.items() if job not in jobs}

    def turn(self) -> Turn:
        """Reads the prompts of new jobs, and writes some tokens of every job."""
        rows = self._batch.add([job.prompt for job in self._new])
        self._open |= zip(rows, self._new, strict=True)
        self._new = []
        part = self._batch.run(min(MAX_TURN, max(MIN_TURN, TURN // len(self._open))))
        ended = [self._open.pop(row) for row in part.finished]
        for job, completion in zip(ended, part.finished.values(), strict=True):
            job.completion.extend(completion.ids, completion.probabilities)
        return Turn(part.sizes, sum(part.sizes), [], ended)
