"""What the programme for a GPU measures: each part is a function that returns its rows.

A row is a function that measures when it is called. research/GPU.md describes the parts.
"""

import time
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.measure import alternate, summary
from benchmarks.train import PEER_LOOP, beside_peer, peer_config, random_text, rate, trainer
from benchmarks.train_peer import PeerLoop, Shape
from calcgpt_lab.data.sources import training_data
from calcgpt_lab.model.devices import synchronize_device
from calcgpt_lab.model.parameters import count, flops
from calcgpt_lab.recipe import load_preset, load_recipe
from calcgpt_lab.training.run_folder import RunFolder
from calcgpt_lab.training.train import Trainer

# Parameters, about -> layers, heads, width, context, sequences of a batch.
SIZES = {
    "100M": Shape(12, 12, 768, 1024, 32),
    "10M": Shape(6, 6, 384, 1024, 64),
    "1M": Shape(5, 4, 128, 256, 128),
    "blog": Shape(8, 8, 96, 128, 16),
}
TINY = {"tiny": Shape(1, 4, 32, 32, 2)}
GRAPHS = f"{PEER_LOOP}, CUDA graphs"  # as CalcGPT has them
RECIPES = ("direct", "calculator", "llama-10m")
Row = dict[str, Any]
Rows = dict[str, Callable[[], Row]]


@torch.no_grad()
def product_rate(device: torch.device, bf16: bool, size: int) -> float:
    """Returns the best rate of a product of square matrices, in FLOP/s."""
    x = torch.randn(size, size, device=device)  # a GPU is faster with constants
    x, best = x.bfloat16() if bf16 else x, float("inf")
    for _ in range(5):
        synchronize_device(device)
        start = time.perf_counter()
        x @ x
        synchronize_device(device)
        best = min(best, time.perf_counter() - start)
    return 2 * size**3 / best


def ceilings(options: Namespace) -> Rows:
    """The rates that the device reaches, without any model."""
    device, size = options.device, 64 if options.tiny else 8192

    def product(bf16: bool) -> Row:
        return {"flop_per_s": product_rate(device, bf16, size)}

    def copy() -> Row:
        source = torch.randn(size * size // 2, device=device)
        target, best = torch.empty_like(source), float("inf")
        for _ in range(10):
            synchronize_device(device)
            start = time.perf_counter()
            target.copy_(source)
            synchronize_device(device)
            best = min(best, time.perf_counter() - start)
        return {"bytes_per_s": 2 * source.nbytes / best}

    return {
        "product, bf16": lambda: product(True),
        "product, float32": lambda: product(False),
        "copy": copy,
    }


def training(options: Namespace) -> Rows:
    """Tokens per second, and the share of the product's rate measured at the same time."""
    device, sizes = options.device, TINY if options.tiny else SIZES

    def row(shape: Shape, compile: bool) -> Row:
        llama = {"n_layer": shape.layers, "n_embd": shape.width, "n_head": shape.heads}
        llama |= {"block_size": shape.context}
        configs = {
            "calcgpt": peer_config(shape),
            "calcgpt, llama": load_preset("llama").model_copy(update=llama),
        }
        torch.compiler.reset()  # otherwise torch compiles for variable sizes
        peak = product_rate(device, True, 64 if options.tiny else 8192)
        steps, same_work = beside_peer(shape, device, True, compile)
        model = configs["calcgpt, llama"]
        steps["calcgpt, llama"] = trainer(model, shape, device, True, compile).train_step
        if compile:
            steps[GRAPHS] = PeerLoop(
                shape, random_text(shape.vocabulary), device, True, True, mode="reduce-overhead"
            ).step
        n_token = shape.batch * shape.context
        n_step = 8 if shape.width > 128 else 50
        timed = {name: partial(rate, step, device, n_step, n_token) for name, step in steps.items()}
        compared = summary(alternate(timed, options.runs), PEER_LOOP)
        n = shape.vocabulary
        needed = {name: 3 * sum(flops(c, n).values()) for name, c in configs.items()}
        needed[PEER_LOOP] = needed[GRAPHS] = needed["calcgpt"]  # the same model
        return {
            "parameters": {name: sum(count(c, n).values()) for name, c in configs.items()},
            "same_work": same_work,
            **compared,
            "utilisation": {
                name: tokens * needed[name] / peak
                for name, tokens in compared["median_per_second"].items()
            },
            "product_flop_per_s": peak,
        }

    ways = {"eager": False} if options.tiny else {"eager": False, "compiled": True}
    return {
        f"{size}, {way}": partial(row, shape, compile)
        for size, shape in sizes.items()
        for way, compile in ways.items()
    }


def recipes(options: Namespace) -> Rows:
    """Steps of shipped recipes with everything they need: problems, batches, optimizer. The first
    seconds do not count: the model is compiled, and the processes that make batches start."""
    device, (warm_up, duration) = options.device, (0.0, 0.0) if options.tiny else (15.0, 4.0)

    def row(name: str, compile: bool) -> Row:
        recipe = load_recipe(name, [f"train.compile={str(compile).lower()}"])
        run = Trainer(recipe, training_data(recipe, None), RunFolder(Path()), device)
        torch.compiler.reset()

        def steps(seconds: float) -> Row:
            """Trains for some seconds, and waits for the device."""
            end = time.perf_counter() + seconds
            run.train_step()
            while time.perf_counter() < end:
                run.train_step()
            return run.clock.row(run.counters)

        steps(0.0)
        rows = [steps(warm_up), *(steps(duration) for _ in range(options.runs))]
        rates = [
            (after["step"] - before["step"]) / (after["seconds"] - before["seconds"])
            for before, after in pairwise(rows)
        ]
        return {
            "parameters": run.model.n_parameters(),
            "batch_size": recipe.train.batch_size,
            "steps": recipe.train.steps,
            "steps_per_s": [round(rate, 2) for rate in rates],
            "minutes_of_the_recipe": round(recipe.train.steps / median(rates) / 60, 1),
            "tokens_per_s": [row["tokens_per_s"] for row in rows[1:]],
        }

    names = ["calculator-tiny"] if options.tiny else RECIPES
    ways = {"eager": False} if options.tiny else {"eager": False, "compiled": True}
    return {
        f"{name}, {way}": partial(row, name, compile)
        for name in names
        for way, compile in ways.items()
    }


PARTS: dict[str, Callable[[Namespace], Rows]] = {
    "ceilings": ceilings,
    "training": training,
    "recipes": recipes,
}
