"""Data sets made by processes that are killed, run out of disk, or get in each other's way."""

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from forks import Popen
from waiting import PATIENCE

from calcgpt.base.files import sha256
from calcgpt_lab.data.dataset import DatasetPlan, generate

PLAN = DatasetPlan(train=200_000, val=5_000, test=5_000, seed=11)
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
    setrlimit = "resource.setrlimit(resource.RLIMIT_FSIZE, (5_000_000, 5_000_000))"
    assert finish(start(out, before=setrlimit)) == (1, f"Error: {out}: File too large\n")
    assert not out.exists()


def test_two_at_once(tmp_path: Path, expected: dict[str, str]) -> None:
    out = tmp_path / "out"
    first, second = start(out), start(out)
    results = sorted([finish(first), finish(second)])
    # One wins. The other is refused, or comes so late that all files are there.
    assert results[0] == (0, "")
    busy = (1, f"Error: another process is writing a data set in {out}\n")
    assert results[1] in (busy, (0, ""))
    assert digests(out) == expected
