"""Who may use the API, and how often: keys and rate limits, as ASGI middleware."""

import asyncio
import hmac
import math
import re
from collections.abc import Iterable
from functools import lru_cache, partial
from hashlib import sha256
from ipaddress import IPv6Network, ip_address

from limits import RateLimitItem, parse_many
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from api.http import CHARGE, CLIENT_BITS, ProblemError, client_of, is_api
from api.telemetry import Metrics
from calcgpt.base.errors import ConfigError

WRONG_KEYS = "60/minute"  # from one address
EXPIRY_SECONDS = 10  # from one search for expired counters to the next
EXPIRED_AT_ONCE = 1_000  # counters: takes about a millisecond
ANY_HOST = {"/healthz", "/readyz", "/metrics"}
LOCAL = "local"  # names and addresses of this machine
# Bits of IPv6 networks: the N-th may have N times the rate of a client.
PREFIXES = (CLIENT_BITS, 56, 48)


class Hosts:
    """Answers 421 to requests for other hosts than these, of which `local` means all that no name
    server can point here. Health checks and metrics, which are asked for by address, may name any.

    Otherwise a page whose name an attacker lets point to this machine could use the service (DNS
    rebinding).
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in ANY_HOST:
            host = re.sub(r":\d+$", "", Headers(scope=scope).get("host", "").lower())
            if host not in self._hosts and not (LOCAL in self._hosts and _is_local(host)):
                detail = f"the service is not reached as {host!r:.100}: CALCGPT_HOSTS names others"
                return await ProblemError(421, detail).response()(scope, receive, send)
        await self._app(scope, receive, send)


@lru_cache
def _is_local(host: str) -> bool:
    """Returns whether a host is an address, `localhost`, a name below it, or none (HTTP/1.0)."""
    try:
        return bool(ip_address(host.strip("[]")))
    except ValueError:
        return host in ("", "localhost") or host.endswith(".localhost")


class ApiKeys:
    """Answers 401 to requests under /v1/ without a valid key, and 429 to requests with any key from
    an address that has sent too many wrong keys.

    OPTIONS needs no key, because browsers send none with it. Inner middleware finds the name of the
    key's owner in `scope["state"]["api_client"]`.
    """

    def __init__(self, app: ASGIApp, keys: Iterable[str]) -> None:
        self._app = app
        # All digests have the same length, so the time to compare them reveals nothing of the keys.
        self._digests = [sha256(key.encode()) for key in keys]
        self._wrong = Limiter(WRONG_KEYS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] == "OPTIONS" or not is_api(scope):
            return await self._app(scope, receive, send)
        key, address, owner = _key_of(Headers(scope=scope)), client_of(scope), None
        if key is not None:
            if seconds := await self._wrong.check(address):
                return await _too_many("wrong keys", seconds).response()(scope, receive, send)
            owner = self._owner_of(key)
            if owner is None:
                await self._wrong.hit(address)
        if owner is None:
            detail = "an API key is required: `Authorization: Bearer KEY`"
            headers = {"WWW-Authenticate": "Bearer"}
            refusal = ProblemError(401, detail, kind="unauthorized", headers=headers)
            return await refusal.response()(scope, receive, send)
        scope.setdefault("state", {})["api_client"] = owner
        await self._app(scope, receive, send)

    def _owner_of(self, key: bytes) -> str | None:
        """Returns a name for the owner of a key, or None if it is not valid.

        The key cannot be recovered from the name. The loop does not stop at a match, so that its
        time does not depend on the keys.
        """
        client, digest = None, sha256(key).digest()
        for valid in self._digests:
            if hmac.compare_digest(digest, valid.digest()):
                client = f"key:{valid.hexdigest()[:32]}"
        return client


def _key_of(headers: Headers) -> bytes | None:
    """Returns the key of a request as bytes, because a header may contain any bytes. A request with
    several has none: a proxy could read another one."""
    values = headers.getlist("authorization")
    scheme, _, key = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    return key.strip().encode("latin-1") if scheme.lower() == "bearer" else None


class Limiter:
    """Counts the requests of each client in a sliding window. Each process counts for itself.

    Those of an IPv6 network (/64) count for the networks around it, too, which have higher limits:
    whoever has a /48 has 65,536 of them.

    A sliding window takes two counters per client. Exact times would take one entry per request,
    and a fixed window would let through bursts of twice the rate.
    """

    def __init__(self, rate: str) -> None:
        """`rate` is text like "600/minute"; several rates, separated by semicolons, all apply.

        Raises ConfigError if it is not valid.
        """
        try:
            rates = sorted(parse_many(rate), key=RateLimitItem.get_expiry)
        except ValueError:
            raise ConfigError(f"{rate!r} is not a rate, such as 600/minute") from None
        self.smallest = min(rates, key=lambda item: item.amount)
        if self.smallest.amount < 1:
            raise ConfigError(f"{rate!r} allows no requests")
        self._rates = [  # of a client, and of each network around it
            [type(item)(item.amount * times, item.multiples, item.namespace) for item in rates]
            for times in range(1, len(PREFIXES) + 1)
        ]
        self._storage = MemoryStorage()
        self._windows = SlidingWindowCounterRateLimiter(self._storage)

    async def hit(self, client: str, cost: int = 1) -> int:
        """Counts `cost` operations together. Returns 0 if they are allowed, else the seconds until
        as many are."""
        # Operations that one counter refuses must not count for another. So all but the first are
        # asked before any counts. The first need not be asked: it counts first, and refuses by
        # itself.
        self._drop_expired()
        counters = self._counters(client)
        if wait := await self._wait(counters[1:], cost):
            return wait
        for rate, name in counters:
            if not await self._windows.hit(rate, name, cost=cost):
                return max(1, await self._wait(counters, cost))
        return 0

    async def check(self, client: str, cost: int = 1) -> int:
        """Returns what `hit` would, and counts nothing."""
        return await self._wait(self._counters(client), cost)

    def _drop_expired(self) -> None:
        """Lets a task of ours drop expired counters. That of the storage would look at the counters
        of all clients with every request."""
        timer = self._storage.timer
        if not timer or timer.done():
            self._storage.timer = asyncio.create_task(_expire(self._storage))

    def _counters(self, client: str) -> list[tuple[RateLimitItem, str]]:
        """Returns the rates that apply to a client, each with the name under which it counts."""
        names = _networks_around(client)
        return [
            (rate, name) for rates, name in zip(self._rates, names, strict=False) for rate in rates
        ]

    async def _wait(self, counters: list[tuple[RateLimitItem, str]], cost: int) -> int:
        """Returns the seconds until all counters allow `cost` operations, or 0."""
        return max([await self._seconds(rate, name, cost) for rate, name in counters], default=0)

    async def _seconds(self, rate: RateLimitItem, client: str, cost: int) -> int:
        """Returns the whole seconds until a rate allows `cost` operations, or 0.

        A window is as long as the rate's period. The count of the previous window is weighted by
        the share of it that a window ending now would cover.
        """
        length = rate.get_expiry()
        before, before_left, now, now_left = await self._storage.get_sliding_window(
            rate.key_for(client), length
        )
        room = rate.amount - cost + 1  # the operations that count must be fewer, in whole numbers
        if before * before_left / length + now < room:
            return 0
        if now < room:  # while the previous window counts less
            wait = before_left - (room - now) * length / before
        else:  # when the current window is the previous one, and counts less itself
            wait = now_left - length + max(0.0, length - room * length / now)
        return math.floor(round(wait, 3)) + 1  # at exactly that time it is still refused


class RateLimit:
    """Answers 429 to requests under /v1/ that exceed the rate of their client.

    A client is the owner of an API key or, without keys, an address. A request counts as one
    operation when it comes. An endpoint that asks a model calls `charge_for`, which counts its
    other operations together, or none if they are too many. Then `Retry-After` says when all fit.
    """

    def __init__(self, app: ASGIApp, limiter: Limiter, metrics: Metrics) -> None:
        self._app = app
        self._limiter = limiter
        self._sheds = metrics.sheds.labels("rate")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_api(scope):
            return await self._app(scope, receive, send)
        client = client_of(scope)
        if seconds := await self._limiter.hit(client):
            return await self._refusal(seconds).response()(scope, receive, send)
        scope.setdefault("state", {})[CHARGE] = partial(self._charge, client)
        await self._app(scope, receive, send)

    async def _charge(self, client: str, n_operations: int) -> None:
        """Counts the operations of a request beyond the first. Raises what `charge_for` raises."""
        if n_operations > self._limiter.smallest.amount:
            detail = f"{n_operations:,} operations; the rate limit is {self._limiter.smallest}"
            raise ProblemError(422, detail, kind="too-many-items")
        if n_operations > 1 and await self._limiter.hit(client, n_operations - 1):
            raise self._refusal(max(1, await self._limiter.check(client, n_operations)))

    def _refusal(self, seconds: int) -> ProblemError:
        self._sheds.inc()
        return _too_many("requests or operations", seconds)


def _too_many(what: str, seconds: int) -> ProblemError:
    return ProblemError(
        429,
        f"too many {what}; try again in {seconds} s",
        kind="rate-limited",
        headers={"Retry-After": str(seconds)},
    )


async def _expire(storage: MemoryStorage) -> None:
    """Drops expired counters, some at a time, until cancelled."""
    while True:
        for number, key in enumerate(list(storage.expirations)):
            await storage.get(key)  # drops it if it is expired
            if number % EXPIRED_AT_ONCE == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(EXPIRY_SECONDS)


@lru_cache
def _networks_around(client: str) -> list[str]:
    """Returns the name of a client and, if it is an IPv6 network, those of the networks around."""
    try:
        network = IPv6Network(client)
    except ValueError:
        return [client]
    return [str(network.supernet(new_prefix=bits)) for bits in PREFIXES]
