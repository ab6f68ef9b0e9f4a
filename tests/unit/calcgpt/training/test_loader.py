"""Batches whose text other processes read, as beside a GPU: the same as without them."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch

from calcgpt.data.sources import training_data
from calcgpt.data.workers import CoordinateWorkers
from calcgpt.recipe import load_recipe
from calcgpt.training.loader import StepBatch
from calcgpt.training.run_folder import RunFolder
from calcgpt.training.train import Trainer
from datagen.coordinates import batch_coordinates

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


def test_other_processes_read_the_text_of_later_steps(
    caplog: pytest.LogCaptureFixture, started: list[subprocess.Popen[bytes]]
) -> None:
    """Also if one of them is killed."""
    alone, used = trainer("scratchpad-tiny"), trainer("scratchpad-tiny")
    with used.loader.reading(2):
        for step in range(STEPS):
            assert_same(used.loader.load(step), alone.loader.load(step))
            if step == 7:
                started[-1].kill()
                started[-1].wait()
    assert len(started) == 2
    assert all(process.returncode is not None for process in started)
    assert "has ended" in caplog.text


def test_requests_may_be_larger_than_a_pipe() -> None:
    """A worker that writes a large answer must not keep its parent from writing a request."""
    lines = np.frombuffer(b"$(1+2)=" + b"x" * 993, np.uint8)
    codes_BT = np.repeat(lines[None], 500, axis=0)
    workers = CoordinateWorkers(1)
    with closing(workers):
        for key in range(2):
            workers.request(key, codes_BT)
        for key in range(2):
            assert np.array_equal(workers.receive(key, codes_BT), batch_coordinates(codes_BT))


def test_all_that_a_killed_worker_was_asked_is_read_here(
    started: list[subprocess.Popen[bytes]],
) -> None:
    codes_BT = np.frombuffer(b"$(1+2)=", np.uint8)[None]
    with closing(CoordinateWorkers(1)) as workers:
        for key in range(2):
            workers.request(key, codes_BT)
        started[0].kill()  # before it has answered
        for key in range(2):
            assert np.array_equal(workers.receive(key, codes_BT), batch_coordinates(codes_BT))


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc to see the environment")
def test_a_worker_has_one_thread_and_gets_no_signals_of_the_terminal(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    codes_BT = np.frombuffer(b"$(1+2)=", np.uint8)[None]
    with closing(CoordinateWorkers(1)) as workers:
        workers.request("key", codes_BT)
        [worker] = started
        assert os.getpgid(worker.pid) != os.getpgrp()
        variables = Path(f"/proc/{worker.pid}/environ").read_bytes().split(b"\0")
        assert b"OMP_NUM_THREADS=1" in variables


def test_a_model_that_reads_no_text_starts_no_process(
    started: list[subprocess.Popen[bytes]],
) -> None:
    used, alone = trainer("direct"), trainer("direct")
    with used.loader.reading(2):
        batch = used.loader.load(0)
    assert [part.features for part in batch.micro_batches] == [None]
    assert batch.shapes == alone.loader.load(0).shapes
    assert started == []
