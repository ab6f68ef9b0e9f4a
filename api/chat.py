"""/v1/chat/completions and /v1/responses: the calculator in the shapes of OpenAI's API.

The answer is what a person wants to read: the result. What the model reads and writes on the way
is returned as the reasoning of these APIs.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from itertools import count
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from fastapi.sse import format_sse_event
from pydantic import BaseModel

from api.calculate import Inquiry, begin
from api.problems import QUESTION_RESPONSES, ProblemError
from api.routing import DONE, EventStream, JsonRoute, RequestStack, error_event, stream_responses
from api.schemas.calculator import CalculateResponse, NodeEnd, NodeStart, Token
from api.schemas.chat import (
    ChatChoice,
    ChatMessage,
    ChatRequest,
    ChatResponse,
    ChatUsage,
    MessageItem,
    OutputText,
    ReasoningItem,
    ReasoningText,
    ResponsesRequest,
    ResponsesResponse,
    ResponsesUsage,
    WrittenTokens,
)
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
    '"model":"scratchpad-small","choices":[{"index":0,"delta":{"content":"15.5"},"logprobs":null,'
    '"finish_reason":null}]}\n\ndata: [DONE]\n\n'
)
RESPONSES_STREAM = (
    "The answer. With `stream`, server-sent events of OpenAI's types, among them "
    "`response.reasoning_text.delta`, `response.output_text.delta` and, as the last, "
    "`response.completed`, or `error` with a problem document as `error`."
)
RESPONSES_STREAM_EXAMPLE = (
    'event: response.output_text.delta\ndata: {"type":"response.output_text.delta",'
    '"item_id":"msg_4c1a5a7b","output_index":1,"content_index":0,"delta":"15.5","logprobs":[],'
    '"sequence_number":9}\n\n'
)


def router(service: Service) -> APIRouter:
    """Returns the routes of /v1/chat/completions and /v1/responses."""
    routes = APIRouter(route_class=JsonRoute, tags=["calculator"], responses=QUESTION_RESPONSES)

    @routes.post(
        "/v1/chat/completions",
        response_model=ChatResponse,
        responses=stream_responses(CHAT_STREAM, CHAT_STREAM_EXAMPLE),
    )
    async def chat(
        body: ChatRequest, request: Request, stack: RequestStack
    ) -> Response | ChatResponse:
        """Calculate the last message of a user, as OpenAI's chat endpoint answers it. Errors are
        problem documents here too. The members of /v1/calculate, such as `places` and
        `min_confidence`, may stand beside OpenAI's."""
        inquiry = await begin(service, body.expression, body, request, stack)
        run = ChatRun(inquiry.calculator, body)
        if body.stream:
            return EventStream(run.stream(_follow(inquiry)))
        return run.response(await service.while_connected(request, inquiry.answer()))

    @routes.post(
        "/v1/responses",
        response_model=ResponsesResponse,
        responses=stream_responses(RESPONSES_STREAM, RESPONSES_STREAM_EXAMPLE),
    )
    async def responses(
        body: ResponsesRequest, request: Request, stack: RequestStack
    ) -> Response | ResponsesResponse:
        """Calculate an expression, as OpenAI's endpoint of responses answers it. Nothing is stored.
        Errors are problem documents here too. The members of /v1/calculate, such as `places` and
        `min_confidence`, may stand beside OpenAI's."""
        inquiry = await begin(service, body.expression, body, request, stack)
        run = ResponsesRun(inquiry.calculator)
        if body.stream:
            return EventStream(run.stream(_follow(inquiry)))
        return run.response(await service.while_connected(request, inquiry.answer()))

    return routes


class Transcript:
    """The work of all operations, one operation per line and in order, although the model writes
    several operations at a time."""

    def __init__(self) -> None:
        self._node = 0  # the one whose line is being returned
        self._text: defaultdict[int, str] = defaultdict(str)  # not returned yet, by node
        self._ended: set[int] = set()

    def add(self, event: BaseModel) -> str:
        """Adds an event of a computation. Returns the text that is now next in order."""
        if isinstance(event, NodeStart):
            self._text[event.node] += event.prompt
        elif isinstance(event, Token):
            self._text[event.node] += event.text
        elif isinstance(event, NodeEnd):
            self._text[event.node] += "\n"
            self._ended.add(event.node)
        text = self._text.pop(self._node, "")
        while self._node in self._ended:
            self._node += 1
            text += self._text.pop(self._node, "")
        return text

    def rest(self) -> str:
        """Returns the lines that follow an operation about which the model was not asked."""
        return "".join(self._text[node] for node in sorted(self._text))


