"""How many requests a client may make in a time."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from ipaddress import IPv6Address, IPv6Network, ip_address

from limits import parse_many
from limits.aio.storage import Storage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from limits.errors import ConfigurationError
from limits.storage import storage_from_string
from starlette.types import ASGIApp, Receive, Scope, Send

from api.middleware import is_api
from api.problems import problem
from api.telemetry import Metrics
from calcgpt.errors import ConfigError

log = logging.getLogger(__name__)

STORAGE_SECONDS = 0.5  # a storage that takes longer has failed
REST_SECONDS = 10.0  # for which a storage that has failed is not asked


class Limiter:
    """Counts the requests of clients in a sliding window: two counters a client, where exact
    times would be one entry a request, and no burst of twice the rate as with a fixed window.

    `rate` is text like "600/minute", or several such, separated by semicolons, which all hold.
    `storage` is a URI; in memory each process counts for itself. Raises ConfigError where one of
    them is not valid.
    """

    def __init__(self, rate: str, storage: str = "async+memory://") -> None:
        try:
            self._rates = parse_many(rate)
        except ValueError as error:
            raise ConfigError(f"rate limit: {error}") from None
        self._windows = SlidingWindowCounterRateLimiter(_open(storage))
        self._failed_at = -math.inf

    async def seconds_to_wait(self, client: str) -> int:
        """Count a request; 0 where it may go on, else the seconds until the next one may.

        A storage that fails refuses nobody.
        """
        if self._rests():
            return 0
        try:
            async with asyncio.timeout(STORAGE_SECONDS):
                return await self._ask(client)
        except Exception as error:  # whatever a storage's client library raises
            if not self._rests():  # once, of all requests that wait for it
                self._failed_at = time.monotonic()
                log.warning(
                    "rates are not limited for %g s: the storage fails (%s)",
                    REST_SECONDS,
                    type(error).__name__,  # its text may name the storage, password included
                )
            return 0

    def _rests(self) -> bool:
        return time.monotonic() < self._failed_at + REST_SECONDS

    async def _ask(self, client: str) -> int:
        for rate in self._rates:
            if not await self._windows.hit(rate, client):
                stats = await self._windows.get_window_stats(rate, client)
                return max(1, math.ceil(stats.reset_time - time.time()))
        return 0


class RateLimit:
    """Answers 429 to requests under /v1/ above the rate of their client: who has an API key, else
    an address."""

    def __init__(self, app: ASGIApp, limiter: Limiter, metrics: Metrics) -> None:
        self._app = app
        self._limiter = limiter
        self._sheds = metrics.sheds.labels("rate")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        seconds = 0
        if scope["type"] == "http" and is_api(scope):
            seconds = await self._limiter.seconds_to_wait(_client(scope))
        if not seconds:
            return await self._app(scope, receive, send)
        self._sheds.inc()
        refusal = problem(
            429,
            f"too many requests; try again in {seconds} s",
            kind="rate-limited",
            headers={"Retry-After": str(seconds)},
        )
        await refusal(scope, receive, send)


def _open(uri: str) -> Storage:
    try:
        storage = storage_from_string(uri)
    except (ConfigurationError, ValueError):  # whose text may hold the password
        storage = None
    if not isinstance(storage, Storage):
        raise ConfigError(
            "rates cannot be counted: the storage must be one of the library `limits` for asyncio, "
            "as async+memory:// or async+redis://HOST, and its client be installed"
        )
    return storage


def _client(scope: Scope) -> str:
    """Who asks. A network of IPv6 is one client: anybody has one, with 2^64 addresses."""
    known: str | None = scope.get("state", {}).get("api_client")
    if known:
        return known
    host: str = (scope.get("client") or ("unknown", 0))[0]
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        return str(address.ipv4_mapped or IPv6Network((int(address), 64), strict=False))
    return host
