"""Data sets made by processes that are killed, run out of disk, or get in each other's way."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from datagen.dataset import DatasetPlan, Manifest, generate, load_manifest
from datagen.splits import Split

PLAN = DatasetPlan(train=1_000_000, val=5_000, test=5_000, seed=11)
FINAL = {"manifest.json", "test.txt", "train.txt", "val.txt"}
LIMIT = 120  # seconds that no process here needs

# What each process runs: the package's function, its errors in one line as the command has them.
DRIVER = """
import os, resource, sys
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


def start(
    out: Path, *, workers: int = 1, shard_size: int = 1, before: str = "pass"
) -> subprocess.Popen[str]:
    """A process, and the leader of a group of processes, that makes PLAN's data set in `out`;
    it has imported all it needs, and begins now."""
    options = f"workers={workers}, shard_size={shard_size}"
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            DRIVER.format(out=str(out), plan=PLAN, options=options, before=before),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit status and what it wrote to stderr."""
    _, errors = process.communicate(timeout=LIMIT)
    return process.returncode, errors


def digests(out: Path) -> dict[str, str]:
    """The SHA-256 of each file in a folder, its lock and temporary files apart."""
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
    """No file has its final name but those that are whole."""
    for name, digest in digests(out).items() if out.exists() else ():
        assert name not in FINAL or digest == expected[name], name


@pytest.mark.parametrize(("workers", "rounds", "patience"), [(1, 3, 0.01), (2, 1, 0.1)])
def test_killed_again_and_again(
    tmp_path: Path, expected: dict[str, str], workers: int, rounds: int, patience: float
) -> None:
    chance = random.Random(workers)
    journals = set()
    for round_ in range(rounds):
        out = tmp_path / str(round_)
        code = attempt = 0
        while not attempt or code:
            attempt += 1
            process = start(out, workers=workers, shard_size=chance.choice([1, 10**5, 10**9]))
            time.sleep(chance.uniform(0, patience * attempt))
            process.kill()  # the process alone, not its workers
            code, errors = finish(process)
            assert code in (0, -signal.SIGKILL), errors
            assert_sound(out, expected)
            if (out / "journal.json").exists():
                journals.add((out / "journal.json").read_bytes())
        assert digests(out) == expected
    assert len(journals) > 1  # it was killed at different points


def test_killed_at_each_stage(tmp_path: Path, expected: dict[str, str]) -> None:
    """Killed as soon as a certain file appears, then finished with other options."""
    for stage in ("journal.json", "val.txt", "test.txt", "train.txt.partial", "train.txt"):
        out = tmp_path / stage
        process = start(out)
        deadline = time.monotonic() + LIMIT
        while not (out / stage).exists() and process.poll() is None:
            assert time.monotonic() < deadline
        process.kill()
        finish(process)
        assert_sound(out, expected)
        assert finish(start(out, shard_size=10**9)) == (0, "")
        assert digests(out) == expected


def _children(pid: int) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                yield int(entry.name)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see processes")
def test_workers_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    out = tmp_path / "out"
    # A slow disk, so that it is at work still when the signal comes, however busy the machine is.
    slow = "import time; sync = os.fsync; os.fsync = lambda file: (time.sleep(0.2), sync(file))"
    process = start(out, workers=2, before=slow)
    deadline = time.monotonic() + LIMIT
    while (
        not (out / "train.txt.partial").exists() or not (out / "train.txt.partial").stat().st_size
    ):
        assert process.poll() is None
        assert time.monotonic() < deadline
    children = list(_children(process.pid))
    assert len(children) >= 2
    process.kill()
    finish(process)
    while any(map(_alive, children)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_full_disk(tmp_path: Path, expected: dict[str, str]) -> None:
    """A limit on the size of files stands for the disk: the same error, after a partial write."""
    out = tmp_path / "out"
    limit = 12_345_678
    setrlimit = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
    for _ in range(2):  # the second time, there is not even room to go on
        code, errors = finish(start(out, before=setrlimit))
        assert (code, errors) == (1, f"Error: {out}: File too large\n")
        assert set(digests(out)) == {"journal.json", "test.txt", "train.txt.partial", "val.txt"}
        assert (out / "train.txt.partial").stat().st_size == limit
        assert_sound(out, expected)
    kept = (out / "train.txt.partial").stat()
    assert finish(start(out)) == (0, "")
    assert (out / "train.txt").stat().st_ino == kept.st_ino  # it went on with the same file
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
    # One wins. The other is told so, or comes so late that everything is there.
    assert results[0] == (0, "")
    busy = (1, f"Error: another process is writing a data set in {out}\n")
    assert results[1] in (busy, (0, ""))
    assert digests(out) == expected


def test_the_lock_is_seen(tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = start(out)
    try:
        deadline = time.monotonic() + LIMIT
        while not (out / "journal.json").exists():
            assert time.monotonic() < deadline
        first.send_signal(signal.SIGSTOP)  # with the lock in its hands
        assert finish(start(out)) == (1, f"Error: another process is writing a data set in {out}\n")
    finally:
        first.kill()
        finish(first)
    assert finish(start(out)) == (0, "")
    manifest = load_manifest(out)
    assert isinstance(manifest, Manifest)
    assert manifest.files[Split.TRAIN].problems == PLAN.train


def test_ctrl_c_leaves_what_can_be_continued(tmp_path: Path, expected: dict[str, str]) -> None:
    out = tmp_path / "out"
    # A slow disk, so that it is at work still when the signal comes, however busy the machine is.
    slow = "import time; sync = os.fsync; os.fsync = lambda file: (time.sleep(0.2), sync(file))"
    process = start(out, workers=2, before=slow)
    deadline = time.monotonic() + LIMIT
    while not (out / "train.txt.partial").exists():
        assert time.monotonic() < deadline
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers, too
    code, errors = finish(process)
    assert code != 0
    assert errors.count("Traceback") <= 1  # the driver's own: the workers keep quiet
    assert_sound(out, expected)
    assert finish(start(out)) == (0, "")
    assert digests(out) == expected
