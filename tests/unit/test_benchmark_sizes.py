"""The benchmark of model sizes counts what a model was trained on."""

from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="the extra `lab` installs it")
from benchmarks.sizes import measure
from calcgpt.checkpoint import Checkpoint
from calcgpt.data.tokenizer import TOKENIZERS
from calcgpt.model.gpt import build_model
from calcgpt.recipe import load_recipe


def test_micro_batches_share_the_problems_of_a_step(tmp_path: Path) -> None:
    settings = ("train.steps=10", "train.batch_size=8", "train.grad_accum=2")
    recipe, tokenizer = load_recipe("nano", settings), TOKENIZERS["arithmetic"]("")
    model = build_model(recipe.model, len(tokenizer))
    Checkpoint.from_model("small", recipe, tokenizer, model, {}).save(tmp_path / "small")
    assert measure(tmp_path / "small", {}, "torch", None)["problems"] == 80
