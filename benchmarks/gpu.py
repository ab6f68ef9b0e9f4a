"""Measures CalcGPT on a GPU, and trains on it, with one command.

    python -m benchmarks.gpu --out docs/results/gpu [--minutes 9] [--set FIELD=VALUE ...]
    python -m benchmarks.gpu --out /tmp/gpu --device cpu --tiny

docs/GPU.md says what each part measures. A part has its own process and writes `PART.json` after
each of its rows. Rows in that file are not measured again, unless they failed, so a command that
ran out of minutes is simply repeated. The last part trains for the rest of the minutes, and
continues where it stopped.
"""

import gc
import json
import os
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.measure import alternate, environment, summary
from benchmarks.train import PEER_LOOP, Loop, beside_peer, peer_config, rate, trainer
from benchmarks.train_peer import Shape
from benchmarks.variants import variants
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import ModelConfig
from calcgpt.data.sources import training_data
from calcgpt.evaluation.evaluate import evaluate
from calcgpt.metrics import step_lines
from calcgpt.model.gpt import LanguageModel, build_model, compiled
from calcgpt.model.parameters import count, operations
from calcgpt.recipe import load_preset
from calcgpt.registry import resolve
from calcgpt.training.speed import measured_rate, wait_for
from datagen.files import write_text

