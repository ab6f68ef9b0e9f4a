"""Headers that tell a browser to be careful."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.middleware import is_api

POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
DOCS_POLICY = f"{POLICY}; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class SecurityHeaders:
    """Adds the headers to every response that does not set them itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        added = _headers_for(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])
                headers = MutableHeaders(scope=message)
                for name, value in added.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _headers_for(scope: Scope) -> dict[str, str]:
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    docs = path == "/docs" or path.startswith("/docs/")
    headers = {**HEADERS, "Content-Security-Policy": DOCS_POLICY if docs else POLICY}
    if is_api(scope):
        headers["Cache-Control"] = "no-store"
    elif docs or path == "/" or path.startswith("/static/"):
        headers["Cache-Control"] = "no-cache"  # files of two versions do not go together
    return headers
