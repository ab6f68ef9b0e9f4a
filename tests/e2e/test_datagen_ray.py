"""Data sets whose blocks are computed by a real Ray of two CPUs."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from forks import PATIENCE, Popen
from ray_cluster import RayCluster, named_children, own_lines

pytest.importorskip("ray", reason="Ray is not installed: the extra `ray` brings it")
import psutil

from calcgpt.base.errors import UserError
from calcgpt.base.files import sha256
from calcgpt_lab.data.dataset import DatasetPlan, generate
from calcgpt_lab.data.plan import BLOCK
from calcgpt_lab.ray_cluster import connected

PLAN = DatasetPlan(train=6 * BLOCK - 5, val=500, test=500, seed=11)
OPTIONS = ("--train", str(PLAN.train), "--val", "500", "--test", "500", "--seed", "11")

# Calls `generate` after a change, and prints its errors in one line, as the command does.
DRIVER = """
import itertools, os, sys
from pathlib import Path
from calcgpt_lab.data import dataset
from calcgpt.base.errors import UserError

{change}

try:
    dataset.generate(Path({out!r}), dataset.{plan!r}, engine="ray", progress=False, {options})
except UserError as error:
    sys.exit(f"Error: {{error}}")
"""

# Stops after the first training shard, until stdin ends.
STOP = """
write, stops = dataset._write, itertools.count()
def write_and_stop(path, shards, advance):
    def stop(count):
        if path.name == "train.txt" and not next(stops):
            os.write(1, b"stopped\\n")
            sys.stdin.read()
        advance(count)
    return write(path, shards, stop)
dataset._write = write_and_stop
"""

# Never computes a training shard but the first two.
COMPUTE_TWO = """
def compute_two(plan, block):
    import time
    from calcgpt_lab.data.plan import train_shard
    if block > 1:
        time.sleep(1000)
    return train_shard(plan, block)
dataset.train_shard = compute_two
"""


def start(
    out: Path,
    options: str,
    change: str = "",
    plan: DatasetPlan = PLAN,
    environment: dict[str, str] | None = None,
) -> Popen:
    """Starts a process that makes a data set, outside the project's folder."""
    program = DRIVER.format(out=str(out), plan=plan, options=options, change=change)
    return Popen([sys.executable, "-c", program], ("ray",), cwd=out.parent, env=environment)


def start_and_stop(out: Path, change: str = "", **environment: str) -> Popen:
    """Starts such a process with a Ray of its own. Returns when it has stopped in training data.

    Except for the workers, which may be slow to start, the settings are those of a user: it soon
    notices that its Ray is dead.
    """
    others = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("RAY_") or name.startswith("RAY_worker_")
    }
    process = start(out, "workers=2", STOP + change, environment={**others, **environment})
    assert process.stdout.readline() == "stopped\n", finish(process)
    return process


def finish(process: Popen) -> tuple[int, str, str]:
    """Returns the exit status of a process, and what it wrote without Ray's own log."""
    out, errors = process.communicate()
    return process.wait(0), out, own_lines(errors)


def command(
    *arguments: str | Path, environment: dict[str, str] | None = None
) -> tuple[int, str, str]:
    """Runs `calcgpt datagen ARGUMENTS`."""
    words = (sys.executable, "-m", "calcgpt", "datagen", *arguments, "--quiet")
    return finish(Popen(words, ("ray",), env=environment))


def digests(out: Path) -> dict[str, str]:
    """The SHA-256 of each file in a folder, except its lock and temporary files."""
    return {path.name: sha256(path) for path in out.iterdir() if not path.name.startswith(".")}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files that one process makes."""
    out = tmp_path_factory.mktemp("local")
    generate(out, PLAN, progress=False)
    return digests(out)


def test_a_cluster_gets_the_code_of_the_caller(ray_cluster: RayCluster, tmp_path: Path) -> None:
    """It does not use what its machines may have installed. Errors of a task arrive unchanged."""
    change = """
def raise_path(plan, block):
    import datagen
    raise UserError(datagen.__file__)