VOCABULARY, STEPS, TOLERANCE = 64, 20, 1e-3
# Parameters, about -> layers, heads, width, context, sequences of a batch.
SIZES = {
    "100M": Shape(12, 12, 768, 1024, 32),
    "10M": Shape(6, 6, 384, 1024, 64),
    "1M": Shape(5, 4, 128, 256, 128),
}
TINY = {"tiny": Shape(1, 4, 32, 32, 2)}
RESERVE = 25.0  # seconds in which training saves its state and ends
ROOT = Path(__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
Row = dict[str, Any]
Rows = dict[str, Callable[[], Row]]


def ceilings(options: Namespace) -> Rows:
    """The rates that the device reaches, without any model."""
    device, size = options.device, 64 if options.tiny else 8192

    def product(bf16: bool) -> Row:
        return {"flop_per_s": measured_rate(device, bf16, size)}

    def copy() -> Row:
        source = torch.ones(size * size // 2, device=device)
        target, best = torch.empty_like(source), float("inf")
        for _ in range(10):
            wait_for(device)
            start = time.perf_counter()
            target.copy_(source)
            wait_for(device)
            best = min(best, time.perf_counter() - start)
        return {"bytes_per_s": 2 * source.nbytes / best}

    return {
        "product, bf16": lambda: product(True),
        "product, float32": lambda: product(False),
        "copy": copy,
    }


def losses(
    config: ModelConfig, device: torch.device, bf16: bool, compile: bool, n_step: int
) -> torch.Tensor:
    """Returns the losses of a few steps from the same weights, (n_step,), on the CPU."""
    if compile:
        torch.compiler.reset()  # torch limits how often it compiles one function
    torch.manual_seed(0)
    model = build_model(config, VOCABULARY)
    batch = torch.randint(VOCABULARY, (8, config.block_size + 1)).to(device)
    model = model.to(device)
    loop = Loop(model, _forward(model, device, bf16, compile), batch)
    return torch.stack([loop.step() for _ in range(n_step)]).cpu()


def _forward(
    model: nn.Module, device: torch.device, bf16: bool, compile: bool
) -> Callable[[torch.Tensor], torch.Tensor]:
    call: Callable[..., torch.Tensor] = model
    if compile:
        call = compiled(model, model) if isinstance(model, LanguageModel) else torch.compile(model)

    def forward(tokens_BT: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            return call(tokens_BT).float()

    return forward


def agreement(options: Namespace, compile: bool = False) -> Rows:
    """The losses of every variant on the device, in float32 and bf16, against the CPU's."""

    n_step = 2 if options.tiny else STEPS

    def row(config: ModelConfig) -> Row:
        expected = losses(config, torch.device("cpu"), False, False, n_step)
        differences = {}
        for name, bf16 in (("float32", False), ("bf16", True)):
            actual = losses(config, options.device, bf16, compile, n_step)
            differences[name] = float((actual / expected - 1).abs().max())
        return {**differences, "agrees": differences["float32"] < TOLERANCE}

    small = {"n_layer": 1 if options.tiny else 2, "block_size": 16 if options.tiny else 128}
    table = {name: config.model_copy(update=small) for name, config in variants().items()}
    names = list(table)[:: 9 if options.tiny else 1]
    return {name: partial(row, table[name]) for name in names}


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
        peak = measured_rate(device, True, 64 if options.tiny else 8192)
        steps, same_work = beside_peer(shape, device, True, compile)
        model = configs["calcgpt, llama"]
        steps["calcgpt, llama"] = trainer(model, shape, device, True, compile).train_step
        n_token = shape.batch * shape.context
        timed = {name: partial(rate, step, device, 8, n_token) for name, step in steps.items()}
        compared = summary(alternate(timed, options.runs), PEER_LOOP)
        n = shape.vocabulary
        flops = {name: 3 * sum(operations(c, n).values()) for name, c in configs.items()}
        flops[PEER_LOOP] = flops["calcgpt"]  # the same model
        return {
            "parameters": {name: sum(count(c, n).values()) for name, c in configs.items()},
            "same_work": same_work,
            **compared,
            "utilisation": {
                name: tokens * flops[name] / peak
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


def decoding(options: Namespace) -> Rows:
    """Answers of the shipped calculator: those of the CPU, and how many a second."""
    checkpoint = Checkpoint.load(resolve(options.checkpoint))
    source = training_data(checkpoint.recipe, None)
    n_same, batches = (2, [8]) if options.tiny else (100, [1, 256, 4096])

    def same() -> Row:
        lines = source.validation_problems(n_same) or []
        outputs = [
            evaluate(checkpoint.model.to(device), checkpoint.tokenizer, lines).outputs
            for device in ("cpu", options.device)
        ]
        return {"n": len(lines), "same": sum(map(str.__eq__, *outputs))}

    def speed(batch: int) -> Row:
        lines = source.validation_problems(min(max(batch, 32), 4096)) or []
        lines = lines[: 4 if options.tiny else None]
        model = checkpoint.model.to(options.device)
        measured = evaluate(model, checkpoint.tokenizer, lines, batch_size=batch)
        return {"n": len(lines), "answers_per_s": measured.problems_per_second}

    speeds = {f"batch {n}": partial(speed, n) for n in batches}
    return {"same as the CPU": same, **speeds}


PARTS: dict[str, Callable[[Namespace], Rows]] = {
    "ceilings": ceilings,
    "agreement": agreement,
    "training": training,
    "decoding": decoding,
    "agreement-compiled": lambda options: agreement(options, compile=True),
}


def read_rows(path: Path) -> dict[str, Row]:
    """Returns the rows of a part that are written."""
    with suppress(FileNotFoundError):
        rows: dict[str, Row] = json.loads(path.read_text("utf-8"))["rows"]
        return rows
    return {}


def measure(part: str, options: Namespace) -> None:
    """Measures the rows of a part that are not written yet, until the minutes are over."""
    path = options.out / f"{part}.json"
    done = read_rows(path)

    def write(name: str, row: Row) -> None:
        done[name] = row
        content = {"environment": environment(options.device), "rows": done}
        write_text(path, json.dumps(content, indent=2) + "\n")

    for name, row in PARTS[part](options).items():
        if name in done or time.monotonic() > options.deadline:
            continue
        write(name, {"error": "the process ended"})  # stays if it does
        try:
            write(name, row())
        except Exception as error:  # whatever it is, the other rows are wanted
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            write(name, {"error": reason[:200]})
        print(part, name, json.dumps(done[name]), flush=True)
        gc.collect()
        wait_for(options.device)  # after a fault of the GPU this fails, and ends the process
        if options.device.type == "cuda":
            torch.cuda.empty_cache()


def run_part(part: str, arguments: Sequence[str], options: Namespace) -> None:
    """Measures a part in its own process, because a fault of the GPU ends the process. Rows that
    failed in an earlier command are measured again."""
    path, share = options.out / f"{part}.json", 0.5 if part == "agreement-compiled" else 1.0
    if rows := read_rows(path):
        kept = {name: row for name, row in rows.items() if "error" not in row}
        content = {**json.loads(path.read_text("utf-8")), "rows": kept}
        write_text(path, json.dumps(content, indent=2) + "\n")
    deadline = time.monotonic() + share * (options.deadline - time.monotonic())
    while (seconds := deadline - time.monotonic()) > 0:
        n_row = len(read_rows(path))
        command = [sys.executable, "-m", "benchmarks.gpu", *arguments]
        command += ["--parts", part, "--minutes", str(seconds / 60), "--here"]
        process = subprocess.Popen(command, env=ENVIRONMENT)  # nosec B603  # this Python
        try:
            failed = process.wait(seconds) != 0
        except subprocess.TimeoutExpired:
            process.kill()  # files are written whole
            process.wait()
            return
        if not failed or len(read_rows(path)) == n_row:
            return


def train(options: Namespace) -> None:
    """Trains a recipe until the minutes are over, or continues. Writes how far it has come."""
    run = options.out / "run"
    seconds = options.deadline - time.monotonic() - RESERVE
    if seconds <= 0:
        return
    sets = [word for value in options.set for word in ("--set", value)]
    command = [sys.executable, "-m", "calcgpt", "train", "--recipe", options.recipe, "--quiet"]
    command += ["--out", str(run), "--device", str(options.device), "--resume", *sets]
    process = subprocess.Popen(command, env=ENVIRONMENT)  # nosec B603  # this Python
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)  # it saves its state
        try:
            process.wait(RESERVE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    rows = [row for _, row in step_lines(run / "metrics.jsonl")]
    content = {"command": command, "exit_code": process.returncode, "rows": rows}
    write_text(options.out / "run.json", json.dumps(content) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the parts in order."""
    parser = ArgumentParser(description="Measure and train on a GPU.")
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--device", type=torch.device, default=torch.device("cuda"))
    parser.add_argument("--tiny", action="store_true", help="a dry run, in seconds on a CPU")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--checkpoint", default="scratchpad-long")
    parser.add_argument("--recipe", default="scratchpad-long", help="what the last part trains")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--parts", nargs="*", choices=[*PARTS, "train"], default=[*PARTS, "train"])
    parser.add_argument("--here", action="store_true", help="without a process for each part")
    arguments = sys.argv[1:] if arguments is None else arguments
    options = parser.parse_args(arguments)
    options.deadline = time.monotonic() + 60 * options.minutes
    options.runs = 1 if options.tiny else options.runs
    options.out.mkdir(parents=True, exist_ok=True)
    for part in options.parts:
        if part == "train":
            train(options)
        elif options.here:
            measure(part, options)
        else:
            run_part(part, arguments, options)


if __name__ == "__main__":
    main()
