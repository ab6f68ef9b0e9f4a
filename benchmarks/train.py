"""Training speed: CalcGPT against transformers' model, and against nanoGPT's model and loop.

    python -m benchmarks.train [--threads N] [--json FILE]

**transformers** has a Llama of the same shape and weights, in CalcGPT's loop: cross-entropy,
backward, fused AdamW. With the blog's shape, 8 layers of 96 and batches of 16 by 128 tokens, matrix
products take most of the time; with `nano`, 2 layers of 32 and 16 by 64 tokens, calls do.

**nanoGPT** (`benchmarks.train_peer`) has a GPT-2 without biases that reads text, and its own loop;
CalcGPT trains the same model with its `Trainer`. `text-small` is nanoGPT's shape for a CPU,
`text-large` its shape for a GPU with an eighth of the batch. Both train eagerly and compiled.

The models must agree in their losses before they are timed. They take turns, and the tables compare
the medians. With one thread, times are those of the processor.
"""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks import train_peer
from benchmarks.measure import alternate, clock_of, environment, parser, run, show, summary, write
from benchmarks.train_peer import PeerLoop, Shape
from calcgpt.config import ModelConfig, Recipe, TrainConfig
from calcgpt_lab.data.sources import DataFolder
from calcgpt_lab.export.hf import build_llama
from calcgpt_lab.model.base import Loss, summed_loss
from calcgpt_lab.model.gpt import build_model
from calcgpt_lab.model.parameters import count
from calcgpt_lab.recipe import load_preset
from calcgpt_lab.training.optim import OPTIMIZERS
from calcgpt_lab.training.run_folder import RunFolder
from calcgpt_lab.training.train import Trainer

PEER, PEER_LOOP = "transformers", "nanoGPT"
VOCABULARY, BATCH, STEPS = 21, 16, 8
TEXTS = {"text-small": Shape(4, 4, 128, 64, 12), "text-large": Shape(6, 6, 384, 256, 8)}
TOKENS = 20_000  # of a text in one measurement, about
CHECKED = 3  # first steps whose losses are compared
TOLERANCE, TOLERANCE_BF16 = 1e-4, 1e-3  # of these losses, relative


class Loop:
    """Training steps on one batch, with a function that returns the model's loss, summed."""

    def __init__(self, model: nn.Module, loss: Loss, batch: torch.Tensor) -> None:
        self.loss, self.batch = loss, batch
        [self.optimizer] = OPTIMIZERS["adamw"](model.train(), TrainConfig())

    def step(self) -> torch.Tensor:
        """Does one step. Returns its loss."""
        targets = self.batch[:, 1:]
        loss = self.loss(self.batch[:, :-1], targets) / targets.numel()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def rate(self) -> float:
        """Returns tokens per second over a few steps."""
        return rate(self.step, self.batch.device, STEPS, self.batch[:, 1:].numel())


def rate(
    step: Callable[[], torch.Tensor], device: torch.device, n_step: int, n_token: int
) -> float:
    """Returns tokens per second over a few steps of `n_token` tokens each."""
    clock = clock_of(device)
    start = clock()
    losses = [step() for _ in range(n_step)]
    float(losses[-1])  # waits for the device
    return n_step * n_token / (clock() - start)


def loops(config: ModelConfig, device: torch.device) -> dict[str, Loop]:
    """Returns loops of both models with the same weights. Exits if their losses differ."""
    torch.manual_seed(0)
    gpt = build_model(config, VOCABULARY).to(device)
    peer = build_llama(gpt, bos_token_id=None, eos_token_id=None, pad_token_id=None)
    peer = peer.to(device)
    batch = torch.randint(VOCABULARY, (BATCH, config.block_size + 1), device=device)

    def peer_logits(tokens_BT: torch.Tensor, features: None) -> torch.Tensor:
        logits_BTV: torch.Tensor = peer(tokens_BT, use_cache=False).logits
        return logits_BTV

    both = {
        "calcgpt": Loop(gpt, summed_loss(gpt), batch),
        PEER: Loop(peer, summed_loss(peer_logits), batch),
    }
    gpt_losses, peer_losses = ([float(loop.step()) for _ in range(3)] for loop in both.values())
    if not torch.allclose(torch.tensor(gpt_losses), torch.tensor(peer_losses), rtol=1e-4):
        sys.exit(f"the losses differ: {gpt_losses} and {peer_losses}")
    return both


def compare(config: ModelConfig, device: torch.device, runs: int) -> dict[str, Any]:
    """Returns the results of one shape against transformers."""
    timed = {name: loop.rate for name, loop in loops(config, device).items()}
    parameters = sum(count(config, VOCABULARY).values())
    return {"parameters": parameters, **summary(alternate(timed, runs), PEER)}


def peer_config(shape: Shape) -> ModelConfig:
    """Returns the model of `train_peer` as CalcGPT's."""
    return ModelConfig(
        block_size=shape.context,
        n_layer=shape.layers,
        n_embd=shape.width,
        n_head=shape.heads,
        feedforward="gelu",
        norm_bias=False,
        attn_out_bias=False,
        head_bias=False,
        tie_embeddings=True,
        init="gpt2",
    )


