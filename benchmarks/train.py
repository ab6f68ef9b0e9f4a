"""Training speed of a Llama: CalcGPT's model against that of transformers, in the same loop.

    python -m benchmarks.train [--json FILE]

Both models have the same shape and weights. The loop is CalcGPT's step: cross-entropy, backward,
fused AdamW. There are two shapes. With the blog's, 8 layers of 96 and batches of 16 by 128 tokens,
matrix products take most of the time; with `nano`, 2 layers of 32 and 16 by 64 tokens, calls do.
The models must agree in their losses before they are timed. They take turns, and the table compares
the medians.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.measure import alternate, environment, parser, show, summary, write
from calcgpt.config import ModelConfig, TrainConfig
from calcgpt.export.hf_classes import hf_class_of
from calcgpt.model.gpt import build_model
from calcgpt.model.parameters import count
from calcgpt.recipe import load_preset
from calcgpt.training.optim import OPTIMIZERS

PEER = "transformers"
VOCABULARY, BATCH, STEPS = 21, 16, 8
Forward = Callable[[torch.Tensor], torch.Tensor]  # tokens (B, T) -> logits (B, T, V)


class Loop:
    """Training steps on one batch, with a function that calls the model."""

    def __init__(self, model: nn.Module, forward: Forward, batch: torch.Tensor) -> None:
        self.forward, self.batch = forward, batch
        [self.optimizer] = OPTIMIZERS["adamw"](model.train(), TrainConfig())

    def step(self) -> torch.Tensor:
        """Does one step. Returns its loss."""
        logits_BTV = self.forward(self.batch[:, :-1])
        loss = F.cross_entropy(logits_BTV.flatten(0, 1), self.batch[:, 1:].flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def rate(self) -> float:
        """Returns tokens per second over a few steps."""
        start = time.perf_counter()
        losses = [self.step() for _ in range(STEPS)]
        float(losses[-1])  # waits for the device
        return STEPS * self.batch[:, 1:].numel() / (time.perf_counter() - start)


def loops(config: ModelConfig, device: torch.device) -> dict[str, Loop]:
    """Returns loops of both models with the same weights. Exits if their losses differ."""
    torch.manual_seed(0)
    gpt = build_model(config, VOCABULARY).to(device)
    _, hf_class = hf_class_of(config)
    peer = hf_class.build(gpt, bos_token_id=None, eos_token_id=None, pad_token_id=None)
    peer = peer.to(device)
    batch = torch.randint(VOCABULARY, (BATCH, config.block_size + 1), device=device)
    both = {
        "calcgpt": Loop(gpt, gpt, batch),
        PEER: Loop(peer, lambda tokens: peer(tokens, use_cache=False).logits, batch),
    }
    own, peers = ([float(loop.step()) for _ in range(3)] for loop in both.values())
    if not torch.allclose(torch.tensor(own), torch.tensor(peers), rtol=1e-4):
        sys.exit(f"the losses differ: {own} and {peers}")
    return both


def compare(config: ModelConfig, device: torch.device, runs: int) -> dict[str, Any]:
    """Returns the results of one shape."""
    timed = {name: loop.rate for name, loop in loops(config, device).items()}
    parameters = sum(count(config, VOCABULARY).values())
    return {"parameters": parameters, **summary(alternate(timed, runs), PEER)}


def main() -> None:
    """Runs the benchmark and prints its tables."""
    options = parser("Time training against transformers.", runs=15)
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    device = torch.device(arguments.device)

    results = {}
    for preset in ("llama", "nano"):
        results[preset] = compare(load_preset(preset), device, arguments.runs)
        show(f"training, preset {preset}", results[preset], "tokens")
    used = environment(device, "transformers")
    write(arguments.json, {"environment": used, "runs": arguments.runs, **results})


if __name__ == "__main__":
    main()
