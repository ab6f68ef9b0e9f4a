"""How fast a run is: tokens per second, and how many threads are fastest."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from calcgpt_lab.training.run_folder import Counters

THREADS_SECONDS = 0.5  # on a busy machine, threads wait for each other only at some moments


def fastest_threads(
    work: Callable[[], object], cores: int, clock: Callable[[], float] = time.perf_counter
) -> int:
    """Returns the number of torch's threads with which some work is faster: 1, or `cores` if that
    saves a tenth. Threads of small products wait for each other, above all if other programs run.
    """
    if cores == 1:
        return 1
    seconds: dict[int, list[float]] = {1: [], cores: []}  # in turns; the first one warms up
    begun = clock()
    while len(seconds[1]) < 3 or clock() - begun < THREADS_SECONDS:
        for n_thread, times in seconds.items():
            torch.set_num_threads(n_thread)
            start = clock()
            work()
            times.append(clock() - start)
    alone, together = (statistics.mean(times[1:]) for times in seconds.values())
    return cores if together < 0.9 * alone else 1


class Clock:
    """Mean loss and speed since the last row, without the time of validation and saving."""

    def __init__(self) -> None:
        self._restart()

    def _restart(self) -> None:
        self.losses: list[torch.Tensor] = []
        self.n_token = 0
        self.since = time.perf_counter()

    def add(self, loss: torch.Tensor, n_token: int) -> None:
        """Counts a step."""
        self.losses.append(loss)
        self.n_token += n_token

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within the block, no time is counted."""
        stopped = time.perf_counter()
        yield
        self.since += time.perf_counter() - stopped

    def row(self, counters: Counters) -> dict[str, Any]:
        """Returns a training row of `metrics.jsonl` about the steps since the last row, and starts
        a new one. Adds the time to `counters.seconds`."""
        loss = float(torch.stack(self.losses).mean())  # waits for the device
        seconds = time.perf_counter() - self.since
        counters.seconds += seconds
        row = {
            "step": counters.step,
            "tokens": counters.tokens,
            "seconds": round(counters.seconds, 3),
            "loss": loss,
            "tokens_per_s": round(self.n_token / seconds, 1),
        }
        self._restart()
        return row
