"""The folder of a run: what resumes it, bit for bit, and what is never overwritten."""

import json
import logging
import math
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import safetensors.numpy
import torch
from checkpoint_folders import claim_hash, edit_json
from safetensors.torch import load_file
from small_runs import (
    CASES,
    CPU,
    FRESH,
    NO_ANSWERS,
    assert_same,
    assert_same_state,
    recipe,
    rows,
    run,
    weights,
)

from calcgpt.base.errors import ConfigError, DataError
from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import CheckpointError
from calcgpt_lab.data import sources
from calcgpt_lab.data.dataset import DatasetPlan, generate
from calcgpt_lab.data.sources import training_data
from calcgpt_lab.training import train as training_module
from calcgpt_lab.training.run_folder import TRAINING, Counters, RunFolder
from calcgpt_lab.training.train import Trainer


@pytest.mark.parametrize(
    "overrides",
    [
        ("train.batches=stream", "model.block_size=32"),
        ("model.dropout=0.2",),
        ("train.optimizer=muon",),
        ("train.grad_accum=2", "train.schedule=cosine"),
        ("model.tie_embeddings=true", "model.head_bias=false"),
        ("train.ema_decay=0.9", "model.tie_embeddings=true", "model.head_bias=false"),
    ],
)
def test_resuming_gives_the_same_bits(data: Path, tmp_path: Path, overrides: tuple[str]) -> None:
    whole = run(data, tmp_path / "whole", *overrides)
    half = tmp_path / "half"
    stop_after_ten_steps(data, half, *overrides)
    resumed = run(data, half, *overrides, resume=True)
    assert_same_state(resumed, whole)


