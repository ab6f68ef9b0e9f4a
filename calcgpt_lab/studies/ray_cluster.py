"""The only place that starts Ray: on this machine for a while, or connected to a running cluster.

Ray is in the extra `ray`. It is imported when it is needed. Its usage reports are turned off.
"""

import logging
import os
import secrets
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any
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
    started or reached. Within the block, SIGTERM is an interrupt, as SIGINT is.
    """
    prepare(address)
    import ray

    before, is_running = signal.getsignal(signal.SIGTERM), ray.is_initialized()
    if not is_running:
        _init(address, cpus)
    with suppress(ValueError):  # only the main thread can; Ray's handler would abort the process
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield ray
    finally:
        if not is_running:
            ray.shutdown()
        with suppress(ValueError):
            signal.signal(signal.SIGTERM, before)


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
