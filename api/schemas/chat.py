"""Requests to /v1/chat/completions and /v1/responses, and their responses.

Clients of OpenAI's API send options of language models that mean nothing to a calculator. Options
that would not change the answer have no effect; all others are refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from api.schemas.calculator import AnswerOptions, CalculateResponse, Input
from api.schemas.completions import Stop, StreamOptions, one_message, with_nulls, without_nulls
from calcgpt.inference.results import EXAMPLE, EXAMPLE_PROMPT, EXAMPLE_WORK

CHAT_REQUEST: dict[str, Any] = {
    "model": "scratchpad-small",
    "messages": [{"role": "user", "content": "12.5+3"}],
}
RESPONSES_REQUEST: dict[str, Any] = {"model": "scratchpad-small", "input": "12.5+3"}
REASONING = f"{EXAMPLE_PROMPT}{EXAMPLE_WORK}=5.51000000$\n"
READ, WRITTEN, ANSWER = len(EXAMPLE_PROMPT), len(REASONING) - len(EXAMPLE_PROMPT) - 1, 11
HEX = "4c1a5a7b0f1e4b5c9d7a3f2e1d0c9b8a"
MESSAGE = {"role": "assistant", "content": "15.5", "refusal": None, "reasoning_content": REASONING}
CHAT_RESPONSE: dict[str, Any] = {
    "id": f"chatcmpl-{HEX}",
    "object": "chat.completion",
    "created": 1_760_000_000,
    "model": "scratchpad-small",
    "choices": [{"index": 0, "message": MESSAGE, "logprobs": None, "finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": READ,
        "completion_tokens": WRITTEN,
        "total_tokens": READ + WRITTEN,
        "completion_tokens_details": {"reasoning_tokens": WRITTEN - ANSWER},
    },
    "calculation": EXAMPLE,
}
OUTPUT: list[dict[str, Any]] = [
    {
        "type": "reasoning",
        "id": f"rs_{HEX}",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": REASONING}],
        "status": "completed",
    },
    {
        "type": "message",
        "id": f"msg_{HEX}",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "15.5", "annotations": [], "logprobs": []}],
        "status": "completed",
    },
]
RESPONSES_RESPONSE: dict[str, Any] = {
    "id": f"resp_{HEX}",
    "object": "response",
    "created_at": 1_760_000_000,
    "status": "completed",
    "model": "scratchpad-small",
    "output": OUTPUT,
    "usage": {
        "input_tokens": READ,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": WRITTEN,
        "output_tokens_details": {"reasoning_tokens": WRITTEN - ANSWER},
        "total_tokens": READ + WRITTEN,
    },
    "calculation": EXAMPLE,
}

IGNORED: Any = Field(None, description="has no effect")


def _is_false(value: Any) -> Any:
    """Accepts only false. In Python 0 equals False; in JSON it does not."""
    if value is not False:
        raise PydanticCustomError("false", "Input should be false")
    return value


OnlyFalse = Annotated[Literal[False], BeforeValidator(_is_false)]


class TextPart(BaseModel):
    """A part of a message. The calculator reads only text."""

    model_config = ConfigDict(strict=True)

    type: Literal["text", "input_text", "output_text"]
    text: str


Content = Annotated[
    str | Annotated[list[TextPart], Field(min_length=1, fail_fast=True)],
    one_message("a text, or a list of parts of the type `text` or `input_text`"),
]


class Message(BaseModel):
    """A message of a conversation. Only the last one of a user is read."""

    model_config = ConfigDict(strict=True)

    role: Literal["system", "developer", "user", "assistant"]
    content: Content | None = None

    @property
    def text(self) -> str:
        """The text of all parts."""
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""


class Reasoning(BaseModel):
    """What the model wrote in an earlier answer. It is not read."""

    model_config = ConfigDict(strict=True)

    type: Literal["reasoning"]


class TextFormat(Input):
    """The format of the answer. There is only one."""

    type: Literal["text"] = "text"


class TextOptions(Input):
    """How the answer is written."""

    format: TextFormat | None = None
    verbosity: Any = IGNORED


def _last_of_user(messages: list[Any]) -> str:
    for message in reversed(messages):
        if isinstance(message, Message) and message.role == "user":
            return message.text
    raise PydanticCustomError("no_user", "There is no message with the role `user`")


class Ask(AnswerOptions):
    """The options that both endpoints accept."""

    stream: bool = Field(False, description="send the model's work while it is written")
    stream_options: StreamOptions = Field(StreamOptions(), description="options of a stream")
    tools: list[Any] = Field([], max_length=0, description="not supported")
    tool_choice: Literal["none", "auto"] = Field("auto", description="has no effect")

    temperature: Any = Field(None, description="has no effect: the most probable token is taken")
    top_p: Any = IGNORED
    top_logprobs: Any = IGNORED
    parallel_tool_calls: Any = IGNORED
    metadata: Any = IGNORED
    prompt_cache_key: Any = IGNORED
    prompt_cache_options: Any = IGNORED
    prompt_cache_retention: Any = IGNORED
    safety_identifier: Any = IGNORED
    service_tier: Any = IGNORED
    store: Any = Field(None, description="has no effect: nothing is stored")
    user: Any = IGNORED

    _drop_nulls = model_validator(mode="before")(without_nulls)


class ChatRequest(Ask):
    """A conversation, whose last message of a user is the expression to calculate."""

    model_config = ConfigDict(allow_inf_nan=False, json_schema_extra=with_nulls(CHAT_REQUEST))

    messages: list[Message] = Field(
        min_length=1,
        fail_fast=True,
        description="the last one of the role `user` is the expression",
    )
    stop: Stop = Field([], description="strings that end the answer; they are not part of it")
    n: int = Field(1, ge=1, le=1, description="only 1 is supported")
    logprobs: OnlyFalse = Field(False, description="not supported")
    response_format: TextFormat = TextFormat()
    modalities: list[Literal["text"]] = Field(["text"], fail_fast=True, description="only text")
    logit_bias: dict[str, float] = Field({}, max_length=0, description="not supported")

    max_tokens: Any = Field(None, description="has no effect: an answer is never cut")
    max_completion_tokens: Any = Field(None, description="has no effect: an answer is never cut")
    frequency_penalty: Any = IGNORED
    prediction: Any = IGNORED
    presence_penalty: Any = IGNORED
    reasoning_effort: Any = IGNORED
    seed: Any = IGNORED
    verbosity: Any = IGNORED

    @model_validator(mode="after")
    def _check(self) -> ChatRequest:
        _last_of_user(self.messages)
        return self

    @property
    def expression(self) -> str:
        """The last message of a user."""
        return _last_of_user(self.messages)

    @property
    def stops(self) -> list[str]:
        """The strings that end the answer."""
        return [self.stop] if isinstance(self.stop, str) else self.stop


class ResponsesRequest(Ask):
    """An expression, or a conversation whose last message of a user is the expression."""

    model_config = ConfigDict(allow_inf_nan=False, json_schema_extra=with_nulls(RESPONSES_REQUEST))

    input: Annotated[
        str | Annotated[list[Message | Reasoning], Field(min_length=1, fail_fast=True)],
        one_message("a text, or a list of messages"),
    ] = Field(description="a text, or messages; the last one of the role `user` is the expression")
    background: OnlyFalse = Field(False, description="not supported")
    text: TextOptions = TextOptions()

    include: Any = IGNORED
    instructions: Any = IGNORED
    max_tool_calls: Any = IGNORED
    max_output_tokens: Any = Field(None, description="has no effect: an answer is never cut")
    reasoning: Any = IGNORED
    truncation: Any = IGNORED

    @model_validator(mode="after")
    def _check(self) -> ResponsesRequest:
        if not isinstance(self.input, str):
            _last_of_user(self.input)
        return self

    @property
    def expression(self) -> str:
        """The text, or the last message of a user."""
        return self.input if isinstance(self.input, str) else _last_of_user(self.input)


CALCULATION = Field(
    None, description="the answer and its evidence, as /v1/calculate returns them (not OpenAI's)"
)
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


class WrittenTokens(BaseModel):
    """Details of the tokens that the model wrote."""

    reasoning_tokens: int = Field(description="all but those of the last operation's answer")


class ChatUsage(BaseModel):
    """The numbers of tokens that the model read and wrote, over all operations."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    completion_tokens_details: WrittenTokens


