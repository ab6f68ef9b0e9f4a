"""Trains a model whose matrices have a low rank (research/SIZE.md).

    python -m research.low_rank RANK train [OPTIONS OF calcgpt train]
    python -m research.low_rank RANK merge CHECKPOINT OUT

Each matrix W (out, in) of a layer is a product U V of two smaller ones, (out, RANK) and (RANK, in).
They begin as the best approximation of the W that an ordinary model begins with (spectral
initialisation; Khodak et al. 2021). A checkpoint of the training has the two factors. Continue an
interrupted run with this command, too. `merge` multiplies the factors: it writes an ordinary
checkpoint, which every command and every engine can use. Its `metrics.json` counts the parameters
of the factors.

Ran at commit 212e06a and before.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch
from torch import nn

from benchmarks.measure import run
from calcgpt.checkpoint import Checkpoint
from calcgpt.cli import cli
from calcgpt.errors import CheckpointError
from calcgpt.model.gpt import GPT, MODELS
from calcgpt.model.layers import Linear


class LowRankLinear(nn.Module):
    """y = x V^T U^T + b, (..., in) -> (..., out), for U (out, rank) and V (rank, in)."""

    def __init__(self, layer: Linear, rank: int) -> None:
        super().__init__()
        self.v = Linear(layer.in_features, rank, bias=False)
        self.u = Linear(rank, layer.out_features, bias=layer.bias is not None)
        with torch.no_grad():
            u, singular, v = torch.linalg.svd(layer.weight, full_matrices=False)
            root = singular[:rank].sqrt()
            self.u.weight.copy_(u[:, :rank] * root)
            self.v.weight.copy_(root[:, None] * v[:rank])
            if layer.bias is not None:
                self.u.bias.copy_(layer.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.u(self.v(x))
        return y

    def merged(self) -> Linear:
        """Returns one layer with the same output."""
        layer = Linear(self.v.in_features, self.u.out_features, bias=self.u.bias is not None)
        with torch.no_grad():
            layer.weight.copy_(self.u.weight @ self.v.weight)
            if self.u.bias is not None:
                layer.bias.copy_(self.u.bias)
        return layer


class LowRankGPT(GPT):
    """A GPT whose layers have matrices of at most a rank. The embedding and the head do not."""

    def __init__(self, rank: int, *arguments: Any) -> None:
        super().__init__(*arguments)
        _replace(self.blocks, Linear, lambda layer: LowRankLinear(layer, rank))

    def merge(self) -> None:
        """Makes this an ordinary model with the same output."""
        _replace(self.blocks, LowRankLinear, LowRankLinear.merged)


def _replace(blocks: nn.Module, kind: type[nn.Module], new: Callable[[Any], nn.Module]) -> None:
    """Replaces each layer of a kind by what `new` makes of it."""
    for name, layer in list(blocks.named_modules()):
        if isinstance(layer, kind):
            blocks.set_submodule(name, new(layer))


@click.group(help=__doc__)
@click.argument("rank", type=click.IntRange(1))
def main(rank: int) -> None:
    MODELS["gpt"] = partial(LowRankGPT, rank)  # type: ignore[assignment]


@main.command(context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def train(options: tuple[str, ...]) -> None:
    cli(["train", *options])


@main.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
def merge(checkpoint: Path, out: Path) -> None:
    saved = Checkpoint.load(checkpoint)
    model = saved.model
    if not isinstance(model, LowRankGPT):
        raise CheckpointError(f"{checkpoint} is not a GPT, so it has no factors to merge")
    model.merge()
    Checkpoint.from_model(out.name, saved.recipe, saved.tokenizer, model, saved.metrics).save(out)


if __name__ == "__main__":
    run(main)
