"""How many threads torch uses on a CPU: those that are faster, by measurement."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from calcgpt.model.parameters import flops
from datagen.parallel import usable_cores

if TYPE_CHECKING:
    from calcgpt.model.gpt import LanguageModel

RUNS = 5  # of each number of threads
SMALL = 2e9  # FLOPs: work that takes longer is always faster with all cores
SCORED = 256  # tokens of a pass: half of a batch that is decoded


def fastest(
    work: Callable[[], None], cores: int, clock: Callable[[], float] = time.perf_counter
) -> int:
    """Returns the number of threads with which some work is faster: 1, or `cores` if that saves a
    tenth. Threads of small products wait for each other, above all if other programs run."""
    seconds: dict[int, list[float]] = {1: [], cores: []}
    for _ in range(1 + RUNS if cores > 1 else 0):  # in turns; the first one warms up
        for n, times in seconds.items():
            torch.set_num_threads(n)
            start = clock()
            work()
            times.append(clock() - start)
    if cores > 1 and statistics.median(seconds[cores][1:]) < 0.9 * statistics.median(
        seconds[1][1:]
    ):
        return cores
    return 1


def choose_threads(model: LanguageModel, n_token: int = SCORED) -> None:
    """Lets torch use as many threads as are fastest for passes over so many tokens."""
    cores = usable_cores()
    if n_token * sum(flops(model.config, model.vocab_size, 1).values()) > SMALL:
        torch.set_num_threads(cores)
        return
    length = min(n_token, model.config.block_size)
    tokens_BT = torch.zeros((max(1, n_token // length), length), dtype=torch.int64)
    with torch.inference_mode():
        torch.set_num_threads(fastest(lambda: model(tokens_BT), cores))
