"""What is to be known about CalcGPT on a GPU, as one command.

    python -m benchmarks.gpu --out docs/results/gpu [--minutes 9] [--set FIELD=VALUE ...]
    python -m benchmarks.gpu --out /tmp/gpu --device cpu --tiny

docs/GPU.md says what each part measures. A part writes `PART.json` after each of its rows. What is
there is not measured again, so a command that ran out of minutes is simply repeated. The last part
trains for what is left of them, and continues where it stopped.
"""

import json
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
from torch.nn import functional as F

from benchmarks.measure import alternate, environment, summary
from benchmarks.train import Loop
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
# Parameters, about -> layers, width, heads, context, sequences of a batch.
SIZES = {
    "1M": (5, 128, 4, 256, 128),
    "10M": (6, 384, 6, 1024, 64),
    "100M": (12, 768, 12, 1024, 32),
}
TINY = {"tiny": (1, 32, 4, 32, 2)}
RESERVE = 25.0  # seconds in which training saves its state and ends
Row = dict[str, Any]
Rows = dict[str, Callable[[], Row]]


class PeerBlock(nn.Module):
    """Attention and feed-forward of GPT-2."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.shape
        qkv = self.qkv(self.norm1(x)).view(B, T, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        y = self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
        x = x + y
        return x


class Peer(nn.Module):
    """A plain GPT-2 in the manner of nanoGPT: what the training speed is compared with."""

    def __init__(self, layers: int, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(PeerBlock(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens_BT: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens_BT) + self.places.weight[: tokens_BT.size(1)]
        logits_BTV: torch.Tensor = self.head(self.norm(self.blocks(x)))
        return logits_BTV


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


def losses(config: ModelConfig, device: torch.device, bf16: bool, compile: bool) -> torch.Tensor:
    """Returns the losses of a few steps from the same weights, (STEPS,), on the CPU."""
    if compile:
        torch.compiler.reset()  # there is a limit to what it compiles of one function
    torch.manual_seed(0)
    model = build_model(config, VOCABULARY)
    batch = torch.randint(VOCABULARY, (8, config.block_size + 1)).to(device)
    model = model.to(device)
    loop = Loop(model, _forward(model, device, bf16, compile), batch)
    return torch.stack([loop.step() for _ in range(STEPS)]).cpu()


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

    def row(config: ModelConfig) -> Row:
        expected = losses(config, torch.device("cpu"), bf16=False, compile=False)
        differences = {
            name: float((losses(config, options.device, bf16, compile) / expected - 1).abs().max())
            for name, bf16 in (("float32", False), ("bf16", True))
        }
        return {**differences, "agrees": differences["float32"] < TOLERANCE}

    small = {"n_layer": 1 if options.tiny else 2, "block_size": 16 if options.tiny else 128}
    table = {name: config.model_copy(update=small) for name, config in variants().items()}
    names = list(table)[:: 9 if options.tiny else 1]
    return {name: partial(row, table[name]) for name in names}


def training(options: Namespace) -> Rows:
    """Tokens per second, and the share of the product's rate measured at the same time."""
    device, sizes = options.device, TINY if options.tiny else SIZES

    def row(layers: int, width: int, heads: int, context: int, batch: int) -> Row:
        update = {"n_layer": layers, "n_embd": width, "n_head": heads, "block_size": context}
        configs = {name: load_preset(name).model_copy(update=update) for name in ("gpt2", "llama")}
        models: dict[str, Callable[[], nn.Module]] = {
            "nanoGPT-like": partial(Peer, layers, width, heads, context),
            **{name: partial(build_model, config, VOCABULARY) for name, config in configs.items()},
        }
        tokens = torch.randint(VOCABULARY, (batch, context + 1), device=device)
        peak = measured_rate(device, True, 64 if options.tiny else 8192)
        contestants = {}
        if not options.tiny:
            torch.compiler.reset()
        for compile in (False,) if options.tiny else (False, True):
            for name, build in models.items():
                model = build().to(device)
                loop = Loop(model, _forward(model, device, True, compile), tokens)
                contestants[f"{name}, {'compiled' if compile else 'eager'}"] = loop.rate
        first = next(reversed([name for name in contestants if name.startswith("nanoGPT")]))
        compared = summary(alternate(contestants, options.runs), first)
        flops = {name: 3 * sum(operations(c, VOCABULARY).values()) for name, c in configs.items()}
        rates = compared["median_per_second"]
        return {
            "parameters": {n: sum(count(c, VOCABULARY).values()) for n, c in configs.items()},
            **compared,
            "utilisation": {
                name: rate * flops.get(name.partition(",")[0], flops["gpt2"]) / peak
                for name, rate in rates.items()
            },
            "product_flop_per_s": peak,
        }

    return {name: partial(row, *size) for name, size in sizes.items()}


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


def measure(part: str, options: Namespace) -> None:
    """Measures the rows of a part that are not there yet, until the minutes are over."""
    path = options.out / f"{part}.json"
    done: dict[str, Row] = {}
    with suppress(FileNotFoundError):
        done = json.loads(path.read_text("utf-8"))["rows"]
    for name, row in PARTS[part](options).items():
        if name in done or time.monotonic() > options.deadline:
            continue
        try:
            done[name] = row()
        except RuntimeError as error:  # out of memory, or a kernel that does not exist
            done[name] = {"error": str(error).splitlines()[0][:200]}
        print(part, name, json.dumps(done[name]), flush=True)
        content = {"environment": environment(options.device), "rows": done}
        write_text(path, json.dumps(content, indent=2) + "\n")


def train(options: Namespace) -> None:
    """Trains a recipe until the minutes are over, or continues. Writes how far it has come."""
    run = options.out / "run"
    seconds = options.deadline - time.monotonic() - RESERVE
    if seconds <= 0:
        return
    sets = [word for value in options.set for word in ("--set", value)]
    command = [sys.executable, "-m", "calcgpt", "train", "--recipe", options.recipe, "--quiet"]
    command += ["--out", str(run), "--device", str(options.device), "--resume", *sets]
    process = subprocess.Popen(command)  # nosec B603  # this Python
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        process.wait()
    rows = [row for _, row in step_lines(run / "metrics.jsonl")]
    write_text(options.out / "run.json", json.dumps({"command": command, "rows": rows}) + "\n")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the parts in order."""
    parser = ArgumentParser(description="Measure and train on a GPU.")
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--device", type=torch.device, default=torch.device("cuda"))
    parser.add_argument("--tiny", action="store_true", help="a dry run, in seconds on a CPU")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--checkpoint", default="scratchpad")
    parser.add_argument("--recipe", default="scratchpad", help="what the last part trains")
    parser.add_argument("--set", action="append", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--parts", nargs="*", choices=[*PARTS, "train"], default=[*PARTS, "train"])
    options = parser.parse_args(arguments)
    options.deadline = time.monotonic() + 60 * options.minutes
    options.runs = 1 if options.tiny else options.runs
    options.out.mkdir(parents=True, exist_ok=True)
    for part in options.parts:
        train(options) if part == "train" else measure(part, options)


if __name__ == "__main__":
    main()
