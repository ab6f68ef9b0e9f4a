"""How the errors of an endpoint are documented."""

from __future__ import annotations

from typing import Any

from api.problems import MEDIA_TYPE
from api.schemas import Problem

MEANINGS = {
    400: "The body is not JSON in UTF-8.",
    401: "An API key is needed.",
    404: "There is no such model.",
    408: "The body did not come in time.",
    413: "The body is too large.",
    422: "The expression, or the request, cannot be taken; or the answer is wrong, where that is "
    "to be an error.",
    429: "Too many requests from this client; `Retry-After` says when to try again.",
    503: "The model is still loading, or there is too much to do; `Retry-After` says when to try "
    "again.",
    504: "Not answered in time.",
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """`responses` of an endpoint that can end in these. Not by `model`, which would say that they
    are application/json, too; the schema is there because batches have it in their answers."""
    content = {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}}
    return {status: {"description": MEANINGS[status], "content": content} for status in statuses}


GUARDED = problems(401, 429)  # what can come of every request under /v1/
ASKED = problems(400, 401, 404, 408, 413, 422, 429, 503, 504)  # of every question to a model
