"""The only place that starts Ray: on this machine for a while, or connected to a running cluster.

Ray is in the extra `ray`. It is imported when it is needed. Its usage reports are turned off.
"""

import logging
import os
import secrets
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any, NoReturn
from urllib.parse import urlsplit

from calcgpt.base.errors import UserError

_CONNECT_SECONDS = 10.0  # how long a cluster may take to answer; Ray itself waits for minutes
_STARTS = 4  # attempts: Ray gives up a start after 30 seconds, too early on a busy machine
OBJECT_STORE = 100 * 2**20  # bytes; trials report only a few numbers


def prepare(address: str | None) -> None:
    """Sets the environment that Ray reads when it is imported, and imports it.

    Without an `address`, Ray will listen on the loopback alone and require a token. Raises
    UserError if nothing listens at the address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address is None:
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # listen on the loopback alone
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    else:
        _check_address(address)
    import ray  # noqa: F401


def _check_address(address: str) -> None:
    """Raises UserError if nothing listens at HOST:PORT."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        if parts.port:  # without one, it is `auto`, or Ray itself refuses it at once
            socket.create_connection((parts.hostname or "", parts.port), _CONNECT_SECONDS).close()
    except (OSError, ValueError) as error:
        raise UserError(f"no Ray at {address}: {error}") from None


@contextmanager
def connected(address: str | None, cpus: int) -> Iterator[ModuleType]:
    """Yields the module `ray`, connected to the cluster at `address`.

    Without an address, Ray is started on this machine with `cpus` CPUs, and ended after the block.
    A Ray that this process has already started is used as it is. Raises UserError if Ray cannot be
    started or reached. Within the block, SIGTERM raises KeyboardInterrupt with its number as the
    argument.
    """
    prepare(address)
    import ray

    previous = signal.getsignal(signal.SIGTERM)
    if ray.is_initialized():
        with _terminable(previous):
            yield ray
        return
    _init(address, cpus)
    try:
        with _terminable(previous):
            yield ray
    finally:
        ray.shutdown()


def _init(address: str | None, cpus: int) -> None:
    """Calls `ray.init`, and again if a start on this machine takes too long."""
    import ray

    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if address is None:
        options |= {"num_cpus": cpus, "include_dashboard": False}
        options["object_store_memory"] = OBJECT_STORE
    for attempt in range(1, _STARTS + 1):
        try:
            ray.init(address or "local", **options)
            return
        except Exception as error:  # Ray raises some errors without a class of their own
            if address is None and attempt < _STARTS and "timed out during startup" in str(error):
                continue
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UserError(f"no Ray at {address or 'this machine'}: {reason}") from error


@contextmanager
def _terminable(previous: Any) -> Iterator[None]:
    """Makes SIGTERM raise KeyboardInterrupt with its number as the argument. After the block, the
    handler of SIGTERM is `previous`.

    Ray's own handler would print its stack and abort the process.
    """
    received: list[int] = []

    def interrupt(signum: int, frame: FrameType | None) -> NoReturn:
        received.append(signum)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # it cannot handle signals
        yield
        return
    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    except KeyboardInterrupt:  # Ray replaces the exception by one without arguments
        raise KeyboardInterrupt(*received) from None
    finally:
        signal.signal(signal.SIGTERM, previous)
