"""Bodies of requests: JSON as RFC 8259 has it between systems, and nothing else.

Python's `json` would also take UTF-16 and UTF-32, NaN, and the last of several members of one name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from fastapi import Request, Response
from fastapi.routing import APIRoute

from api.problems import ProblemError

MAX_MEMBERS = 1_000  # of an object: each that is not known takes an error message to refuse


class JsonRequest(Request):
    """A request whose `json` raises ProblemError (400) for a body that is not JSON."""

    async def json(self) -> Any:
        try:
            return json.loads(
                (await self.body()).decode("utf-8"),
                object_pairs_hook=_members,
                parse_constant=_refuse_constant,
            )
        except UnicodeDecodeError as error:
            reason = f"byte {error.start} is not UTF-8"
        except RecursionError:
            reason = "it is nested too deeply"
        except ValueError as error:  # such as a JSONDecodeError
            reason = str(error)
        raise ProblemError(400, f"the body is not JSON: {reason:.200}", kind="invalid-json")


class JsonRoute(APIRoute):
    """The class of routes that take a `JsonRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def read(request: Request) -> Response:
            return await handle(JsonRequest(request.scope, request.receive))

        return read


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_MEMBERS:
        raise ValueError(f"an object has more than {MAX_MEMBERS} members")
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a member of an object is there twice")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")
