"""Data sets whose blocks are computed by a real Ray of two CPUs."""

import hashlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from serving import wait_for

pytest.importorskip("ray", reason="Ray is not installed: the extra `ray` brings it")
import psutil

from datagen.dataset import DatasetPlan, generate
from datagen.plan import BLOCK

PLAN = DatasetPlan(train=12 * BLOCK - 5, val=500, test=500, seed=11)
OPTIONS = ("--train", str(PLAN.train), "--val", "500", "--test", "500", "--seed", "11")
LIMIT = 120  # seconds that no process here needs
ENVIRONMENT = {
    **os.environ,
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # it listens on the loopback alone
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
    "RAY_USAGE_STATS_ENABLED": "0",
}

# A cluster that runs until its stdin ends.
CLUSTER = """
import sys, ray
ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""

# `generate` with something changed, its errors in one line as the command has them.
DRIVER = """
import os, sys, time
from pathlib import Path
from datagen import dataset
from datagen.errors import UserError

{change}

try:
    dataset.generate(Path({out!r}), dataset.{plan!r}, engine="ray", progress=False, {options})
except UserError as error:
    sys.exit(f"Error: {{error}}")
"""
SLOW_DISK = "sync = os.fsync; os.fsync = lambda file: (time.sleep(0.5), sync(file))"


def start(
    out: Path, options: str, change: str = "", plan: DatasetPlan = PLAN
) -> subprocess.Popen[str]:
    """A process that makes a data set, in no folder of the project."""
    program = DRIVER.format(out=str(out), plan=plan, options=options, change=change)
    return subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=out.parent, env=ENVIRONMENT, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Its exit status, and what it wrote."""
    out, errors = process.communicate(timeout=LIMIT)
    return process.returncode, out, errors


def command(*arguments: str | Path) -> tuple[int, str, str]:
    """`calcgpt datagen ARGUMENTS`."""
    return finish(
        subprocess.Popen(
            [sys.executable, "-m", "calcgpt", "datagen", *map(str, arguments), "--quiet"],
            env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
    )  # fmt: skip


def wait_until_it_writes(process: subprocess.Popen[str], out: Path) -> None:
    partial = out / "train.txt.partial"
    begun = lambda: partial.exists() and partial.stat().st_size > 0  # noqa: E731
    wait_for(lambda: begun() or process.poll() is not None, LIMIT)
    assert process.poll() is None, finish(process)


def digests(out: Path) -> dict[str, str]:
    files = [path for path in out.iterdir() if not path.name.startswith(".")]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files that one process makes."""
    out = tmp_path_factory.mktemp("local")
    generate(out, PLAN, progress=False)
    return digests(out)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a cluster."""
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER], env=ENVIRONMENT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stdout
        yield process.stdout.readline().strip()
        process.communicate(timeout=LIMIT)


def test_a_cluster_makes_the_same_bytes(
    address: str, tmp_path: Path, expected: dict[str, str]
) -> None:
    out = tmp_path / "out"
    code, said, errors = command(out, *OPTIONS, "--engine", "ray", "--ray-address", address)
    assert (code, errors) == (0, "")
    assert said == f"{out}: 786,427 training, 500 validation and 500 test problems\n"
    assert digests(out) == expected


def test_a_cluster_works_with_the_code_of_who_asks(address: str, tmp_path: Path) -> None:
    """Not with what its machines may have installed. What a task raises arrives as it was."""
    change = """
def tell(plan, block):
    import datagen
    raise UserError(datagen.__file__)
dataset.train_shard = tell
"""
    code, said, errors = finish(start(tmp_path / "out", f"ray_address={address!r}", change))
    assert (code, said) == (1, "")
    assert errors.startswith("Error: ")
    assert "/py_modules_files/_ray_pkg_" in errors
    assert errors.count("\n") == 1


