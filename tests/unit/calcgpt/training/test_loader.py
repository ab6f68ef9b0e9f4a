"""Batches whose text other processes read, as beside a GPU: the same as without them."""

import multiprocessing
from pathlib import Path

import pytest
import torch

from calcgpt.data.sources import training_data
from calcgpt.recipe import load_recipe
from calcgpt.training.loader import StepBatch
from calcgpt.training.run_folder import RunFolder
from calcgpt.training.train import Trainer

STEPS = 12


def trainer(name: str) -> Trainer:
    recipe = load_recipe(name, ["train.eval_problems=0", f"train.steps={STEPS}"])
    source = training_data(recipe, None)
    return Trainer(recipe, source, RunFolder(Path()), torch.device("cpu"))  # nothing is written


def assert_same(actual: StepBatch, expected: StepBatch) -> None:
    assert actual.shapes == expected.shapes
    assert actual.n_target == expected.n_target
    for parts in zip(actual.micro_batches, expected.micro_batches, strict=True):
        for tensor, other in zip(*parts, strict=True):
            assert tensor is not None
            assert other is not None
            assert torch.equal(tensor, other)
            assert tensor.dtype == other.dtype


def test_other_processes_read_the_text_of_later_steps(caplog: pytest.LogCaptureFixture) -> None:
    """Also if one of them is killed."""
    alone, used = trainer("calculator-tiny"), trainer("calculator-tiny")
    with used.loader.reading(2):
        for step in range(STEPS):
            assert_same(used.loader.load(step), alone.loader.load(step))
            if step == 7:
                [worker, *_] = multiprocessing.active_children()
                worker.kill()
                worker.join()
    assert multiprocessing.active_children() == []
    assert "has ended" in caplog.text


def test_a_model_that_reads_no_text_starts_no_process() -> None:
    used, alone = trainer("direct"), trainer("direct")
    with used.loader.reading(2):
        batch = used.loader.load(0)
        assert multiprocessing.active_children() == []
    assert [part.features for part in batch.micro_batches] == [None]
    assert batch.shapes == alone.loader.load(0).shapes
