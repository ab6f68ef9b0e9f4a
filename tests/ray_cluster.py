"""A small cluster of Ray that several tests share."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from waiting import PATIENCE

PROGRAM = """
import sys
from calcgpt_lab.studies.ray_cluster import connected
with connected(None, 2) as ray:
    print(ray.get_runtime_context().gcs_address, flush=True)
    sys.stdin.read()
"""


def own_lines(errors: str) -> str:
    """Returns what was written to stderr by us. Ray's core may add lines of its log at any time:
    they begin with the date."""
    lines = errors.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("[20"))


def named_children(pid: int, recursive: bool = True) -> dict[Any, str]:
    """The processes that a process has started, and theirs, with their names. Ray may end some at
    any time."""
    import psutil

    named = {}
    for process in psutil.Process(pid).children(recursive):
        with suppress(psutil.NoSuchProcess):
            named[process] = process.name()
    return named


@dataclass(frozen=True)
class RayCluster:
    """A cluster that runs."""

    address: str
    environment: dict[str, str]  # for processes that connect to it


@contextmanager
def running_cluster() -> Iterator[RayCluster]:
    """Starts a cluster of two CPUs that only processes with its environment can use."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout
        yield RayCluster(process.stdout.readline().strip(), environment)
        process.communicate(timeout=PATIENCE)  # ends its stdin
    assert process.returncode == 0