class ChatResponse(BaseModel):
    """The model's answer in OpenAI's shape, with its evidence."""

    model_config = ConfigDict(json_schema_extra={"examples": [CHAT_RESPONSE]})

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int = Field(description="seconds since 1970")
    model: str = Field(description="name of the checkpoint")
    choices: list[ChatChoice]
    usage: ChatUsage
    calculation: CalculateResponse | None = CALCULATION


class ReadTokens(BaseModel):
    """Details of the tokens that the model read."""

    cached_tokens: Literal[0] = 0
    cache_write_tokens: Literal[0] = 0


class ResponsesUsage(BaseModel):
    """The numbers of tokens that the model read and wrote, over all operations."""

    input_tokens: int
    input_tokens_details: ReadTokens = ReadTokens()
    output_tokens: int
    output_tokens_details: WrittenTokens
    total_tokens: int


class ReasoningText(BaseModel):
    """The work."""

    type: Literal["reasoning_text"] = "reasoning_text"
    text: str = Field(description=WORK)


class ReasoningItem(BaseModel):
    """The model's work, before the answer."""

    type: Literal["reasoning"] = "reasoning"
    id: str
    summary: list[Any] = Field([], max_length=0)
    content: list[ReasoningText]
    status: Literal["in_progress", "completed"] = "completed"


class OutputText(BaseModel):
    """The answer."""

    type: Literal["output_text"] = "output_text"
    text: str = Field(
        description="the model's answer as people write it, such as `4`, or `not a number`"
    )
    annotations: list[Any] = Field([], max_length=0)
    logprobs: list[Any] = Field([], max_length=0)


class MessageItem(BaseModel):
    """The answer as a message."""

    type: Literal["message"] = "message"
    id: str
    role: Literal["assistant"] = "assistant"
    content: list[OutputText]
    status: Literal["in_progress", "completed"] = "completed"


class ResponsesResponse(BaseModel):
    """The model's work and its answer in OpenAI's shape, with the evidence."""

    model_config = ConfigDict(json_schema_extra={"examples": [RESPONSES_RESPONSE]})

    id: str
    object: Literal["response"] = "response"
    created_at: int = Field(description="seconds since 1970")
    status: Literal["in_progress", "completed", "failed"] = "completed"
    model: str = Field(description="name of the checkpoint")
    output: list[ReasoningItem | MessageItem]
    usage: ResponsesUsage | None = None
    calculation: CalculateResponse | None = CALCULATION

    error: dict[str, str] | None = None
    incomplete_details: None = None
    instructions: None = None
    metadata: dict[str, str] = {}
    parallel_tool_calls: Literal[False] = False
    previous_response_id: None = None
    store: Literal[False] = False
    temperature: Literal[0] = 0
    tool_choice: Literal["none"] = "none"
    tools: list[Any] = Field([], max_length=0)
    top_p: Literal[1] = 1
    truncation: Literal["disabled"] = "disabled"
