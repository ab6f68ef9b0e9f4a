"""The score of a run: its losses, longer contexts and answers."""

from pathlib import Path

import pytest
import torch

from calcgpt.checkpoint import Checkpoint
from calcgpt_lab.data.problems import read_problems
from calcgpt_lab.data.sources import DataFolder
from calcgpt_lab.evaluation.evaluate import evaluate
from calcgpt_lab.evaluation.losses import mean_loss
from calcgpt_lab.model.gpt import build_model
from calcgpt_lab.model.positions import POSITIONS
from calcgpt_lab.model.stored import checkpoint_of
from calcgpt_lab.recipe import load_recipe
from calcgpt_lab.studies.job import ContextLoss, Job, score_model, with_block_size
from calcgpt_lab.studies.suite import Scoring
from calcgpt_lab.training.train import train
from datagen.splits import Split

# Those with weights for each position or each distance.
FIXED_LENGTH = {"learned", "learned+rope", "integrated", "integrated-per-head", "t5"}


@pytest.mark.parametrize("position", sorted(POSITIONS))
def test_a_model_reads_longer_contexts_with_the_same_weights_or_not_at_all(position: str) -> None:
    recipe = load_recipe("nano", [f"model.position={position}", "model.max_distance=20"])
    model = build_model(recipe.model, 21).eval()
    longer = with_block_size(model, 128)
    assert (longer is None) == (position in FIXED_LENGTH)
    if longer is not None:
        tokens = torch.randint(21, (2, 128))
        with torch.no_grad():
            assert torch.allclose(longer.eval()(tokens[:, :64]), model(tokens[:, :64]), atol=1e-5)
            assert longer(tokens).shape == (2, 128, 21)


def test_no_model_reads_more_than_the_longest_context() -> None:
    model = build_model(load_recipe("nano", ["model.position=rope"]).model, 21)
    assert with_block_size(model, 2**20) is None


@pytest.fixture(scope="module")
def run(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    recipe = load_recipe("nano", ["train.steps=5", "train.batches=stream", "train.eval_problems=0"])
    out = tmp_path_factory.mktemp("run")
    return Checkpoint.load(train(recipe, data_folder, out, device="cpu", progress=False))


def test_a_score_has_both_losses_contexts_and_answers(run: Checkpoint, data_folder: Path) -> None:
    data = DataFolder.load(data_folder)
    scoring = Scoring(batches=3, contexts=[2, 1], problems=20, temperatures=[0.0, 1.0])
    result = score_model(run, data, scoring)
    assert result == score_model(run, data, scoring)
    assert result["parameters"] == run.model.n_parameters()
    config = run.recipe.train.model_copy(update={"seed": 0})
    for split in (Split.TRAIN, Split.VAL):
        windows = data.batches(split, run.tokenizer, config, 64)
        assert result[f"{split}_loss"] == mean_loss(run.model, windows, 3, 16)
    at_64, at_128 = result["contexts"]
    assert at_64 == ContextLoss(block_size=64, val_loss=result["val_loss"])
    model = with_block_size(run.model, 128)
    assert model is not None
    windows = data.batches(Split.VAL, run.tokenizer, config, 128)
    assert at_128 == ContextLoss(block_size=128, val_loss=mean_loss(model, windows, 3, 8))
    lines = read_problems(data_folder / "test.txt", 20)
    greedy, sampled = result["answers"]
    scores = evaluate(run.model, run.tokenizer, lines).scores
    assert greedy.model_dump() == {"temperature": 0.0, **scores.model_dump()}
    assert sampled.temperature == 1.0
    assert sampled.n == 20


def test_the_windows_do_not_depend_on_the_seed_of_the_training(
    run: Checkpoint, data_folder: Path
) -> None:
    data, scoring = DataFolder.load(data_folder), Scoring(batches=3, problems=0)
    other = run.recipe.model_copy(
        update={"train": run.recipe.train.model_copy(update={"seed": 99})}
    )
    same = checkpoint_of(run.name, other, run.tokenizer, run.model, run.metrics)
    assert score_model(same, data, scoring) == score_model(run, data, scoring)


def test_a_job_has_a_score_at_its_end(data_folder: Path, tmp_path: Path) -> None:
    recipe = load_recipe("nano", ["train.steps=4", "train.eval_problems=0"])
    scoring = Scoring(batches=1, problems=0)
    job = Job("sums", "plain", 1, recipe, data_folder, tmp_path / "run", scoring)
    job.run("cpu")
    score = job.score()
    assert score
    assert score.steps == 4
    seconds = score.tokens / score.tokens_per_s
    assert seconds == pytest.approx(score.seconds, abs=0.001)  # `seconds` is rounded to 0.001
