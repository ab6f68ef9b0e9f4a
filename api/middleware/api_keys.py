"""API keys: what is under /v1/ is for those who have one."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from hashlib import sha256

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from api.middleware import is_api
from api.problems import problem


class ApiKeys:
    """Answers 401 to a request under /v1/ that has no valid key, but for OPTIONS: a browser asks
    that without one. Who has a key is known to the guards within as `scope["state"]["api_client"]`.
    """

    def __init__(self, app: ASGIApp, keys: Iterable[str]) -> None:
        self._app = app
        # Digests have one length: how long a comparison takes says nothing of the key's.
        self._digests = [sha256(key.encode()) for key in keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] == "OPTIONS" or not is_api(scope):
            return await self._app(scope, receive, send)
        client = self._client(_offered(Headers(scope=scope)))
        if client is None:
            refusal = problem(
                401,
                "an API key is needed, as `Authorization: Bearer KEY` or `X-API-Key: KEY`",
                kind="unauthorized",
                headers={"WWW-Authenticate": "Bearer"},
            )
            return await refusal(scope, receive, send)
        scope.setdefault("state", {})["api_client"] = client
        await self._app(scope, receive, send)

    def _client(self, offered: list[bytes]) -> str | None:
        """A name for whoever has one of these keys, from which the key cannot be had; None where
        none is valid. All are compared with all, whatever is found on the way."""
        client = None
        for key in offered:
            digest = sha256(key).digest()
            for known in self._digests:
                if hmac.compare_digest(digest, known.digest()):
                    client = f"key:{known.hexdigest()[:32]}"
        return client


def _offered(headers: Headers) -> list[bytes]:
    """The keys of a request, as bytes: a header may hold any."""
    keys = headers.getlist("x-api-key")
    for value in headers.getlist("authorization"):
        scheme, _, key = value.partition(" ")
        if scheme.lower() == "bearer":
            keys.append(key.strip())
    return [key.encode("latin-1") for key in keys]
