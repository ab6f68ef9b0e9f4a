"""Ray, on this machine or on a cluster, for as long as a sweep runs."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from types import FrameType
from typing import NoReturn

from calcgpt.environment import usable_cores
from calcgpt.errors import ConfigError, UserError
from datagen.cluster import connected
from datagen.cluster import prepare as prepare_ray

OBJECT_STORE = 100 * 2**20  # bytes; what trials tell is small
QUIET = {
    "RAY_AIR_NEW_OUTPUT": "0",  # the newer one prints even where it is told to be silent
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # a run's folder has its metrics
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Ctrl-C ends the sweep: nothing is lost
    "TUNE_FUNCTION_THREAD_TIMEOUT_S": "60",  # for a stopped trial to close its files
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
}


@dataclass(frozen=True)
class Resources:
    """What a trial may use, and how many there may be at a time."""

    cpus: int = 1
    gpus: float = 0.0
    concurrent: int | None = None  # None: as many as there is room for

    def __str__(self) -> str:
        return f"{self.cpus} CPUs and {self.gpus:g} GPUs"


def prepare(address: str | None) -> None:
    """Set what Ray reads when it is imported, and import it; raises UserError where a package is
    missing, or no Ray at the address."""
    for package in ("optuna", "matplotlib"):
        if find_spec(package) is None:
            raise UserError(f"a sweep needs {package}: pip install 'calcgpt[ray,lab]'")
    os.environ.update(QUIET)
    prepare_ray(address)


@contextmanager
def cluster(resources: Resources, address: str | None) -> Iterator[None]:
    """Ray is there meanwhile: the cluster at `address`, or one of this machine alone that others
    cannot reach, with room for `resources.concurrent` trials.

    `prepare` comes before. Raises ConfigError where no trial would ever find room, and UserError
    where there is no cluster; and, within, KeyboardInterrupt for SIGTERM too.
    """
    for name in ("ray", "ray.tune", "ray.data"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    room = resources.concurrent or max(1, usable_cores() // resources.cpus)
    small = {"object_store_memory": OBJECT_STORE}
    with connected(address, room * resources.cpus, local=small) as ray, _interruptible():
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(
            machine.get("CPU", 0) >= resources.cpus and machine.get("GPU", 0) >= resources.gpus
            for machine in machines
        ):
            raise ConfigError(f"no machine has {resources} for a trial")
        yield


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, as SIGINT does; its number is the argument."""
    received: list[int] = []

    def interrupt(signum: int, frame: FrameType | None) -> NoReturn:
        received.append(signum)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)  # Ray's own way would end in an abort
    try:
        yield
    except KeyboardInterrupt:  # Ray raises it anew, without what it held
        raise KeyboardInterrupt(*received) from None
