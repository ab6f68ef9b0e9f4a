"""Where CalcGPT and transformers spend their time, and how fast matrix products are.

    python -m benchmarks.profiles [--json FILE]

Measures the time to answer 256 problems with the blog's model and to train a Llama of its size for
one step, and the parts of it spent on matrix products and attention. Then measures products of the
sizes that occur there, with MKL, torch's default, and with oneDNN, which `calcgpt.model.layers`
uses. Everything runs on one thread.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from benchmarks.decode import PEER, contestants
from benchmarks.measure import environment, parser, write
from benchmarks.train import loops
from calcgpt.checkpoint import Checkpoint
from calcgpt.data.problems import read_problems
from calcgpt.model import layers
from calcgpt.recipe import load_preset
from calcgpt.registry import resolve

PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "mkldnn::_linear_pointwise")
SIZES = ((6_400, 96, 288), (6_400, 96, 384), (6_400, 384, 96), (256, 96, 384), (1, 96, 384))


def milliseconds(work: Callable[[], object], runs: int) -> dict[str, float]:
    """Returns the time of one run, and the parts spent on products and attention.

    A run to warm up comes first. The remaining time is not reported: it would include the profiler
    itself and the memory that it allocates.
    """
    work()
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(runs):
            work()
    spent = {"all": statistics.median(seconds) * 1e3, "products": 0.0, "attention": 0.0}
    for event in profiler.key_averages():
        each = event.self_cpu_time_total / 1e3 / runs
        if event.key in PRODUCTS:
            spent["products"] += each
        elif "scaled_dot_product" in event.key:
            spent["attention"] += each
    return {kind: round(time_spent, 1) for kind, time_spent in spent.items()}


def gflops(product: Callable[[], object], operations: int, runs: int) -> float:
    """Returns the median rate of a product in 10^9 operations per second."""
    seconds = []
    for _ in range(runs + 3):
        start = time.perf_counter()
        product()
        seconds.append(time.perf_counter() - start)
    return round(operations / statistics.median(seconds[3:]) / 1e9, 1)


@torch.inference_mode()
def product_rates(runs: int) -> dict[str, dict[str, float]]:
    """Returns the rates of both libraries by size: rows x inputs x outputs."""
    rates = {}
    for rows, n_in, n_out in SIZES:
        x, weight = torch.randn(rows, n_in), torch.randn(n_out, n_in)
        ways = {"MKL": partial(F.linear, x, weight)}
        if layers.HAS_ONEDNN:
            ways["oneDNN"] = partial(layers.onednn_linear, x, weight)
        rates[f"{rows} x {n_in} x {n_out}"] = {
            name: gflops(product, 2 * rows * n_in * n_out, runs) for name, product in ways.items()
        }
    return rates


def main() -> None:
    """Runs the profiles and prints them."""
    options = parser("Profile decoding and training.", runs=15)
    options.add_argument("--data", type=Path, default=Path("data/blog/test.txt"))
    arguments = options.parse_args()
    torch.set_num_threads(1)
    cpu = torch.device("cpu")

    checkpoint = Checkpoint.load(resolve("blog"))
    encode = checkpoint.tokenizer.encode
    prompts = [encode(line.prompt).tolist() for line in read_problems(arguments.data, 256)]
    ways = contestants(checkpoint.model, int(encode("$")[0]), cpu)
    steps = loops(load_preset("llama"), cpu)
    figures: dict[str, Any] = {
        "environment": environment(cpu, "transformers"),
        "answering 256 problems, ms": {
            name: milliseconds(partial(answer, torch.tensor(prompts)), arguments.runs)
            for name, answer in ways.items()
            if name in ("calcgpt, torch", PEER)  # torch's profiler cannot measure the others
        },
        "a training step, ms": {
            name: milliseconds(loop.step, arguments.runs) for name, loop in steps.items()
        },
        "products, 10^9 operations a second": product_rates(arguments.runs),
    }
    for title in list(figures)[1:]:
        print(f"{title}:")
        for name, of in figures[title].items():
            print(f"  {name:<18}", ", ".join(f"{kind} {value}" for kind, value in of.items()))
    write(arguments.json, figures)


if __name__ == "__main__":
    main()
