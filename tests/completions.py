"""Requests to /v1/completions, and their responses."""

from __future__ import annotations

import json
from typing import Any

from fastapi.testclient import TestClient
from httpx2 import Response
from hypothesis import strategies as st


def ask(client: TestClient, **body: Any) -> Response:
    return client.post("/v1/completions", json=body)


def texts(client: TestClient, **body: Any) -> list[str]:
    """Returns the texts of all choices by index."""
    response = ask(client, **body)
    assert response.status_code == 200, response.text
    choices = response.json()["choices"]
    assert [choice["index"] for choice in choices] == list(range(len(choices)))
    return [choice["text"] for choice in choices]


def streamed(response: Response) -> list[dict[str, Any]]:
    """Returns the events of a complete stream."""
    assert response.headers["content-type"].startswith("text/event-stream")
    *events, last = response.text.removesuffix("\n\n").split("\n\n")
    assert last == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events]


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """Draws valid requests for the tiny model."""
    optional = {
        "max_tokens": st.integers(0, 20),
        "temperature": st.sampled_from([0, 0.5, 1, 2]),
        "top_p": st.sampled_from([0.0, 1e-300, 0.5, 1.0]),
        "top_k": st.integers(1, 30),
        "n": st.integers(1, 3),
        "echo": st.booleans(),
        "logprobs": st.integers(0, 5),
        "stop": st.lists(st.text("0123456789.=", min_size=1, max_size=3), max_size=4),
        "user": st.text(max_size=3),
    }
    text = st.text("()=+-*/.0123", min_size=1, max_size=9)
    ids = st.lists(st.integers(0, 20), min_size=1, max_size=9)
    several = [st.lists(kind, min_size=1, max_size=3) for kind in (text, ids)]
    prompts = st.one_of(text, ids, *several)
    required = {"prompt": prompts, "seed": st.integers()}
    return draw(st.fixed_dictionaries(required, optional=optional))
