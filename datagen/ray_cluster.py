"""Ray: a cluster that runs, or one that is begun on this machine for the time being.

Ray is the extra `ray`; it is imported where it is asked for. Nothing is reported to its makers.
"""

import logging
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from datagen.errors import UserError

_PATIENCE = 10.0  # seconds for a cluster's machine to answer; Ray itself takes minutes


def prepare(address: str | None) -> None:
    """Set what Ray reads when it is imported, and import it. What is begun here, where there is no
    `address`, is for this process alone: on the loopback, behind a token.

    Raises UserError where the extra is missing, or nobody listens at the address.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address is None:
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # it listens on the loopback alone
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    else:
        _knock(address)
    try:
        import ray  # noqa: F401
    except ImportError:
        raise UserError("Ray is not installed: pip install 'calcgpt[ray]'") from None


def _knock(address: str) -> None:
    """Raise UserError where nobody listens at HOST:PORT."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        if parts.port:  # others are `auto`, or not addresses, which Ray says at once
            socket.create_connection((parts.hostname or "", parts.port), _PATIENCE).close()
    except (OSError, ValueError) as error:
        raise UserError(f"no Ray at {address}: {error}") from None


@contextmanager
def connected(
    address: str | None, cpus: int | None = None, *, local: Any = None, **options: Any
) -> Iterator[ModuleType]:
    """Ray, connected to the cluster at `address`, or begun on this machine alone with `cpus` CPUs,
    or all, and ended afterwards. As it is, where this process has it already.

    `options` go to `ray.init`, those of `local` where Ray is begun here. Raises UserError, one
    line, where that fails.
    """
    prepare(address)
    import ray

    if ray.is_initialized():
        yield ray
        return
    if address is None:
        options |= {"num_cpus": cpus, "include_dashboard": False, **(local or {})}
    quiet: Any = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    try:
        ray.init(address or "local", **quiet, **options)
    except Exception as error:  # of no narrower class, some of them
        where = address or "this machine"
        raise UserError(f"no Ray at {where}: {first_line(error)}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