def random_text(vocabulary: int, n_token: int = 200_000) -> np.ndarray:
    """Returns a text of token ids in which one of four ids follows each, (n_token,)."""
    return np.random.default_rng(0).integers(4, size=n_token).cumsum() % vocabulary


def trainer(
    config: ModelConfig, shape: Shape, device: torch.device, bf16: bool, compile: bool
) -> Trainer:
    """Returns CalcGPT's trainer with the text and the settings of the peer."""
    train = TrainConfig(
        batches="stream",
        join_lines=False,
        batch_size=shape.batch,
        steps=train_peer.STEPS,
        lr=train_peer.LR,
        schedule="cosine",
        warmup_steps=train_peer.WARMUP,
        min_lr_ratio=train_peer.MIN_LR / train_peer.LR,
        weight_decay=train_peer.WEIGHT_DECAY,
        decayed="matrices",
        beta1=train_peer.BETAS[0],
        beta2=train_peer.BETAS[1],
        grad_clip=train_peer.GRAD_CLIP,
        precision="bf16" if bf16 else "fp32",
        compile=compile,
        eval_problems=0,
    )
    recipe = Recipe(tokenizer="chars", model=config, train=train)
    characters = "".join(map(chr, random_text(shape.vocabulary) + ord("0")))
    data = DataFolder(Path(), characters, characters, False, "")
    return Trainer(recipe, data, RunFolder(Path()), device)  # nothing is written


def beside_peer(
    shape: Shape, device: torch.device, bf16: bool, compile: bool
) -> tuple[dict[str, Callable[[], torch.Tensor]], dict[str, Any]]:
    """Returns steps of both loops, which begin with the same weights, and evidence that they do the
    same work: the number of parameters, and the losses of the first steps."""
    gpt_trainer = trainer(peer_config(shape), shape, device, bf16, compile)
    peer = PeerLoop(shape, random_text(shape.vocabulary), device, bf16, compile)
    with torch.no_grad():
        pairs = zip(peer.model.parameters(), gpt_trainer.model.parameters(), strict=True)
        for target, source in pairs:
            target.copy_(source)
    losses: dict[str, list[float]] = {"calcgpt": [], PEER_LOOP: []}
    for step in range(CHECKED):
        batch = gpt_trainer.train_batches.batch(step, shape.batch)
        losses["calcgpt"].append(float(gpt_trainer.train_step()))
        copies = (part.contiguous().to(device) for part in batch)
        losses[PEER_LOOP].append(float(peer.train_on(*copies)))
    differences = np.divide(losses["calcgpt"], losses[PEER_LOOP]) - 1
    return {"calcgpt": gpt_trainer.train_step, PEER_LOOP: peer.step}, {
        "parameters": gpt_trainer.model.n_parameters(),
        "first_losses": losses,
        "agrees": bool(np.abs(differences).max() < (TOLERANCE_BF16 if bf16 else TOLERANCE)),
    }


def compare_text(shape: Shape, device: torch.device, runs: int) -> dict[str, Any]:
    """Returns the results of one shape against nanoGPT: in both precisions, eager and compiled.
    Exits if the losses differ."""
    n_token = shape.batch * shape.context
    n_step = max(1, TOKENS // n_token)
    timed, checks = {}, {}
    torch.compiler.reset()  # otherwise torch compiles for variable sizes
    for precision in ("fp32", "bf16"):
        for way in ("eager", "compiled"):
            steps, checks[f"{precision}, {way}"] = beside_peer(
                shape, device, precision == "bf16", way == "compiled"
            )
            for name, step in steps.items():
                timed[f"{name}, {precision}, {way}"] = partial(rate, step, device, n_step, n_token)
    if not all(check["agrees"] for check in checks.values()):
        sys.exit(f"the losses differ: {checks}")
    rates = alternate(timed, runs)
    median = summary(rates, f"{PEER_LOOP}, fp32, eager")["median_per_second"]
    fastest = max((name for name in median if name.startswith(PEER_LOOP)), key=median.__getitem__)
    ratios = {way: median[f"calcgpt, {way}"] / median[f"{PEER_LOOP}, {way}"] for way in checks}
    return {
        "same_work": checks,
        "ratio_alike": {way: round(ratio, 2) for way, ratio in ratios.items()},
        **summary(rates, fastest),
    }


def main() -> None:
    """Runs the benchmark and prints its tables."""
    options = parser("Time training against transformers and nanoGPT.", runs=15)
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--only", choices=["llama", "nano", *TEXTS], action="append")
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    device = torch.device(arguments.device)

    results = {}
    for preset in ("llama", "nano"):
        if preset in (arguments.only or [preset]):
            results[preset] = compare(load_preset(preset), device, arguments.runs)
            show(f"training, preset {preset}", results[preset], "tokens")
    for name, shape in TEXTS.items():
        if name in (arguments.only or [name]):
            results[name] = compare_text(shape, device, arguments.runs)
            show(f"training, {name}, ratio to the fastest peer", results[name], "tokens")
            print("ratio in the same way:", results[name]["ratio_alike"])
    machine = environment(device, "transformers")
    write(arguments.json, {"environment": machine, "runs": arguments.runs, **results})


if __name__ == "__main__":
    run(main)
