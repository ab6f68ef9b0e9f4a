"""Results computed ahead of their use, in order, by the tasks of a Ray cluster."""

import logging
import os
import secrets
import socket
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TypeVar
from urllib.parse import urlsplit

import datagen
from datagen.errors import DatasetError
from datagen.parallel import ahead

_PATIENCE = 10.0  # seconds for a cluster's machine to answer; Ray itself takes minutes

Argument = TypeVar("Argument")
Result = TypeVar("Result")


def in_order_on_ray(
    function: Callable[[Argument], Result],
    arguments: Iterable[Argument],
    address: str | None,
    cpus: int | None,
) -> Generator[Result, None, None]:
    """`function` of each argument, in their order, at most a few results ahead of the caller.

    It runs on the cluster at `address`, or on this machine alone, on `cpus` CPUs, or all. Ray
    computes anew what is lost, a few times; after that it is a DatasetError. To be closed if not
    exhausted. Nothing may be printed meanwhile.
    """
    with _ray(address, cpus) as ray:
        workers = int(ray.cluster_resources().get("CPU", 1))
        task = ray.remote(lambda of: function(of))  # it takes no partial functions
        try:
            yield from ahead(lambda of: partial(ray.get, task.remote(of)), arguments, workers)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None  # what the function raised
        except ray.exceptions.RayError as error:
            reason = _first_line(error)
            raise DatasetError(f"Ray failed: {reason} The same call continues") from error


@contextmanager
def _ray(address: str | None, cpus: int | None) -> Iterator[ModuleType]:
    """Ray, connected. Its processes work with this very package, whatever a machine has installed:
    the bytes are the same everywhere."""
    _prepare(address)
    try:
        import ray
    except ImportError:
        raise DatasetError("Ray is not installed: pip install 'calcgpt[ray]'") from None
    of_a_new_one = {} if address else {"num_cpus": cpus, "include_dashboard": False}
    # It prints, whatever one asks of it, its thoughts about processes that die.
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        try:
            ray.init(
                address or "local",
                log_to_driver=False,
                logging_level=logging.CRITICAL,
                runtime_env={"py_modules": [datagen]},
                **of_a_new_one,  # type: ignore[arg-type]
            )
        except Exception as error:  # of no narrower class, some of them
            where = address or "this machine"
            raise DatasetError(f"no Ray on {where}: {_first_line(error)}") from error
        try:
            yield ray
        finally:
            ray.shutdown()


def _prepare(address: str | None) -> None:
    """Set what Ray reads when it is imported: no reports to its makers. What it starts here is for
    this process alone."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address is None:
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # it listens on the loopback alone
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
        return
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        if parts.port:  # others are `auto`, or not addresses, which Ray says at once
            socket.create_connection((parts.hostname or "", parts.port), _PATIENCE).close()
    except (OSError, ValueError) as error:
        raise DatasetError(f"no Ray on {address}: {error}") from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
