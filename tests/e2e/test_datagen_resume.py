"""Data sets made by processes that are killed, run out of disk, or get in each other's way."""

import hashlib
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
from forks import PATIENCE, Popen

from datagen.dataset import DatasetPlan, Manifest, generate, load_manifest
from datagen.splits import Split

PLAN = DatasetPlan(train=500_000, val=5_000, test=5_000, seed=11)
FINAL = {"manifest.json", "test.txt", "train.txt", "val.txt"}

# Calls the package's function, and prints its errors in one line, as the command does.
DRIVER = """
import itertools, os, resource, signal, sys
from pathlib import Path
from datagen.dataset import DatasetPlan, generate
from datagen.errors import UserError

if __name__ == "__main__":
    {before}
    print("ready", flush=True)
    try:
        generate(Path({out!r}), {plan!r}, progress=False, {options})
    except UserError as error:
        sys.exit(f"Error: {{error}}")
"""

# Stops forever, before the data of a shard are synchronised with the disk.
STOP_BEFORE_SYNC = """
    sync, syncs = os.fsync, itertools.count()
    def sync_or_stop(file):
        if next(syncs) == {n}:
            print("stopped", flush=True)
            signal.pause()
        sync(file)
    os.fsync = sync_or_stop
"""


def start(out: Path, *, workers: int = 1, shard_size: int = 1, before: str = "pass") -> Popen:
    """Starts a process, the leader of its group, that makes PLAN's data set in `out`.

    Returns when the process has imported all it needs and begins.
    """
    options = f"workers={workers}, shard_size={shard_size}"
    program = DRIVER.format(out=str(out), plan=PLAN, options=options, before=before)
    process = Popen([sys.executable, "-c", program], ("datagen.dataset",), start_new_session=True)
    assert process.stdout.readline() == "ready\n"
    return process


def start_and_stop(out: Path, n: int, **options: int) -> Popen:
    """Starts such a process. Returns when it has stopped before its n-th synchronisation.

    The first two (0, 1) are those of val.txt, the next two those of test.txt, and the others those
    of train.txt.
    """
    process = start(out, before=STOP_BEFORE_SYNC.format(n=n).strip(), **options)
    assert process.stdout.readline() == "stopped\n"
    return process


def finish(process: Popen) -> tuple[int, str]:
    """Returns the exit status of a process, and what it wrote to stderr."""
    _, errors = process.communicate()
    return process.wait(0), errors


def digests(out: Path) -> dict[str, str]:
    """The SHA-256 of each file in a folder, except its lock and temporary files."""
    files = [path for path in out.iterdir() if not path.name.startswith(".")]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of an uninterrupted run."""
    out = tmp_path_factory.mktemp("uninterrupted")
    generate(out, PLAN, progress=False)
    files = digests(out)
    assert set(files) == FINAL
    return files


def assert_sound(out: Path, expected: dict[str, str]) -> None:
    """Only whole files have their final names."""
    for name, digest in digests(out).items():
        assert name not in FINAL or digest == expected[name], name


@pytest.mark.parametrize(
    ("n", "files"),
    [
        (0, {"journal.json", "val.txt.partial"}),
        (2, {"journal.json", "val.txt", "test.txt.partial"}),
        (4, {"journal.json", "val.txt", "test.txt", "train.txt.partial"}),
        (7, {"journal.json", "val.txt", "test.txt", "train.txt.partial"}),
    ],
)
def test_killed_at_each_stage(
    tmp_path: Path, expected: dict[str, str], n: int, files: set[str]
) -> None:
    out = tmp_path / "out"
    process = start_and_stop(out, n)
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    assert set(digests(out)) == files
    assert_sound(out, expected)
    assert finish(start(out, shard_size=10**9)) == (0, "")  # with other options
    assert digests(out) == expected


def test_workers_end_with_a_killed_parent(tmp_path: Path, expected: dict[str, str]) -> None:
    out = tmp_path / "out"
    process = start_and_stop(out, 5, workers=2)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) >= 2
    process.kill()
    finish(process)
    assert psutil.wait_procs(workers, timeout=PATIENCE)[1] == []
    assert finish(start(out, workers=2)) == (0, "")
    assert digests(out) == expected


def test_ctrl_c_leaves_what_can_be_continued(tmp_path: Path, expected: dict[str, str]) -> None:
    out = tmp_path / "out"
    process = start_and_stop(out, 5, workers=2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers, too
    code, errors = finish(process)
    assert code != 0
    # The driver prints a traceback, and so may a worker that is still starting; one that computes
    # problems is silent.
    assert errors.count("Traceback") <= 3
    assert "plan.py" not in errors
    assert_sound(out, expected)
    assert finish(start(out)) == (0, "")
    assert digests(out) == expected


def test_a_full_disk(tmp_path: Path, expected: dict[str, str]) -> None:
    """A limit on the size of files stands for the disk: it gives the same error."""
    out = tmp_path / "out"
    limit = 12_345_678
    setrlimit = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
    for _ in range(2):  # the second time there is no room at all
        code, errors = finish(start(out, before=setrlimit))
        assert (code, errors) == (1, f"Error: {out}: File too large\n")
        assert set(digests(out)) == {"journal.json", "test.txt", "train.txt.partial", "val.txt"}
        assert (out / "train.txt.partial").stat().st_size == limit
        assert_sound(out, expected)
    partial = (out / "train.txt.partial").stat()
    assert finish(start(out)) == (0, "")
    assert (out / "train.txt").stat().st_ino == partial.st_ino  # the same file is continued
    assert digests(out) == expected


def test_a_full_disk_before_the_first_file(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, errors = finish(start(out, before="resource.setrlimit(resource.RLIMIT_FSIZE, (9, 9))"))
    assert (code, errors) == (1, f"Error: {out / 'journal.json'}: File too large\n")
    assert [path.name for path in out.iterdir()] == [".lock"]


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
    first = start_and_stop(out, 1)
    try:
        assert finish(start(out)) == (1, f"Error: another process is writing a data set in {out}\n")
    finally:
        first.kill()
        finish(first)
    assert finish(start(out)) == (0, "")
    manifest = load_manifest(out)
    assert isinstance(manifest, Manifest)
    assert manifest.files[Split.TRAIN].problems == PLAN.train
