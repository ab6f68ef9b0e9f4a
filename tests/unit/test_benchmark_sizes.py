"""The benchmark of model sizes counts parameters and problems as they were in training."""

from pathlib import Path

import pytest
import torch

pytest.importorskip("matplotlib", reason="the extra `lab` installs it")
from benchmarks.shared_layers import SharedLayers
from benchmarks.sizes import measure
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import Recipe
from calcgpt.data.tokenizer import TOKENIZERS
from calcgpt.model.gpt import LanguageModel, build_model
from calcgpt.recipe import load_recipe

TOKENIZER = TOKENIZERS["arithmetic"]("")


def saved(folder: Path, model: LanguageModel, recipe: Recipe) -> Path:
    metrics = {"parameters": model.n_parameters()}
    Checkpoint.from_model("small", recipe, TOKENIZER, model, metrics).save(folder)
    return folder


def test_micro_batches_share_the_problems_of_a_step(tmp_path: Path) -> None:
    recipe = load_recipe("nano", ("train.steps=10", "train.batch_size=8", "train.grad_accum=2"))
    model = build_model(recipe.model, len(TOKENIZER))
    assert measure(saved(tmp_path / "small", model, recipe), {}, "torch", None)["problems"] == 80


def test_layers_that_share_their_parameters_count_once(tmp_path: Path) -> None:
    recipe = load_recipe("nano", ("model.n_layer=3",))
    model = SharedLayers(recipe.model, len(TOKENIZER)).eval()
    one_layer = build_model(recipe.model.model_copy(update={"n_layer": 1}), len(TOKENIZER))
    assert model.n_parameters() == one_layer.n_parameters()

    folder = saved(tmp_path / "shared", model, recipe)
    assert measure(folder, {}, "torch", None)["parameters"] == model.n_parameters()
    tokens_BT = torch.arange(len(TOKENIZER))[None]
    assert torch.equal(Checkpoint.load(folder).model(tokens_BT), model(tokens_BT))


def test_training_keeps_the_layers_equal() -> None:
    recipe = load_recipe("nano", ("model.n_layer=3",))
    model = SharedLayers(recipe.model, len(TOKENIZER))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = {name: value.clone() for name, value in model.blocks[0].state_dict().items()}
    model(torch.arange(len(TOKENIZER))[None]).logsumexp(dim=-1).sum().backward()
    optimizer.step()
    first, *others = [block.state_dict() for block in model.blocks]
    assert not torch.equal(first["attn.out.weight"], before["attn.out.weight"])
    for block in others:
        assert all(torch.equal(first[name], value) for name, value in block.items())