dataset.train_shard = raise_path
"""
    address, environment = ray_cluster.address, ray_cluster.environment
    process = start(tmp_path / "out", f"ray_address={address!r}", change, environment=environment)
    code, output, errors = finish(process)
    assert (code, output) == (1, "")
    [error] = errors.splitlines()
    assert error.startswith("Error: ")
    assert "/py_modules_files/_ray_pkg_" in error


def test_workers_that_die_are_replaced_a_few_times(
    ray_cluster: RayCluster, tmp_path: Path, expected: dict[str, str]
) -> None:
    die = """
def die(plan, block):
    import os
    os._exit(1)
dataset.train_shard = die
"""
    address, environment = ray_cluster.address, ray_cluster.environment
    option = f"ray_address={address!r}"
    one_block = DatasetPlan(train=1, val=1, test=1, seed=0)
    process = start(tmp_path / "one", option, die, one_block, environment)
    code, output, errors = finish(process)
    assert (code, output) == (1, "")
    assert errors.startswith("Error: Ray failed: The worker died")
    assert errors.count("\n") == 1
    die_once = f"""
def die_once(plan, block):
    import os
    from pathlib import Path
    from calcgpt_lab.data.plan import train_shard
    if block == 4:
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
    assert finish(start(out, option, die_once, environment=environment)) == (0, "", "")
    assert digests(out) == expected


def test_killed_it_leaves_nothing_and_no_process(
    ray_cluster: RayCluster, tmp_path: Path, expected: dict[str, str]
) -> None:
    out = tmp_path / "out"
    process = start_and_stop(out)
    named = named_children(process.pid)
    children = [child for child, name in named.items() if "Agent" not in name]  # they take a minute
    assert len(children) > 4
    process.kill()
    assert finish(process)[0] == -signal.SIGKILL
    assert psutil.wait_procs(children, timeout=PATIENCE)[1] == []  # Ray ends with it
    assert digests(out) == {}
    address, environment = ray_cluster.address, ray_cluster.environment
    options = (*OPTIONS, "--engine", "ray", "--ray-address", address)
    code, output, errors = command(out, *options, environment=environment)
    assert (code, errors) == (0, "")
    assert output == f"{out}: {PLAN.train:,} training, 500 validation and 500 test problems\n"
    assert digests(out) == expected


def test_a_cluster_that_dies_is_one_line(tmp_path: Path, expected: dict[str, str]) -> None:
    out = tmp_path / "out"
    process = start_and_stop(out, COMPUTE_TWO, RAY_health_check_period_ms="500")
    started = named_children(process.pid, recursive=False)
    (raylet,) = [child for child, name in started.items() if name == "raylet"]
    raylet.kill()
    code, output, errors = finish(process)
    assert (code, output) == (1, "")
    # Ray raises an error or ends the process; its own log may surround the line.
    assert errors.lower().count("error: ray failed: ") == 1
    assert "Traceback" not in errors
    generate(out, PLAN, progress=False)
    assert digests(out) == expected


def test_a_start_that_takes_too_long_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[str] = []
    n_slow = 2

    def init(address: str, **options: object) -> None:
        starts.append(address)
        if len(starts) <= n_slow:
            raise Exception("The current node timed out during startup.")

    monkeypatch.setattr("ray.init", init)
    monkeypatch.setattr("ray.shutdown", lambda: starts.append("shutdown"))
    with connected(None, 2):
        assert starts == ["local"] * 3
    assert starts.pop() == "shutdown"
    n_slow = 1000
    with pytest.raises(UserError, match="no Ray at this machine: The current node timed out"):
        connected(None, 2).__enter__()
    assert 3 < len(starts) < 10


def test_sigterm_is_an_interrupt_with_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's own handler, which it installs when it is started, would abort the process."""
    monkeypatch.setattr("ray.init", lambda *_, **__: signal.signal(signal.SIGTERM, signal.SIG_IGN))
    monkeypatch.setattr("ray.shutdown", lambda: None)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt) as stop, connected(None, 2):
        signal.raise_signal(signal.SIGTERM)
    assert stop.value.args == (signal.SIGTERM,)
    assert signal.getsignal(signal.SIGTERM) == before


def test_ray_is_imported_only_if_it_is_needed() -> None:
    program = "import sys, calcgpt_lab.data.dataset; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
