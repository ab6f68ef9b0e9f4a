"""How fast a run is: tokens per second, and the share of the device's arithmetic that it uses.

Model FLOPs utilisation is the rate of the model's own operations, three times those of a forward
pass, over the peak rate of the device (PaLM; Chowdhery et al. 2022, appendix B). Recomputation does
not raise it. Padding does, because padded positions count as tokens.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from calcgpt.config import ModelConfig
from calcgpt_lab.model.layers import Linear
from calcgpt_lab.model.parameters import flops
from calcgpt_lab.training.run_folder import Counters

# FLOP/s of dense products in bfloat16 and in float32, by a part of the device's name, from the
# manufacturer's data sheets. The first one that fits counts.
PEAKS: dict[str, tuple[float, float]] = {
    "H100 PCIe": (756e12, 51e12),
    "H100 NVL": (835e12, 60e12),
    "H100": (989e12, 67e12),
    "H200": (989e12, 67e12),
    "A100": (312e12, 19.5e12),
    "L40S": (362e12, 91.6e12),
    "L40": (181e12, 90.5e12),
    "L4": (121e12, 30.3e12),
    "RTX 4090": (165e12, 82.6e12),
    "RTX 3090": (71e12, 35.6e12),
}
SIZE, RUNS = 768, 5  # of the product that is measured on other devices
THREADS_SECONDS = 0.5  # on a busy machine, threads wait for each other only at some moments


@cache
def peak_rate(device: torch.device, bf16: bool) -> float:
    """Returns the peak of one device in FLOP/s: from the table, or else the best of a few products
    of matrices, which takes a tenth of a second."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        for part, rates in PEAKS.items():
            if part in name:
                return rates[0 if bf16 else 1]
    return measured_rate(device, bf16)


@torch.no_grad()
def measured_rate(device: torch.device, bf16: bool, size: int = SIZE) -> float:
    """Returns the best rate of a product of square matrices, in FLOP/s."""
    with torch.random.fork_rng(devices=[]):  # a GPU is faster with constants than with real data
        layer = Linear(size, size, bias=False).to(device)
        x = torch.randn(size, size).to(device)
    if bf16:
        layer, x = layer.bfloat16(), x.bfloat16()
    best = float("inf")
    for _ in range(RUNS):
        synchronize_device(device)
        start = time.perf_counter()
        layer(x)
        synchronize_device(device)
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def synchronize_device(device: torch.device) -> None:
    """Waits until the device has finished all its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


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

    def __init__(self, model: ModelConfig, vocab_size: int, device: torch.device, bf16: bool):
        self.device, self.bf16 = device, bf16
        # FLOPs of a training step for each token of a row of the given width.
        self._flops = cache(lambda width: 3 * sum(flops(model, vocab_size, width).values()))
        self._restart()

    def _restart(self) -> None:
        self.losses: list[torch.Tensor] = []
        self.n_token, self.n_flop = 0, 0
        self.since = time.perf_counter()

    def add(self, loss: torch.Tensor, shapes: Sequence[tuple[int, int]]) -> None:
        """Counts a step: its loss, and the shapes (B, T) of all micro-batches."""
        self.losses.append(loss)
        for rows, width in shapes:
            self.n_token += rows * width
            self.n_flop += rows * width * self._flops(width)

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
        peak = peak_rate(self.device, self.bf16)
        row = {
            "step": counters.step,
            "tokens": counters.tokens,
            "seconds": round(counters.seconds, 3),
            "loss": loss,
            "tokens_per_s": round(self.n_token / seconds, 1),
            "mfu": round(self.n_flop / seconds / peak, 4),
        }
        self._restart()
        return row
