"""The only place that starts Ray: on this machine for a while, or connected to a running cluster.

Ray is in the extra `ray`. It is imported when it is needed. Its usage reports are turned off.
"""

import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any, NoReturn
from urllib.parse import urlsplit

from calcgpt.base.errors import UserError
from calcgpt.base.extras import require

_CONNECT_SECONDS = 10.0  # how long a cluster may take to answer; Ray itself waits for minutes
_STARTS = 4  # attempts: Ray gives up a start after 30 seconds, too early on a busy machine
_WATCHER = """
import sys
if not sys.stdin.read():
    sys.exit("error: Ray failed: this process was ended, by Ray after its node died or by a signal")
"""


def prepare(address: str | None) -> None:
    """Sets the environment that Ray reads when it is imported, and imports it.

    Without an `address`, Ray will listen on the loopback alone and require a token. Raises
    UserError if Ray is not installed, or if nothing listens at the address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address is None:
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # listen on the loopback alone
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    else:
        _check_address(address)
    require("--engine ray", "ray")
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
def connected(
    address: str | None, cpus: int | None = None, *, local: Any = None, **options: Any
) -> Iterator[ModuleType]:
    """Yields the module `ray`, connected to the cluster at `address`.

    Without an address, Ray is started on this machine with `cpus` CPUs, by default all, and ended
    after the block. A Ray that this process has already started is used as it is. `options` are
    arguments of `ray.init`; those in `local` apply only if Ray is started here. Raises UserError if
    Ray cannot be started or reached. Within the block, SIGTERM raises KeyboardInterrupt with its
    number as the argument.

    If Ray ends this process within the block, one line on stderr says so.
    """
    prepare(address)
    import ray

    previous = signal.getsignal(signal.SIGTERM)
    if ray.is_initialized():
        with _terminable(previous):
            yield ray
        return
    if address is None:
        options |= {"num_cpus": cpus, "include_dashboard": False, **(local or {})}
    with _watched():
        _init(address, options)
        try:
            with _terminable(previous):
                yield ray
        finally:
            ray.shutdown()


def _init(address: str | None, options: dict[str, Any]) -> None:
    """Calls `ray.init`, and again if a start on this machine takes too long."""
    import ray

    for attempt in range(1, _STARTS + 1):
        try:
            ray.init(
                address or "local", log_to_driver=False, logging_level=logging.CRITICAL, **options
            )
            return
        except Exception as error:  # Ray raises some errors without a class of their own
            if address is None and attempt < _STARTS and "timed out during startup" in str(error):
                continue
            location = address or "this machine"
            raise UserError(f"no Ray at {location}: {first_line(error)}") from error


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


@contextmanager
def _watched() -> Iterator[None]:
    """Starts a process that writes a line to stderr if this process ends within the block.

    Ray's core calls `_exit(1)` without a word when it cannot reach the object store of its node.
    Nothing in the same process could explain that.
    """
    with subprocess.Popen(  # nosec B603  # this Python, code of ours
        [sys.executable, "-I", "-S", "-c", _WATCHER],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # an interrupt from the terminal is for this process alone
    ) as watcher:
        try:
            yield
        finally:
            watcher.communicate(b"left")


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message, or its class if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