Parts = AsyncGenerator[str | Calculation | ProblemError]


async def _follow(inquiry: Inquiry) -> Parts:
    """Yields the parts of the transcript, then the calculation or what went wrong."""
    transcript = Transcript()
    async with aclosing(inquiry.service.follow(inquiry.answer)) as events:
        async for event in events:
            if isinstance(event, ProblemError):
                yield event
                return
            ended = isinstance(event, Calculation)
            if text := transcript.rest() if ended else transcript.add(event):
                yield text
            if isinstance(event, Calculation):
                yield event


def reasoning(calculation: Calculation) -> str:
    """Returns what the model read and wrote, one line for each operation."""
    return "".join(f"{node.prompt}{node.output}\n" for node in calculation.nodes if node.prompt)


def content(calculation: Calculation) -> str:
    """Returns the answer as a person wants to read it."""
    return "not a number" if calculation.result is None else calculation.result


class _Run:
    """One request: its identity, and how much the model read and wrote."""

    def __init__(self, calculator: Calculator) -> None:
        self._identity, self._created = uuid.uuid4().hex, int(time.time())
        self._model = calculator.checkpoint.name
        self._encode = calculator.checkpoint.tokenizer.encode

    def _tokens(self, calculation: Calculation) -> tuple[int, int, WrittenTokens]:
        """Returns the numbers of tokens: read, written, and written as work."""
        read = sum(len(self._encode(node.prompt or "")) for node in calculation.nodes)
        written = sum(len(self._encode(node.output or "")) for node in calculation.nodes)
        last = calculation.nodes[-1].output if calculation.nodes else None  # a number has no nodes
        n_answer = len(self._encode((last or "").rpartition("=")[2]))
        work = WrittenTokens(reasoning_tokens=written - n_answer)
        return read, written, work


