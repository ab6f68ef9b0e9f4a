"""Runs of a model so small that it trains within a second."""

import json
from pathlib import Path

import torch
from safetensors.torch import load_file

from calcgpt.config import Recipe
from calcgpt_lab.recipe import load_recipe
from calcgpt_lab.training.train import train
from datagen.notation import WORK_ALPHABET

CPU = torch.device("cpu")
SMALL = [
    "model.n_layer=1",
    "model.n_embd=16",
    "model.n_head=2",
    "train.batch_size=8",
    "train.steps=20",
    "train.warmup_steps=4",
    "train.eval_batches=2",
    "train.eval_problems=4",
    "train.eval_interval=10",
    "train.checkpoint_interval=5",
    "train.log_interval=5",
]
NO_ANSWERS = "train.eval_problems=0"  # an untrained model writes slow answers
FRESH = (  # problems that are drawn in training
    "tokenizer=scratchpad",
    "model.block_size=256",
    "data.mixture.blog=2",
    "data.mixture.calculator=1",
)
CASES = (  # without text
    "tokenizer=scratchpad",
    "model.architecture=sources",
    f"model.characters={WORK_ALPHABET}",
    "data.mixture.blog=1",
    "train.batches=cases",
    "train.weights=int8",
)


def recipe(*overrides: str) -> Recipe:
    """The recipe `nano`, made small."""
    return load_recipe("nano", (*SMALL, *overrides))


def run(data: Path | None, out: Path, *overrides: str, **options: bool) -> Path:
    return train(recipe(*overrides), data, out, progress=False, **options)


def rows(out: Path) -> list[dict[str, float]]:
    """The metrics of a run."""
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    # Copies: the tensors of load_file are a view of the file.
    return {k: v.clone() for k, v in load_file(folder / "model.safetensors").items()}


def assert_same(actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name in actual:
        assert torch.equal(actual[name], expected[name]), name


def assert_same_state(actual: Path, expected: Path) -> None:
    """Checks that two checkpoints have the same weights and the same state of the training."""
    for name in ("model.safetensors", "training.safetensors"):
        assert_same(load_file(actual / name), load_file(expected / name))
