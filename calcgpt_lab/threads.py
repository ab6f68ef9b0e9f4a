"""How many threads torch uses on a CPU: those that are faster, by measurement."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from calcgpt.base.processes import usable_cores

if TYPE_CHECKING:
    from calcgpt_lab.model.base import LanguageModel

RUNS = 5  # of each number of threads, at least
# The measurement lasts: on a busy machine, threads wait for each other only at some moments.
SECONDS = 0.5
MOST_SECONDS = 5.0  # then fewer runs are enough
SCORED = 256  # tokens of a pass: half of a batch that is decoded


def fastest(
    work: Callable[[], None], cores: int, clock: Callable[[], float] = time.perf_counter
) -> int:
    """Returns the number of threads with which some work is faster: 1, or `cores` if that saves a
    tenth. Threads of small products wait for each other, above all if other programs run."""
    if cores == 1:
        return 1
    seconds: dict[int, list[float]] = {1: [], cores: []}
    begun, least = clock(), 1 + RUNS  # in turns; the first one warms up
    while (n := len(seconds[1])) < 2 or (
        clock() - begun < (SECONDS if n >= least else MOST_SECONDS)
    ):
        for n_thread, times in seconds.items():
            torch.set_num_threads(n_thread)
            start = clock()
            work()
            times.append(clock() - start)
    alone, together = (statistics.mean(times[1:]) for times in seconds.values())
    return cores if together < 0.9 * alone else 1


def choose_threads(model: LanguageModel, n_token: int = SCORED) -> None:
    """Lets torch use as many threads as are fastest for passes over so many tokens."""
    length = min(n_token, model.config.block_size)
    tokens_BT = torch.zeros((max(1, n_token // length), length), dtype=torch.int64)
    with torch.inference_mode():
        torch.set_num_threads(fastest(lambda: model(tokens_BT), usable_cores()))
