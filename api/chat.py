"""/v1/chat/completions: the calculator in the shape of OpenAI's API.

The answer is what a person wants to read: the result. What the model reads and writes on the way
is returned as its reasoning.

Clients of OpenAI's API send what means nothing to a calculator: options of language models, tools
that it never calls, messages that it does not read. All that has no effect. Only what is of the
wrong kind is refused, and names that OpenAI's API does not have.
"""

import json
import time
import uuid
from functools import partial
from typing import Any, Literal, Self

from fastapi import APIRouter, Request
from fastapi.responses import Response
from fastapi.sse import format_sse_event
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from api.calculate import Asking, Inquiry
from api.http import (
    DONE,
    QUESTION_RESPONSES,
    JsonRoute,
    ProblemError,
    error_event,
    json_response,
    stream_responses,
)
from api.schemas import AnswerOptions, Input, NodeStart, Token
from api.service import Service
from api.slow_clients import EventStream, Write
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.results import EXAMPLE, EXAMPLE_PROMPT, EXAMPLE_WORK, Calculation

CHAT_REQUEST: dict[str, Any] = {
    "model": "calculator",
    "messages": [{"role": "user", "content": "12.5+3"}],
}
REASONING = f"{EXAMPLE_PROMPT}{EXAMPLE_WORK}=5.51000000$\n"
READ, WRITTEN = len(EXAMPLE_PROMPT), len(REASONING) - len(EXAMPLE_PROMPT) - 1
HEX = "4c1a5a7b0f1e4b5c9d7a3f2e1d0c9b8a"
MESSAGE = {"role": "assistant", "content": "15.5", "refusal": None, "reasoning_content": REASONING}
CHAT_RESPONSE: dict[str, Any] = {
    "id": f"chatcmpl-{HEX}",
    "object": "chat.completion",
    "created": 1_760_000_000,
    "model": "calculator",
    "choices": [{"index": 0, "message": MESSAGE, "logprobs": None, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": READ, "completion_tokens": WRITTEN, "total_tokens": READ + WRITTEN},
    "calculation": EXAMPLE,
}

# Members without effect: the most probable token is taken, an answer is never cut, no tool is
# called, nothing is stored.
IGNORED = {
    "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs",
    "max_completion_tokens", "max_tokens", "metadata", "moderation", "parallel_tool_calls",
    "prediction", "presence_penalty", "prompt_cache_key", "prompt_cache_options",
    "prompt_cache_retention", "reasoning_effort", "response_format", "safety_identifier", "seed",
    "service_tier", "stop", "store", "temperature", "tool_choice", "tools", "top_logprobs", "top_p",
    "user", "verbosity", "web_search_options",
}  # fmt: skip


class StreamOptions(Input):
    """Options of a stream."""

    include_usage: bool = Field(
        False, description="end with an event that has the usage and no choices"
    )
    include_obfuscation: bool = Field(True, description="has no effect")


TEXTS = ("text", "input_text", "output_text")  # types of parts


class Message(BaseModel):
    """A message of a conversation. Only the last one of a user is read."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Any = Field(None, description="a text, or a list of parts, each with its type")

    @property
    def text(self) -> str:
        """The text of all parts. Raises PydanticCustomError if one is not of text."""
        parts = self.content
        if not isinstance(parts, list):
            parts = [{"type": "text", "text": parts}]
        texts = []
        for part in parts:
            text = part.get("text") if isinstance(part, dict) else None
            if not isinstance(text, str) or part.get("type") not in TEXTS:
                raise PydanticCustomError("no_text", "The expression has a part that is not text")
            texts.append(text)
        return "".join(texts)


def _with_nulls(schema: dict[str, Any]) -> None:
    """Adds an example and the members without effect to a schema, and documents that null stands
    for the default of each optional member."""
    for name, member in schema["properties"].items():
        if name not in schema["required"] and {"type": "null"} not in member.get("anyOf", []):
            keys = [key for key in ("default", "description") if key in member]
            notes = {key: member.pop(key) for key in keys}
            schema["properties"][name] = {"anyOf": [member, {"type": "null"}], **notes}
    schema["properties"] |= {name: {"description": "has no effect"} for name in sorted(IGNORED)}
    schema["examples"] = [CHAT_REQUEST]


def _with_effect(content: Any) -> Any:
    """Returns the body of a request without members that are null or have no effect."""
    if not isinstance(content, dict):
        return content
    return {k: value for k, value in content.items() if value is not None and k not in IGNORED}


class ChatRequest(AnswerOptions):
    """A conversation, whose last message of a user is the expression to calculate."""

    model_config = ConfigDict(allow_inf_nan=False, json_schema_extra=_with_nulls)

    messages: list[Message] = Field(
        min_length=1,
        fail_fast=True,
        description="the last one of the role `user` is the expression",
    )
    stream: bool = Field(False, description="send the model's work while it is written")
    stream_options: StreamOptions = Field(StreamOptions(), description="options of a stream")
    n: int = Field(1, ge=1, le=1, description="only 1 is supported")
    modalities: list[Literal["text"]] = Field(["text"], fail_fast=True, description="only text")

    _drop = model_validator(mode="before")(_with_effect)

    @model_validator(mode="after")
    def _check(self) -> Self:
        _ = self.expression  # which raises what is wrong with it
        return self

    @property
    def expression(self) -> str:
        """The last message of a user."""
        for message in reversed(self.messages):
            if message.role == "user":
                return message.text
        raise PydanticCustomError("no_user", "There is no message with the role `user`")


WORK = "what the model read and wrote, one line for each operation"


class ChatMessage(BaseModel):
    """The answer as a message."""

    role: Literal["assistant"] = "assistant"
    content: str = Field(
        description="the model's answer as people write it, such as `4`, or `not a number`"
    )
    refusal: None = None
    reasoning_content: str = Field(description=f"{WORK} (not OpenAI's)")


class ChatChoice(BaseModel):
    """The one answer."""

    index: Literal[0] = 0
    message: ChatMessage
    logprobs: None = None
    finish_reason: Literal["stop"] = "stop"


class ChatUsage(BaseModel):
    """The numbers of tokens that the model read and wrote, over all operations."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatResponse(BaseModel):
    """The model's answer in OpenAI's shape, with its evidence."""

    model_config = ConfigDict(json_schema_extra={"examples": [CHAT_RESPONSE]})

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int = Field(description="seconds since 1970")
    model: str = Field(description="name of the checkpoint")
    choices: list[ChatChoice]
    usage: ChatUsage
    calculation: Calculation = Field(
        description="the answer and its evidence, as /v1/calculate returns them (not OpenAI's)"
    )


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
            calculation=calculation,
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
