"""What `calcgpt info` prints."""

import dataclasses
import re
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from calcgpt.checkpoint import Checkpoint
from calcgpt.cli import cli
from calcgpt.config import ModelConfig
from calcgpt.errors import CheckpointError
from calcgpt.registry import resolve
from calcgpt_lab.model.gpt import build_model
from calcgpt_lab.model.parameters import formulas
from calcgpt_lab.recipe import load_recipe
from calcgpt_lab.saving import save
from calcgpt_lab.studies.info import choices, parameter_table, training
from calcgpt_lab.training.environment import record_start
from calcgpt_lab.training.run_folder import RunFolder


@pytest.mark.parametrize(
    "config",
    [
        ModelConfig(),
        ModelConfig(position="shaw", attention="landmark", n_kv_head=2, qk_norm=True),
        ModelConfig(architecture="bigram"),
        ModelConfig(architecture="sources"),
    ],
)
def test_the_formulas_give_the_number_of_the_models_parameters(config: ModelConfig) -> None:
    rows, legend = parameter_table(config, 21).split("\n\n")
    letters = {
        match[1]: int(match[2].replace(",", ""))
        for match in re.finditer(r"^(\w) = ([\d,]+)", legend, re.MULTILINE)
    }
    *parts, last = rows.splitlines()
    total = 0
    for row in parts:
        part, formula, number = re.split(r"\s{2,}", row)
        expression = formulas(config)[part]
        assert formula == str(expression)
        assert expression.subs(letters) == int(number.replace(",", ""))
        total += int(number.replace(",", ""))
    model = build_model(config, 21)
    assert total == model.n_parameters()
    assert re.fullmatch(rf"all .*\b{total:,}", last)


def test_choices_list_the_variants_and_the_changed_fields() -> None:
    variants, changed = choices(ModelConfig(position="rope", n_layer=3)).splitlines()
    assert "position = rope" in variants
    assert "feedforward = relu" in variants
    assert "characters" not in variants
    assert changed == "n_layer = 3"
    bigram = ModelConfig(architecture="bigram", block_size=64, position="rope", n_layer=3)
    assert choices(bigram) == "architecture = bigram\nblock_size = 64"


def test_the_command_shows_a_checkpoint_or_a_recipe(tiny_folder: Path) -> None:
    result = CliRunner().invoke(cli, ["info", str(tiny_folder)], catch_exceptions=False)
    assert "n_layer = 1" in result.output
    options = ["--recipe", "nano", "--set", "model.preset=mpt"]
    result = CliRunner().invoke(cli, ["info", *options], catch_exceptions=False)
    assert "position = alibi" in result.output
    assert "V = 21 " in result.output


def test_a_run_shows_its_best_checkpoint_and_its_environment(
    tiny: Checkpoint, tmp_path: Path
) -> None:
    run = RunFolder(tmp_path / "run")
    scores = {
        "n": 4,
        "char_accuracy": 0.5,
        "by_operation": {"*": {"n": 4, "char_accuracy": 0.5, "exact_match": 0.25}},
    }
    for step, exact in ((10, 0.25), (1_500, 0.75), (2_000, 0.5)):
        metrics = {
            **tiny.metrics,
            "step": step,
            "tokens": 1_234_567,
            "seconds": 3723.4,
            "val_loss": 1.0,
            "data_sha256": "abc" * 20,
            "validation": {**scores, "exact_match": exact},
        }
        save(dataclasses.replace(tiny, metrics=metrics), run.step_folder(step))
    for step, seed in ((0, 1), (500, 2), (1_500, 3)):  # the last one started later
        recipe = load_recipe("nano", (f"train.seed={seed}",))
        record_start(run, recipe, data_sha256="abc", device=torch.device("cpu"), step=step)
    folder = resolve(str(run.path))
    assert folder == run.step_folder(1_500)
    progress, table, environment = training(Checkpoint.load(folder), folder).split("\n\n")
    assert "step 1,500 of 5,000, 1,234,567 tokens, 1:02:03 of training" in progress
    assert "validation loss 1.000, perplexity 2.718, data abcabcabcabc" in progress
    assert table.splitlines()[0].split() == ["n", "char", "acc.", "exact", "match", "*"]
    assert table.splitlines()[1].split()[2:] == ["4", "0.5000", "0.7500", "0.2500"]
    started, versions, machine, settings = environment.splitlines()
    assert re.fullmatch(r"started \S+ \(resumed after step 500\)", started)
    assert f"torch {torch.__version__}" in versions
    assert f"{torch.get_num_threads()} threads, 1 process" in machine
    assert settings == "cpu, fp32, seed 2, deterministic algorithms off"


def test_a_checkpoint_without_a_run_shows_only_its_scores(
    tiny: Checkpoint, tiny_folder: Path
) -> None:
    progress, table = training(tiny, tiny_folder).split("\n\n")
    assert progress.endswith("tiny: step 0 of 5,000")
    assert "validation, greedy" in table
    bare = dataclasses.replace(tiny, metrics={"parameters": 1})
    assert training(bare, tiny_folder).endswith("metrics.json says nothing about its training")


@pytest.mark.parametrize("wrong", [{"step": "many"}, {"validation": {"n": 1}}, {"val_loss": [1]}])
def test_invalid_metrics_are_refused(
    tiny: Checkpoint, tiny_folder: Path, wrong: dict[str, object]
) -> None:
    with pytest.raises(CheckpointError, match=r"metrics\.json: \w"):
        training(dataclasses.replace(tiny, metrics=wrong), tiny_folder)