class ChatRun(_Run):
    """One request to /v1/chat/completions."""

    def __init__(self, calculator: Calculator, request: ChatRequest) -> None:
        super().__init__(calculator)
        self._request = request

    def response(self, calculation: Calculation) -> ChatResponse:
        """Returns the body of a response."""
        message = ChatMessage(
            content=self._content(calculation), reasoning_content=reasoning(calculation)
        )
        return ChatResponse(
            id=f"chatcmpl-{self._identity}",
            created=self._created,
            model=self._model,
            choices=[ChatChoice(message=message)],
            usage=self._usage(calculation),
            calculation=CalculateResponse.model_validate(calculation),
        )

    async def stream(self, parts: Parts) -> AsyncIterator[bytes]:
        """Yields OpenAI's chunks, the last of them `[DONE]` or an error."""
        yield self._chunk({"role": "assistant", "content": ""})
        async with aclosing(parts):
            async for part in parts:
                if isinstance(part, ProblemError):
                    yield error_event(part)
                    return
                if isinstance(part, str):
                    yield self._chunk({"reasoning_content": part})
                    continue
                yield self._chunk({"content": self._content(part)})
                yield self._chunk({}, "stop", calculation=part.model_dump())
                if self._request.stream_options.include_usage:
                    yield self._event(choices=[], usage=self._usage(part).model_dump())
        yield DONE

    def _content(self, calculation: Calculation) -> str:
        text = content(calculation)
        return min((text.partition(stop)[0] for stop in self._request.stops), key=len, default=text)

    def _usage(self, calculation: Calculation) -> ChatUsage:
        read, written, work = self._tokens(calculation)
        return ChatUsage(
            prompt_tokens=read,
            completion_tokens=written,
            total_tokens=read + written,
            completion_tokens_details=work,
        )

    def _chunk(self, delta: dict[str, str], finish_reason: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return self._event(choices=[choice], **more)

    def _event(self, **members: Any) -> bytes:
        chunk = {
            "id": f"chatcmpl-{self._identity}",
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
        }
        return format_sse_event(data_str=json.dumps(chunk | members))


class ResponsesRun(_Run):
    """One request to /v1/responses."""

    def __init__(self, calculator: Calculator) -> None:
        super().__init__(calculator)
        self._numbers = count()  # of events

    def response(self, calculation: Calculation) -> ResponsesResponse:
        """Returns the body of a response."""
        read, written, work = self._tokens(calculation)
        return self._body(
            output=[self._reasoning(reasoning(calculation)), self._message(content(calculation))],
            usage=ResponsesUsage(
                input_tokens=read,
                output_tokens=written,
                output_tokens_details=work,
                total_tokens=read + written,
            ),
            calculation=CalculateResponse.model_validate(calculation),
        )

    async def stream(self, parts: Parts) -> AsyncIterator[bytes]:
        """Yields OpenAI's events, the last of them `response.completed` or an error."""
        initial = self._body(status="in_progress", output=[]).model_dump()
        for name in ("response.created", "response.in_progress"):
            yield self._event(name, response=initial)
        reasoning_item = self._reasoning("", "in_progress").model_copy(update={"content": []})
        for event in self._opening(0, reasoning_item, ReasoningText(text="")):
            yield event
        async with aclosing(parts):
            async for part in parts:
                if isinstance(part, ProblemError):
                    yield error_event(part, "error")
                elif isinstance(part, str):
                    location = {"item_id": reasoning_item.id, "output_index": 0, "content_index": 0}
                    yield self._event("response.reasoning_text.delta", **location, delta=part)
                else:
                    for event in self._ending(self.response(part)):
                        yield event

    def _ending(self, response: ResponsesResponse) -> list[bytes]:
        """Returns the events after the work."""
        reasoning_item, message = response.output
        assert isinstance(reasoning_item, ReasoningItem)
        assert isinstance(message, MessageItem)
        location = {"item_id": message.id, "output_index": 1, "content_index": 0, "logprobs": []}
        empty = self._message("", "in_progress").model_copy(update={"content": []})
        text = message.content[0].text
        return [
            *self._closing(0, reasoning_item, "response.reasoning_text.done"),
            *self._opening(1, empty, OutputText(text="")),
            self._event("response.output_text.delta", **location, delta=text),
            *self._closing(1, message, "response.output_text.done", logprobs=[]),
            self._event("response.completed", response=response.model_dump()),
        ]

    def _opening(
        self, index: int, item: ReasoningItem | MessageItem, part: ReasoningText | OutputText
    ) -> list[bytes]:
        location = {"item_id": item.id, "output_index": index, "content_index": 0}
        return [
            self._event("response.output_item.added", output_index=index, item=item.model_dump()),
            self._event("response.content_part.added", **location, part=part.model_dump()),
        ]

    def _closing(
        self, index: int, item: ReasoningItem | MessageItem, done_event: str, **more: Any
    ) -> list[bytes]:
        location = {"item_id": item.id, "output_index": index, "content_index": 0}
        part = item.content[0]
        return [
            self._event(done_event, **location, text=part.text, **more),
            self._event("response.content_part.done", **location, part=part.model_dump()),
            self._event("response.output_item.done", output_index=index, item=item.model_dump()),
        ]

    def _reasoning(self, text: str, status: Any = "completed") -> ReasoningItem:
        texts = [ReasoningText(text=text)]
        return ReasoningItem(id=f"rs_{self._identity}", content=texts, status=status)

    def _message(self, text: str, status: Any = "completed") -> MessageItem:
        texts = [OutputText(text=text)]
        return MessageItem(id=f"msg_{self._identity}", content=texts, status=status)

    def _body(self, **members: Any) -> ResponsesResponse:
        identity, created = f"resp_{self._identity}", self._created
        return ResponsesResponse(id=identity, created_at=created, model=self._model, **members)

    def _event(self, name: str, **members: Any) -> bytes:
        data = {"type": name, "sequence_number": next(self._numbers), **members}
        return format_sse_event(event=name, data_str=json.dumps(data))
