"""/v1/chat/completions: the calculator in the shape of OpenAI's API.

The answer is what a person wants to read: the result. What the model reads and writes on the way
is returned as its reasoning.
"""

import json
import time
import uuid
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from fastapi.sse import format_sse_event
from pydantic import BaseModel

from api.calculate import Asking, Inquiry
from api.connections import EventStream, Write
from api.http import (
    DONE,
    QUESTION_RESPONSES,
    JsonRoute,
    ProblemError,
    error_event,
    json_response,
    stream_responses,
)
from api.schemas.calculator import CalculateResponse, NodeStart, Token
from api.schemas.chat import ChatChoice, ChatMessage, ChatRequest, ChatResponse, ChatUsage
from api.service import Service
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.results import Calculation

CHAT_STREAM = (
    "The answer. With `stream`, server-sent events: chunks whose `delta` has the next part of "
    "`reasoning_content`, then one with the `content`, then one with the `finish_reason` and the "
    "`calculation`; the last is `[DONE]`. If an error occurs, the last event is an object with the "
    "member `error`, a problem document with a `message`."
)
CHAT_STREAM_EXAMPLE = (
    'data: {"id":"chatcmpl-4c1a5a7b","object":"chat.completion.chunk","created":1760000000,'
    '"model":"calculator","choices":[{"index":0,"delta":{"content":"15.5"},"logprobs":null,'
    '"finish_reason":null}]}\n\ndata: [DONE]\n\n'
)


def router(service: Service) -> APIRouter:
    """Returns the route of /v1/chat/completions."""
    routes = APIRouter(route_class=JsonRoute, tags=["calculator"], responses=QUESTION_RESPONSES)

    @routes.post(
        "/v1/chat/completions",
        response_model=ChatResponse,
        responses=stream_responses(CHAT_STREAM, CHAT_STREAM_EXAMPLE),
    )
    async def chat(body: ChatRequest, request: Request) -> Response:
        """Calculate the last message of a user, as OpenAI's chat endpoint answers it. Errors are
        problem documents here too. The members of /v1/calculate, such as `places` and
        `min_confidence`, may stand beside OpenAI's."""
        asking = Asking(service, body, request)
        run = ChatRun(asking.calculator, body)
        if not body.stream:
            return json_response(run.response(await asking.calculated(body.expression)))
        async with asking.planning(body.expression) as shift:
            inquiry = await asking.begin(body.expression, shift)
        return EventStream(partial(run.stream, inquiry))

    return routes


def reasoning(calculation: Calculation) -> str:
    """Returns what the model read and wrote, one line for each operation."""
    return "".join(f"{node.prompt}{node.output}\n" for node in calculation.nodes if node.prompt)


def _written(event: BaseModel) -> str:
    """Returns the part of `reasoning` that an event reports."""
    if isinstance(event, NodeStart):
        return event.prompt
    return event.text if isinstance(event, Token) else "\n"  # a node is finished


def _content(calculation: Calculation) -> str:
    return "not a number" if calculation.result is None else calculation.result


class ChatRun:
    """One request to /v1/chat/completions."""

    def __init__(self, calculator: Calculator, request: ChatRequest) -> None:
        self._identity, self._created = f"chatcmpl-{uuid.uuid4().hex}", int(time.time())
        self._model = calculator.checkpoint.name
        self._encode = calculator.checkpoint.tokenizer.encode
        self._request = request

    def response(self, calculation: Calculation) -> ChatResponse:
        """Returns the body of a response."""
        message = ChatMessage(
            content=_content(calculation), reasoning_content=reasoning(calculation)
        )
        return ChatResponse(
            id=self._identity,
            created=self._created,
            model=self._model,
            choices=[ChatChoice(message=message)],
            usage=self._usage(calculation),
            calculation=CalculateResponse.model_validate(calculation),
        )

    async def stream(self, inquiry: Inquiry, write: Write) -> None:
        """Writes the answer as OpenAI's chunks, the last of them `[DONE]` or an error."""
        write(self._chunk({"role": "assistant", "content": ""}))
        outcome = await inquiry.outcome(
            lambda event: write(self._chunk({"reasoning_content": _written(event)}))
        )
        if isinstance(outcome, ProblemError):
            write(error_event(outcome))
            return
        write(self._chunk({"content": _content(outcome)}))
        write(self._chunk({}, "stop", calculation=outcome.model_dump()))
        if self._request.stream_options.include_usage:
            write(self._event(choices=[], usage=self._usage(outcome).model_dump()))
        write(DONE)

    def _usage(self, calculation: Calculation) -> ChatUsage:
        """Returns the numbers of tokens."""
        read = sum(len(self._encode(node.prompt or "")) for node in calculation.nodes)
        written = sum(len(self._encode(node.output or "")) for node in calculation.nodes)
        return ChatUsage(prompt_tokens=read, completion_tokens=written, total_tokens=read + written)

    def _chunk(self, delta: dict[str, str], finish_reason: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self._event(choices=[choice], **more)

    def _event(self, **members: Any) -> bytes:
        chunk = {
            "id": self._identity,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
        }
        return format_sse_event(data_str=json.dumps(chunk | members))
