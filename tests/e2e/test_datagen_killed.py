"""Data sets made by processes that are killed, run out of disk, or get in each other's way."""

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from forks import PATIENCE, Popen

from calcgpt.base.files import sha256
from calcgpt_lab.data.dataset import DatasetPlan, generate

PLAN = DatasetPlan(train=500_000, val=5_000, test=5_000, seed=11)
FINAL = {"manifest.json", "test.txt", "train.txt", "val.txt"}

# Calls the package's function, and prints its errors in one line, as the command does.
DRIVER = """
import os, resource, signal, sys
from pathlib import Path
from calcgpt_lab.data import dataset
from calcgpt_lab.data.dataset import DatasetPlan, generate
from calcgpt.base.errors import UserError

if __name__ == "__main__":
    {before}
    print("ready", flush=True)
    try:
        generate(Path({out!r}), {plan!r}, progress=False, workers={workers})
    except UserError as error:
        sys.exit(f"Error: {{error}}")
"""

# Stops forever after the first training shard.
STOP = """
    write = dataset._write
    def write_and_stop(path, shards, advance):
        def stop(count):
            if path.name == "train.txt":
                print("stopped", flush=True)
                signal.pause()
        return write(path, shards, stop)
    dataset._write = write_and_stop
"""


def start(out: Path, *, workers: int = 1, before: str = "pass") -> Popen:
    """Starts a process, the leader of its group, that makes PLAN's data set in `out`.

    Returns when the process has imported all it needs and begins.
    """
    program = DRIVER.format(out=str(out), plan=PLAN, workers=workers, before=before)
    process = Popen(
        [sys.executable, "-c", program], ("calcgpt_lab.data.dataset",), start_new_session=True
    )
    assert process.stdout.readline() == "ready\n"
    return process


def start_and_stop(out: Path, workers: int = 1) -> Popen:
    """Starts such a process. Returns when it has stopped in the training data."""
    process = start(out, workers=workers, before=STOP.strip())
    assert process.stdout.readline() == "stopped\n"
    return process


def finish(process: Popen) -> tuple[int, str]:
    """Returns the exit status of a process, and what it wrote to stderr."""
    _, errors = process.communicate()
    return process.wait(0), errors


def digests(out: Path) -> dict[str, str]:
    """The SHA-256 of each file in a folder, except its lock and temporary files."""
    return {path.name: sha256(path) for path in out.glob("[!.]*")}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of an uninterrupted run."""
    out = tmp_path_factory.mktemp("uninterrupted")
    generate(out, PLAN, progress=False)
    files = digests(out)
    assert set(files) == FINAL
    return files


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_stopped_it_leaves_no_file_and_no_process(
    tmp_path: Path, expected: dict[str, str], number: signal.Signals
) -> None:
    out = tmp_path / "out"
    process = start_and_stop(out, workers=2)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) >= 2
    if number == signal.SIGKILL:
        process.kill()
    else:
        os.killpg(process.pid, number)  # as a terminal does: to the workers, too
    assert finish(process)[0] != 0
    assert psutil.wait_procs(workers, timeout=PATIENCE)[1] == []
    assert digests(out) == {}
    assert finish(start(out, workers=2)) == (0, "")
    assert digests(out) == expected
    assert not [*out.glob(".new*")]


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: it gives the same error."""
    out = tmp_path / "out"
    setrlimit = "resource.setrlimit(resource.RLIMIT_FSIZE, (12_345_678, 12_345_678))"
    assert finish(start(out, before=setrlimit)) == (1, f"Error: {out}: File too large\n")
    assert not out.exists()


def as_nobody(folder: Path) -> str:
    """Code that makes a process respect permissions, which root may ignore."""
    if os.geteuid():
        return "pass"
    for private in [path for path in (folder, *folder.parents) if not path.stat().st_mode & 0o077]:
        private.chmod(0o755)
    return "os.setgroups([]); os.setgid(65534); os.setuid(65534)"


@pytest.mark.parametrize("folder", ["", "out"])
def test_no_permission(tmp_path: Path, folder: str) -> None:
    tmp_path.joinpath(folder).mkdir(exist_ok=True)
    before = as_nobody(tmp_path)
    tmp_path.joinpath(folder).chmod(0o555)
    try:
        code, errors = finish(start(tmp_path / "out", before=before))
    finally:
        tmp_path.joinpath(folder).chmod(0o755)
    assert code == 1
    assert errors.startswith(f"Error: {tmp_path / 'out'}")
    assert errors.endswith(": Permission denied\n")
    assert errors.count("\n") == 1
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_finished_data_set_may_be_read_only(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert finish(start(out)) == (0, "")
    before = as_nobody(tmp_path)
    out.chmod(0o555)
    try:
        assert finish(start(out, before=before)) == (0, "")
    finally:
        out.chmod(0o755)


def test_two_at_once(tmp_path: Path, expected: dict[str, str]) -> None:
    out = tmp_path / "out"
    first, second = start(out), start(out)
    results = sorted([finish(first), finish(second)])
    # One wins. The other is refused, or comes so late that all files are there.
    assert results[0] == (0, "")
    busy = (1, f"Error: another process is writing a data set in {out}\n")
    assert results[1] in (busy, (0, ""))
    assert digests(out) == expected


def test_a_lock_is_respected_and_ends_with_its_process(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = start_and_stop(out)
    try:
        assert finish(start(out)) == (1, f"Error: another process is writing a data set in {out}\n")
    finally:
        first.kill()
        finish(first)
    assert finish(start(out)) == (0, "")
    assert set(digests(out)) == FINAL
