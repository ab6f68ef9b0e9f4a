"""The benchmark of model sizes counts parameters and problems as they were in training."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

pytest.importorskip("matplotlib", reason="the extra `lab` installs it")
from benchmarks.low_rank import LowRankGPT, main
from benchmarks.shared_layers import SharedLayers
from benchmarks.sizes import measure
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import Recipe
from calcgpt.data.tokenizer import TOKENIZERS
from calcgpt.model.gpt import GPT, MODELS, LanguageModel, build_model
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


def test_matrices_have_at_most_the_rank_and_begin_near_those_of_an_ordinary_model() -> None:
    recipe = load_recipe("nano")
    width = recipe.model.n_embd
    for rank, same in ((width, True), (width // 4, False)):
        torch.manual_seed(1)
        ordinary = build_model(recipe.model, len(TOKENIZER)).eval()
        torch.manual_seed(1)
        model = LowRankGPT(rank, recipe.model, len(TOKENIZER)).eval()
        tokens_BT = torch.arange(len(TOKENIZER))[None]
        logits = model(tokens_BT)
        assert torch.allclose(logits, ordinary(tokens_BT), atol=1e-5) == same
        model.merge()
        assert torch.allclose(logits, model(tokens_BT), atol=1e-5)
        assert model.state_dict().keys() == ordinary.state_dict().keys()
        assert all(
            torch.linalg.matrix_rank(weight) <= rank
            for name, weight in model.named_parameters()
            if name.startswith("blocks.") and weight.dim() == 2
        )


def test_a_low_rank_run_is_continued_and_merged(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS, "gpt", MODELS["gpt"])  # the command replaces it
    runner = CliRunner()
    run, out = tmp_path / "run", tmp_path / "merged"
    options = f"--recipe nano --data {data_folder} --out {run} --set train.schedule=constant"
    for more in ("--set train.steps=2", "--set train.steps=4 --resume"):
        result = runner.invoke(main, ["2", "train", *options.split(), *more.split()])
        assert result.exit_code == 0, result.output
    result = runner.invoke(main, ["2", "merge", str(run / "step-00000004"), str(out)])
    assert result.exit_code == 0, result.output

    recipe = Checkpoint.load(out).recipe
    factors = Checkpoint.load(run / "step-00000004").model
    assert measure(out, {}, "torch", None)["parameters"] == factors.n_parameters()
    tokens_BT = torch.arange(len(TOKENIZER))[None]
    logits = factors(tokens_BT)
    monkeypatch.setitem(MODELS, "gpt", GPT)
    merged = Checkpoint.load(out).model
    assert type(merged) is GPT
    assert merged.config == recipe.model
    assert torch.allclose(merged(tokens_BT), logits, atol=1e-5)
