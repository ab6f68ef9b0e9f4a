"""Where CalcGPT and transformers spend their time, and how fast matrix products are.

    python -m research.profiles [--json FILE]
    python -m research.profiles --recipe NAME [--json FILE]

Measures the time to answer 256 problems with the blog's model and to train a Llama of its size for
one step, and the parts of it spent on matrix products and attention. Then measures products of the
sizes that occur there, with MKL, torch's default, and with oneDNN, which `calcgpt.model.layers`
uses. Everything runs on one thread.

With --recipe it measures training steps of a recipe that draws its problems instead: in float32 and
bf16, with its own number of micro-batches and with twice as many, in turns, in processor time.

Ran at commit 468e543 and before.
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
from benchmarks.measure import environment, parser, run, write
from benchmarks.train import loops
from calcgpt.checkpoint import Checkpoint
from calcgpt.data.batches import NO_LOSS
from calcgpt.data.problems import read_problems
from calcgpt.data.sources import training_data
from calcgpt.model import layers
from calcgpt.recipe import load_preset, load_recipe
from calcgpt.registry import resolve
from calcgpt.training.run_folder import RunFolder
from calcgpt.training.train import Trainer

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
        per_run = event.self_cpu_time_total / 1e3 / runs
        if event.key in PRODUCTS:
            spent["products"] += per_run
        elif "scaled_dot_product" in event.key:
            spent["attention"] += per_run
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


def padding(trainer: Trainer, n_step: int) -> float:
    """Returns the share of the tokens behind the last target of their row."""
    n_token, n_used = 0, 0
    for step in range(n_step):
        for part in trainer.loader.load(step).micro_batches:
            columns = torch.arange(1, part.targets.size(1) + 1)
            n_token += part.targets.numel()
            n_used += int(((part.targets != NO_LOSS) * columns).amax(dim=1).sum())
    return 1 - n_used / n_token


@torch.no_grad()
def large_product_rate(bf16: bool, size: int = 768, n: int = 20) -> float:
    """Returns the rate of square products, in operations per second of the processor."""
    dtype = torch.bfloat16 if bf16 else torch.float32
    layer = layers.Linear(size, size, bias=False).to(dtype)
    x = torch.ones(size, size, dtype=dtype)
    layer(x)
    start = time.process_time()
    for _ in range(n):
        layer(x)
    return 2 * n * size**3 / (time.process_time() - start)


def recipe_steps(name: str, runs: int) -> dict[str, Any]:
    """Returns how fast steps of a recipe are, and the rates of products at the same time."""
    cpu, grad_accum = torch.device("cpu"), load_recipe(name).train.grad_accum
    trainers = {}
    for precision in ("fp32", "bf16"):
        for n_parts in (grad_accum, 2 * grad_accum):
            changes = (f"train.precision={precision}", f"train.grad_accum={n_parts}")
            recipe = load_recipe(name, (*changes, "train.eval_problems=0"))
            data = training_data(recipe, None)
            key = f"{precision}, {n_parts} micro-batches"
            trainers[key] = Trainer(recipe, data, RunFolder(Path()), cpu)  # nothing is written
            trainers[key].train_step()
    seconds: dict[str, list[float]] = {key: [] for key in trainers}
    flops: dict[str, list[float]] = {key: [] for key in trainers}
    products: dict[str, list[float]] = {"fp32": [], "bf16": []}
    for _ in range(runs):
        for key, trainer in trainers.items():
            n_flop, start = trainer.clock.n_flop, time.process_time()
            trainer.train_step()
            seconds[key].append(time.process_time() - start)
            flops[key].append((trainer.clock.n_flop - n_flop) / seconds[key][-1])
        for precision, rates in products.items():
            rates.append(large_product_rate(precision == "bf16"))
    best = {precision: max(rates) for precision, rates in products.items()}
    return {
        key: {
            "problems a second": round(
                trainer.config.batch_size / statistics.median(seconds[key]), 1
            ),
            "10^9 operations a second": round(statistics.median(flops[key]) / 1e9, 1),
            "share of the rate of products": round(
                statistics.median(flops[key]) / best[key.partition(",")[0]], 3
            ),
            "padding": round(padding(trainer, 100), 3),
        }
        for key, trainer in trainers.items()
    } | {"products": {key: round(rate / 1e9, 1) for key, rate in best.items()}}


def main() -> None:
    """Runs the profiles and prints them."""
    options = parser("Profile decoding and training.", runs=15)
    options.add_argument("--data", type=Path, default=Path("data/blog/test.txt"))
    options.add_argument("--recipe", help="measure training steps of this recipe")
    arguments = options.parse_args()
    torch.set_num_threads(1)
    cpu = torch.device("cpu")
    if arguments.recipe:
        steps_of = {f"steps of {arguments.recipe}": recipe_steps(arguments.recipe, arguments.runs)}
        report({"environment": environment(cpu)} | steps_of, arguments.json)
        return

    checkpoint = Checkpoint.load(resolve("blog"))
    encode = checkpoint.tokenizer.encode
    prompts = [encode(line.prompt).tolist() for line in read_problems(arguments.data, 256)]
    ways = contestants(checkpoint.model, int(encode("$")[0]))
    steps = loops(load_preset("llama"), cpu)
    results: dict[str, Any] = {
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
    report(results, arguments.json)


def report(results: dict[str, Any], path: Path | None) -> None:
    """Prints the results, and writes them if there is a path."""
    for title in list(results)[1:]:
        print(f"{title}:")
        for name, values in results[title].items():
            print(f"  {name:<18}", ", ".join(f"{kind} {value}" for kind, value in values.items()))
    write(path, results)


if __name__ == "__main__":
    run(main)