def test_workers_that_die_are_replaced_a_few_times(
    address: str, tmp_path: Path, expected: dict[str, str]
) -> None:
    die = """
def die(plan, block):
    import os
    os._exit(1)
dataset.train_shard = die
"""
    block = DatasetPlan(train=1, val=1, test=1, seed=0)
    code, said, errors = finish(start(tmp_path / "one", f"ray_address={address!r}", die, block))
    assert (code, said) == (1, "")
    assert errors.startswith("Error: Ray failed: The worker died")
    assert errors.count("\n") == 1
    die_once = f"""
def die_once(plan, block):
    import os
    from pathlib import Path
    from datagen.plan import train_shard
    if block == 5:
        try:
            Path({str(tmp_path)!r}, str(block)).touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            os._exit(1)
    return train_shard(plan, block)
dataset.train_shard = die_once
"""
    out = tmp_path / "out"
    assert finish(start(out, f"ray_address={address!r}", die_once)) == (0, "", "")
    assert digests(out) == expected


def test_killed_and_continued_with_either_engine(
    address: str, tmp_path: Path, expected: dict[str, str]
) -> None:
    out, copy = tmp_path / "out", tmp_path / "copy"
    process = start(out, "workers=2, shard_size=1", SLOW_DISK)
    wait_until_it_writes(process, out)
    children = psutil.Process(process.pid).children(recursive=True)
    children = [child for child in children if "Agent" not in child.name()]  # they take a minute
    assert len(children) > 4
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    assert "train.txt" not in digests(out)
    assert psutil.wait_procs(children, timeout=LIMIT)[1] == []  # Ray ends with it
    shutil.copytree(out, copy)
    assert command(copy, *OPTIONS)[0] == 0
    assert digests(copy) == expected
    assert command(out, *OPTIONS, "--engine", "ray", "--ray-address", address)[0] == 0
    assert digests(out) == expected


def test_a_cluster_that_dies_is_one_line(tmp_path: Path, expected: dict[str, str]) -> None:
    out = tmp_path / "out"
    process = start(out, "workers=2, shard_size=1", SLOW_DISK)
    wait_until_it_writes(process, out)
    (raylet,) = [c for c in psutil.Process(process.pid).children() if c.name() == "raylet"]
    raylet.kill()
    code, said, errors = finish(process)
    assert (code, said) == (1, "")
    assert "Error: Ray failed: " in errors  # Ray's own log may stand around it
    assert "Traceback" not in errors
    assert command(out, *OPTIONS)[0] == 0
    assert digests(out) == expected


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--engine", "abacus"), "choose one of local, ray"),
        (("--ray-address", "127.0.0.1:1"), "'local' has no address"),
        (("--engine", "ray", "--workers", "0"), "workers must be"),
        (("--engine", "ray", "--ray-address", "127.0.0.1:1", "--workers", "2"), "no workers"),
        (("--engine", "ray", "--ray-address", "127.0.0.1:1"), "Connection refused"),
        (("--engine", "ray", "--ray-address", "ray://127.0.0.1:1"), "Connection refused"),
        (("--engine", "ray", "--ray-address", "a.invalid:6379"), "no Ray at a.invalid:6379"),
        (("--engine", "ray", "--ray-address", "127.0.0.1:many"), "no Ray at 127.0.0.1:many"),
    ],
)
def test_what_a_person_gets_wrong(tmp_path: Path, options: tuple[str, ...], complaint: str) -> None:
    code, _, errors = command(tmp_path / "out", *OPTIONS, *options)
    assert code == 2
    (line,) = errors.splitlines()
    assert line.startswith("error: ")
    assert complaint in line


def test_without_ray(tmp_path: Path) -> None:
    code, _, errors = finish(start(tmp_path / "out", "", "sys.modules['ray'] = None"))
    assert (code, errors) == (1, "Error: Ray is not installed: pip install 'calcgpt[ray]'\n")


def test_ray_is_imported_only_where_it_is_asked_for() -> None:
    program = "import sys, datagen.dataset, datagen.text; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
