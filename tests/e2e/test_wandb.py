"""Weights & Biases itself: offline, without an account, and with a terminal for its questions."""

import json
import os
import pty
import signal
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from forks import PATIENCE, TRAINING, Popen

from calcgpt_lab.recipe import load_recipe

pytest.importorskip("wandb", reason="the extra `wandb` is not installed")

BLOCK, HEADER = 32_768, 7  # of LevelDB's log format, in which W&B keeps a run
OVERRIDES = [
    "data.format=direct",
    "data.mixture.blog=1",
    "train.schedule=constant",  # may be resumed with more steps
    "train.warmup_steps=0",
    "train.checkpoint_interval=10",
    "train.log_interval=2",
    "train.eval_interval=10",
    "train.eval_problems=10",
    "train.eval_batches=1",
]


def start(
    out: Path, steps: int, resume: str = "no", mode: str = "offline", **options: Any
) -> Popen:
    """Starts a training process with an empty home folder, so that nobody is logged in."""
    home = str(out.parent)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("WANDB_")}
    environment |= {"HOME": home, "NETRC": f"{home}/netrc", "WANDB_MODE": mode}
    # W&B gives its own process 30 seconds to start, and a run 90.
    environment |= dict.fromkeys(("WANDB__SERVICE_WAIT", "WANDB_INIT_TIMEOUT"), str(PATIENCE))
    words = "-m calcgpt train --recipe nano --device cpu --quiet --wandb mine --out"
    command = [sys.executable, *words.split(), str(out)]
    command += [f"--set={override}" for override in (*OVERRIDES, f"train.steps={steps}")]
    if resume == "yes":
        command.append("--resume")
    return Popen(command, TRAINING, env=environment, **options)


def records(file: Path) -> Iterator[Any]:
    """Yields the records that W&B would send of an offline run."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, at, record = file.read_bytes(), HEADER, b""
    while at + HEADER <= len(content):
        if BLOCK - at % BLOCK < HEADER:  # the rest of a block is empty
            at += BLOCK - at % BLOCK
            continue
        _, length, kind = struct.unpack_from("<IHB", content, at)
        record += content[at + HEADER : at + HEADER + length]
        at += HEADER + length
        if kind in (1, 4):  # whole, or the last piece
            yield Record.FromString(record)
            record = b""


def history(file: Path) -> dict[int, dict[str, float]]:
    """The values by step, without what W&B adds."""
    rows = {}
    for record in records(file):
        if record.WhichOneof("record_type") == "history":
            row = {
                item.key or item.nested_key[0]: json.loads(item.value_json)
                for item in record.history.item
            }
            rows[row["_step"]] = {k: v for k, v in row.items() if not k.startswith("_")}
    return rows


def measured(out: Path) -> dict[int, dict[str, float]]:
    """The rows of metrics.jsonl by step."""
    rows: dict[int, dict[str, float]] = {}
    for line in (out / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        rows.setdefault(row.pop("step"), {}).update(row)
    return rows


def offline_runs(out: Path) -> list[Path]:
    return sorted(out.glob("wandb/offline-run-*/*.wandb"))


def test_offline_a_run_and_its_resumption_are_one_run_with_every_row(tmp_path: Path) -> None:
    out = tmp_path / "run"
    for steps, resume in ((10, "no"), (20, "yes")):
        process = start(out, steps, resume)
        output, errors = process.communicate()
        assert output.startswith("the run is complete; ")
        assert output.count("\n") == 1
        assert (process.returncode, errors) == (0, "")
    first, second = offline_runs(out)
    assert (
        first.name == second.name == f"run-{(out / 'wandb' / 'run-id').read_text().strip()}.wandb"
    )
    rows = measured(out)
    assert list(rows) == list(range(2, 21, 2))
    assert {"loss", "val_loss", "val_exact_match/"} <= rows[20].keys()
    logged = history(first) | history(second)
    assert list(history(first)) == [2, 4, 6, 8, 10]
    assert logged == {step: pytest.approx(row) for step, row in rows.items()}

    [begun] = [r.run for r in records(first) if r.WhichOneof("record_type") == "run"]
    assert (begun.project, begun.display_name) == ("mine", "run")
    config = {item.key: json.loads(item.value_json) for item in begun.config.update}
    recipe = load_recipe("nano", (*OVERRIDES, "train.steps=10")).model_dump()
    assert {key: config.get(key) for key in recipe} == recipe
    sent = {path.name for path in out.glob("wandb/offline-run-*/files/*")}
    assert sent <= {"requirements.txt", "wandb-metadata.json"}  # no code, no differences to it


def test_a_signal_to_the_whole_group_closes_the_run_of_wandb(tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = start(out, 1_000_000, start_new_session=True)
    try:
        deadline = time.monotonic() + PATIENCE
        while not (out / "step-00000010").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: W&B's own process gets it, too
        process.communicate()
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGINT
    [file] = offline_runs(out)
    assert [record.WhichOneof("record_type") for record in records(file)][-1] == "exit"
    assert history(file) == {step: pytest.approx(row) for step, row in measured(out).items()}


def test_without_a_login_there_is_an_error_and_no_prompt(tmp_path: Path) -> None:
    our_side, run_side = pty.openpty()  # where W&B would ask for a key
    process = start(tmp_path / "run", 10, mode="online", files=(run_side,) * 3)
    try:
        assert process.wait() == 2
        output = click.unstyle(os.read(our_side, 10_000).decode())  # may end in a reset of colours
    finally:
        process.kill()
        os.close(our_side)
        os.close(run_side)
    assert output.startswith("error: --wandb: not logged in")
    assert len(output.splitlines()) == 1
    assert not (tmp_path / "run").exists()