@pytest.mark.parametrize(
    "overrides", [(), ("train.grad_accum=2", NO_ANSWERS), ("train.steps=40", NO_ANSWERS)]
)
def test_resuming_without_files_gives_the_same_bits(
    tmp_path: Path, overrides: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A block serves twelve steps: the tenth is in the middle of one.
    monkeypatch.setattr(sources, "PROBLEMS_PER_BLOCK", 100)
    whole = run(None, tmp_path / "whole", *FRESH, *overrides)
    stop_after_ten_steps(None, tmp_path / "half", *FRESH, *overrides)
    resumed = run(None, tmp_path / "half", *FRESH, *overrides, resume=True)
    assert_same_state(resumed, whole)


def test_resuming_on_cases_gives_the_same_bits(tmp_path: Path) -> None:
    overrides = (*CASES, NO_ANSWERS, "train.schedule=constant")
    whole = run(None, tmp_path / "whole", *overrides)
    half = tmp_path / "half"
    run(None, half, *overrides, "train.steps=10")  # the hard cases are kept
    resumed = run(None, half, *overrides, resume=True)
    assert_same_state(resumed, whole)
    cases = json.loads((whole / "metrics.json").read_text())["cases"]
    hard = load_file(whole / TRAINING)["batches.hard"]
    assert len(hard) == cases["n"]
    assert 0 < cases["wrong"] <= int(hard.sum())
    raw = load_file(whole / TRAINING)["weights.head.weight"]
    assert not torch.equal(Checkpoint.load(whole).model.head.weight, raw)  # it is rounded


def stop_after_ten_steps(data: Path | None, out: Path, *overrides: str) -> None:
    chosen = recipe(*overrides)
    trainer = Trainer(chosen, training_data(chosen, data), RunFolder(out), CPU)
    out.mkdir()
    for _ in range(10):
        trainer.train_step()
    trainer.save({})
    torch.manual_seed(999)  # must have no effect on the resumed run


@pytest.mark.parametrize("file", ["model.safetensors", "training.safetensors"])
def test_resume_skips_a_damaged_checkpoint(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, file: str
) -> None:
    whole = run(data, tmp_path)
    expected = weights(whole)
    damaged = whole / file
    damaged.write_bytes(damaged.read_bytes()[:-10])
    assert RunFolder(tmp_path).load_last().folder == tmp_path / "step-00000015"
    resumed = run(data, tmp_path, resume=True)
    assert "skipped" in caplog.text
    assert_same(weights(resumed), expected)


@pytest.mark.parametrize(
    ("removed", "reported"),
    [
        ("rng.cpu", "rng.cpu"),
        ("weights.head.weight", "weights.head.weight"),
        ("optimizer.1.0.exp_avg", "optimizer.1.0.exp_avg"),
        ("optimizer.0.", "optimizer.0.0.*"),
    ],
)
def test_resume_names_a_tensor_that_is_missing(
    data: Path, tmp_path: Path, removed: str, reported: str
) -> None:
    settings = ("train.steps=5", "train.eval_problems=0", "train.ema_decay=0.9")
    folder = run(data, tmp_path, *settings, "train.optimizer=muon")
    path = folder / "training.safetensors"
    kept = {k: v.clone() for k, v in load_file(path).items() if not k.startswith(removed)}
    safetensors.torch.save_file(kept, path)
    claim_hash(folder, path.name)
    with pytest.raises(CheckpointError, match=re.escape(f"{path}: tensor '{reported}' is missing")):
        run(data, tmp_path, *settings, "train.optimizer=muon", resume=True)


NAN, HUGE = torch.tensor(float("nan")), torch.tensor(1e30)


@pytest.mark.parametrize(
    ("forged", "reason"),
    [
        ({"rng.cpu": torch.zeros(5056, dtype=torch.uint8)}, "nvalid mt19937 state"),
        ({"rng.cpu": torch.zeros(5056)}, "RNG state must be a torch.ByteTensor"),
        ({"rng.cpu": torch.zeros(9, dtype=torch.uint8)}, "'rng.cpu' is (9,), not (5056,)"),
        ({"optimizer.0.0.exp_avg": torch.zeros(2, 3)}, "'optimizer.0.0.exp_avg' is (2, 3), not"),
        ({"optimizer.0.0.step": NAN}, "'optimizer.0.0.step' is (), not"),
        ({"optimizer.0.0.step": -torch.ones(())}, "'optimizer.0.0.step' is (), not"),
        ({"optimizer.0.0.step": HUGE}, "'optimizer.0.0.step' is (), not"),
        ({"optimizer.7.0.step": NAN}, "'optimizer.7.0.step' is not of this run"),
        ({"optimizer.x": NAN}, "'optimizer.x' is not of this run"),
        ({"step": 10**15}, "step: Input should be less than or equal to 99999999"),
        ({"step": 6}, "step is 6: that is not step-00000006"),
        ({"step": math.nan}, "no checkpoint loads"),
        ({"tokens": math.nan}, "no checkpoint loads"),
        ({"seconds": math.inf}, "no checkpoint loads"),
        ({"seconds": None}, "seconds: "),
    ],
    ids=str,
)
def test_a_forged_state_is_refused_in_one_line(
    data: Path, tmp_path: Path, forged: dict[str, Any], reason: str
) -> None:
    settings = ("train.steps=5", "train.eval_problems=0")
    folder = run(data, tmp_path, *settings)
    name = "metrics.json" if any(key in {*Counters().__dict__} for key in forged) else TRAINING
    if name == TRAINING:
        safetensors.torch.save_file({**load_file(folder / name), **forged}, folder / name)
    else:
        edit_json(folder / name, lambda metrics: metrics.update(forged))
    claim_hash(folder, name)
    with pytest.raises(CheckpointError) as caught:
        run(data, tmp_path, *settings, resume=True)
    assert reason in str(caught.value)
    assert str(folder if name == TRAINING else tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["metrics.jsonl", "environment.jsonl"])
def test_a_pipe_in_the_place_of_a_file_of_a_run_is_refused(
    data: Path, tmp_path: Path, name: str
) -> None:
    run(data, tmp_path, "train.steps=5")
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(ConfigError, match=f"{name} is not a regular file"):
        run(data, tmp_path, "train.steps=5", resume=True)


def test_what_is_saved_after_a_damaged_checkpoint_was_skipped_is_kept(
    data: Path, tmp_path: Path
) -> None:
    """Two damaged checkpoints count as the last ones until the run has come to their steps."""
    last = run(data, tmp_path)
    shutil.copytree(last, tmp_path / "step-00000025")
    last.rename(tmp_path / "step-00000030")
    for name in ("step-00000025", "step-00000030"):
        (tmp_path / name / "config.json").write_text("{}")
    trainer = Trainer(recipe(), training_data(recipe(), data), RunFolder(tmp_path), CPU)
    trainer.resume()
    trainer.train_step()
    trainer.save({})
    assert RunFolder(tmp_path).load_last().folder.name == "step-00000016"


def test_resume_cuts_the_metrics_after_the_checkpoint(data: Path, tmp_path: Path) -> None:
    last = run(data, tmp_path)
    before = rows(tmp_path)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 25, "loss": 1.0}\n{"step": 3')  # the last line cut off by a kill
    run(data, tmp_path, resume=True)
    assert rows(tmp_path) == before
    assert last.is_dir()


def test_nothing_is_overwritten_without_force(data: Path, tmp_path: Path) -> None:
    own = tmp_path / "step-best-one"  # no checkpoint
    own.mkdir()
    last = run(data, tmp_path)
    stamp = last.stat().st_mtime_ns
    with pytest.raises(ConfigError, match="holds a run"):
        run(data, tmp_path)
    assert last.stat().st_mtime_ns == stamp
    run(data, tmp_path, "train.steps=5", force=True)
    assert [folder.name for folder in RunFolder(tmp_path).checkpoints()] == ["step-00000005"]
    assert own.is_dir()


def test_a_run_that_ends_while_another_one_reads_its_data_is_kept(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, settings = training_module.training_data, ("train.steps=5", "train.eval_problems=0")

    def read_slowly(*arguments: Any) -> Any:
        monkeypatch.undo()
        run(data, tmp_path, *settings)
        return read(*arguments)

    monkeypatch.setattr(training_module, "training_data", read_slowly)
    with pytest.raises(ConfigError, match="holds a run: --resume continues it"):
        run(data, tmp_path, *settings)
    assert RunFolder(tmp_path).load_last().folder == tmp_path / "step-00000005"


def test_resume_refuses_another_run(data: Path, tmp_path: Path) -> None:
    run(data, tmp_path / "run")
    with pytest.raises(ConfigError, match=r"train\.lr is 0\.5, the run started with"):
        run(data, tmp_path / "run", "train.lr=0.5", resume=True)
    with pytest.raises(ConfigError, match=r"model\.position is 'none'"):
        run(data, tmp_path / "run", "model.position=none", resume=True)
    with pytest.raises(ConfigError, match=r"train.steps is 25, .* of its schedule, 'linear'"):
        run(data, tmp_path / "run", "train.steps=25", resume=True)
    generate(tmp_path / "data", DatasetPlan(train=500, val=50, test=50, seed=2), progress=False)
    with pytest.raises(ConfigError, match="other data"):
        run(tmp_path / "data", tmp_path / "run", resume=True)


def test_a_run_may_go_on_with_other_reports_and_intervals_or_fewer_steps(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    constant = "train.schedule=constant"
    last = run(data, tmp_path, NO_ANSWERS, constant, "train.steps=6")
    changed = ["description=another", "vocab_size=300", "train.eval_problems=5"]
    for interval in ("log_interval", "eval_interval", "eval_batches", "checkpoint_interval"):
        changed.append(f"train.{interval}=3")
    other = recipe(constant, "train.steps=4", *changed)
    capsys.readouterr()
    assert training_module.train(other, data, tmp_path, resume=True, device="cpu") == last
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("; the run already has 6 steps")


def test_resume_with_no_checkpoint_that_loads_says_so(data: Path, tmp_path: Path) -> None:
    (tmp_path / "step-00000005").mkdir()
    with pytest.raises(CheckpointError, match="nothing to resume"):
        run(data, tmp_path, resume=True)


def test_two_runs_do_not_share_a_folder(data: Path, tmp_path: Path) -> None:
    with (
        RunFolder(tmp_path).locked(),
        pytest.raises(ConfigError, match="another process is training"),
    ):
        run(data, tmp_path)


def test_a_checkpoint_that_was_about_to_be_replaced_is_put_back(data: Path, tmp_path: Path) -> None:
    """A process is killed after it moved the old folder away, and before the new one is there."""
    last = run(data, tmp_path, NO_ANSWERS, "train.steps=1")
    for name in (f".{last.name}.old.k3b1x9qz", f".{last.name}.x9qzk3b1"):
        (tmp_path / name).mkdir()
    last.rename(tmp_path / f".{last.name}.old.k3b1x9qz" / last.name)
    leftover = tmp_path / ".step-00000005.k3b1x9qz"  # of a checkpoint that was never whole
    leftover.mkdir()
    (leftover / "model.safetensors").touch()
    with RunFolder(tmp_path).locked():
        assert RunFolder(tmp_path).checkpoints() == [last]
    assert not [*tmp_path.glob(".step-*")]


def test_force_removes_nothing_if_the_new_run_cannot_begin(data: Path, tmp_path: Path) -> None:
    last = run(data, tmp_path)
    before = rows(tmp_path)
    with pytest.raises(DataError, match="does not fit in 10 tokens"):
        run(data, tmp_path, "model.block_size=10", force=True)
    assert last.is_dir()
    assert rows(tmp_path) == before


def run_without_checkpoints(data: Path, out: Path, *overrides: str) -> None:
    for folder in run(data, out, *overrides).parent.glob("step-*"):
        shutil.rmtree(folder)


def test_a_run_killed_before_its_first_checkpoint_begins_again(
    data: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "metrics.jsonl").touch()  # of a run that was killed at once
    run_without_checkpoints(data, tmp_path, "train.steps=3")
    caplog.set_level(logging.INFO, logger="calcgpt_lab.training")
    run(data, tmp_path, resume=True)
    assert [row["step"] for row in rows(tmp_path) if "loss" in row] == [5, 10, 15, 20]
    assert caplog.messages == [f"no checkpoint in {tmp_path}: a new run begins"]


def test_a_run_killed_while_it_saved_its_first_checkpoint_begins_again(
    data: Path, tmp_path: Path
) -> None:
    interval = recipe().train.checkpoint_interval
    run_without_checkpoints(data, tmp_path, NO_ANSWERS, f"train.steps={interval}")
    assert rows(tmp_path)[-1]["step"] == interval  # written before the checkpoint
    assert run(data, tmp_path, NO_ANSWERS, resume=True).name == "step-00000020"


def test_resume_keeps_the_metrics_of_a_run_whose_checkpoints_are_gone(
    data: Path, tmp_path: Path
) -> None:
    run_without_checkpoints(data, tmp_path)
    before = rows(tmp_path)
    with pytest.raises(ConfigError, match=r"holds metrics\.jsonl.*, but no checkpoint: --force"):
        run(data, tmp_path, resume=True)
    assert rows(tmp_path) == before


@pytest.mark.parametrize("resume", [False, True])
def test_rows_of_others_are_replaced_with_force_only(
    data: Path, tmp_path: Path, resume: bool
) -> None:
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"step": 1}\n')
    with pytest.raises(ConfigError, match=r"holds metrics\.jsonl, but no checkpoint"):
        run(data, tmp_path, resume=resume)
    assert file.read_text() == '{"step": 1}\n'
    assert run(data, tmp_path, "train.steps=1", force=True).is_dir()
