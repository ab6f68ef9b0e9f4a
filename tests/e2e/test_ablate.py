"""An ablation in real processes: trained once, killed, continued, added to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

SUITE = """
recipe = "nano"
seeds = [1, 2]
[score]
batches = 2
contexts = [1, 2]
problems = 20
[tasks.sums]
problems = { train = 500, val = 50, test = 50 }
[tasks.sums.train]
batches = "stream"
steps = 300
checkpoint_interval = 20
log_interval = 10
eval_interval = 100
eval_batches = 2
eval_problems = 0
[variants.rope]
[variants.learned]
model = { position = "learned" }
"""


def ablate(suite: Path | str, out: Path, *flags: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "calcgpt", "ablate", "--suite", str(suite), "--out", str(out)]
    return subprocess.Popen(
        [*command, "--device", "cpu", *flags],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"}, start_new_session=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    stdout, stderr = process.communicate(timeout=150)
    return process.returncode, stdout, stderr


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("suite") / "sums.toml"
    file.write_text(SUITE, "utf-8")
    return file


@pytest.fixture(scope="module")
def whole(suite: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "out"
    code, stdout, stderr = finish(ablate(suite, out))
    assert code == 0, stderr
    assert str(out / "report.md") in stdout.splitlines()
    assert "sums learned seed 2: done" in stderr
    return out


def scores(out: Path) -> dict[str, bytes]:
    return {str(f.relative_to(out)): f.read_bytes() for f in out.glob("runs/*/*/*/score.json")}


def weights(out: Path) -> dict[str, bytes]:
    files = out.glob("runs/*/*/*/step-00000300/model.safetensors")
    return {str(f.relative_to(out)): f.read_bytes() for f in files}


def test_every_run_is_there_and_in_the_report(whole: Path) -> None:
    assert len(scores(whole)) == len(weights(whole)) == 4
    record = json.loads((whole / "report.json").read_text("utf-8"))
    variants = record["tasks"]["sums"]["variants"]
    assert list(variants) == ["rope", "learned"]
    for name, of in variants.items():
        assert of["seeds"] == [1, 2]
        assert len(set(of["val_loss"]["values"])) == 2
        assert (of["val_loss_at_context"]["128"] is None) == (name == "learned")
        assert all(run["answers"][0]["n"] == 20 for run in of["runs"])
    assert len(list((whole / "plots").glob("*.png"))) == 4


def test_a_finished_run_is_never_repeated_and_seeds_are_added(whole: Path, suite: Path) -> None:
    before = {f: f.stat().st_mtime_ns for f in whole.glob("runs/*/*/*/*") if f.name != ".lock"}
    code, _, stderr = finish(
        ablate(suite, whole, "--seed", "3", "--seed", "1", "--only", "sums/rope")
    )
    assert code == 0, stderr
    assert {f: f.stat().st_mtime_ns for f in before} == before
    record = json.loads((whole / "report.json").read_text("utf-8"))["tasks"]["sums"]["variants"]
    assert (record["rope"]["seeds"], record["learned"]["seeds"]) == ([1, 2, 3], [1, 2])
    code, _, stderr = finish(ablate(suite, whole, "--set", "train.steps=20"))
    assert code == 2
    assert stderr.startswith("error: ")
    assert "train.steps = 300, not 20" in stderr
    assert stderr.count("\n") == 1


def children(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_killed_and_continued_it_ends_with_the_same_weights(
    signum: signal.Signals, suite: Path, whole: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = ablate(suite, out, "--jobs", "2", "--only", "sums/rope")
    deadline = time.monotonic() + 60
    while not list(out.glob("runs/*/*/*/step-*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    workers = children(process)
    process.send_signal(signum)
    code, _, stderr = finish(process)
    assert code == (130 if signum == signal.SIGINT else -signum), stderr
    assert "Traceback" not in stderr
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not alive
    assert len(scores(out)) < 2
    code, _, stderr = finish(ablate(suite, out, "--only", "sums/rope"))
    assert code == 0, stderr
    ours, theirs = weights(out), weights(whole)
    assert len(ours) == 2
    assert ours == {name: theirs[name] for name in ours}


def test_a_run_that_fails_stops_no_other(suite: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    text = SUITE.replace("steps = 300", "steps = 20").replace("seeds = [1, 2]", "seeds = [1]")
    broken.write_text(f"{text}\n[variants.wild]\ntrain = {{ lr = 1e30 }}\n", "utf-8")
    out = tmp_path / "out"
    code, _, stderr = finish(ablate(broken, out))
    assert code == 2
    last = stderr.splitlines()[-1]
    assert last.startswith("error: 1 of 3 runs failed; sums wild seed 1: the loss is nan")
    assert "Traceback" not in stderr
    record = json.loads((out / "report.json").read_text("utf-8"))
    assert list(record["tasks"]["sums"]["variants"]) == ["rope", "learned"]


def test_two_at_once_are_refused_and_so_is_a_damaged_score(whole: Path, suite: Path) -> None:
    import fcntl

    with (whole / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, _, stderr = finish(ablate(suite, whole))
    assert (code, stderr) == (2, f"error: another process is making an ablation in {whole}\n")
    file = whole / "runs/sums/rope/seed-1/score.json"
    kept = file.read_bytes()
    file.write_bytes(kept[:40])
    code, _, stderr = finish(ablate(suite, whole))
    file.write_bytes(kept)
    assert code == 2
    assert stderr.startswith(f"error: {file}: not JSON")
    assert stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--suite", "nowhere"], "unknown suite 'nowhere'; valid names: attention, blog"),
        (["--suite", "blog"], "there is no data/tinyshakespeare/train.txt; `calcgpt datagen text`"),
        (["--suite", "nano", "--only", "x"], "nothing is called 'x'"),
        (["--suite", "nano", "--data", "x=y"], "no task 'x'; there are: arithmetic"),
        (["--suite", "nano", "--data", "arithmetic=y"], "there is no y/train.txt"),
        (["--suite", "nano", "--set", "model.colour=1"], "unknown field 'model.colour'"),
        (["--suite", "nano", "--device", "tpu"], "device 'tpu' cannot be used"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(
    flags: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_cli
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = run_cli("ablate", "--out", "out", *flags, "--only" if "blog" in flags else "--quiet",
                      *(["tinyshakespeare"] if "blog" in flags else []))  # fmt: skip
    assert outcome.code == 2
    assert reason in outcome.err
    assert outcome.err.count("\n") == 1
