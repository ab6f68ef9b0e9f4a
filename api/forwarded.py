"""The address of a client, as proxies report it."""

from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

Network = IPv4Network | IPv6Network
MAX_ENTRIES = 32  # of X-Forwarded-For that are read, from the right


class Forwarded:
    """Replaces the address of a proxy by that of its client, from `X-Forwarded-For`, and the scheme
    by `X-Forwarded-Proto`.

    Each proxy appends the address from which it got the request. So the entries are read from the
    right, as long as the address to their right is that of a trusted proxy. What is further left,
    the client can have written itself. An entry that is no address ends the reading.
    """

    def __init__(self, app: ASGIApp, trusted: str, n_proxies: int = 1) -> None:
        """`trusted` are addresses and networks, separated by commas. If it is `*`, there are
        `n_proxies` proxies at any address."""
        self._app = app
        self._n_proxies = n_proxies if trusted == "*" else None
        proxies = [] if trusted == "*" else filter(None, map(str.strip, trusted.split(",")))
        self._networks = tuple(ip_network(proxy, strict=False) for proxy in proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer = _address(scope["client"][0]) if scope.get("client") else None
        if scope["type"] == "http" and peer and self._trusts(peer, 0):
            headers = Headers(scope=scope)
            client = self._client(peer, ",".join(headers.getlist("x-forwarded-for")))
            if client != peer:
                scope["client"] = client, 0
            if (scheme := headers.get("x-forwarded-proto", "").strip()) in ("http", "https"):
                scope["scheme"] = scheme
        await self._app(scope, receive, send)

    def _client(self, peer: str, forwarded: str) -> str:
        client = peer
        entries = forwarded.rsplit(",", MAX_ENTRIES)[-MAX_ENTRIES:]
        for index, entry in enumerate(reversed(entries)):
            address = _address(entry) if self._trusts(client, index) else None
            if address is None:
                break
            client = address
        return client

    def _trusts(self, address: str, index: int) -> bool:
        """Returns whether an address is that of a proxy. `index` counts from this service on."""
        if self._n_proxies is not None:
            return index < self._n_proxies
        return _is_in(address, self._networks)


@lru_cache
def _is_in(address: str, networks: tuple[Network, ...]) -> bool:
    host = ip_address(address)
    return any(host in network for network in networks)


@lru_cache
def _address(text: str) -> str | None:
    """Returns an address in its usual form, or None if the text is none. A port is dropped:
    `192.0.2.1:80`, `[2001:db8::1]:80`."""
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return None if "%" in text else str(ip_address(text))
    except ValueError:
        return None
