"""What a request passes before it gets to a route: one guard to a file, each of use alone.

They are plain ASGI: a response goes through them as it is written, and a client's going is seen.
"""

from __future__ import annotations

from starlette.types import Scope


def is_api(scope: Scope) -> bool:
    """Whether a request is for something under /v1/, wherever the application is mounted."""
    path: str = scope["path"].removeprefix(scope.get("root_path", ""))
    return path.startswith("/v1/")
