"""Requests to /v1/chat/completions, and its responses.

Clients of OpenAI's API send options of language models that mean nothing to a calculator. Options
that would not change the answer have no effect; all others are refused.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from api.schemas.calculator import AnswerOptions, CalculateResponse, Input
from calcgpt.inference.results import EXAMPLE, EXAMPLE_PROMPT, EXAMPLE_WORK

CHAT_REQUEST: dict[str, Any] = {
    "model": "calculator",
    "messages": [{"role": "user", "content": "12.5+3"}],
}
REASONING = f"{EXAMPLE_PROMPT}{EXAMPLE_WORK}=5.51000000$\n"
READ, WRITTEN, ANSWER = len(EXAMPLE_PROMPT), len(REASONING) - len(EXAMPLE_PROMPT) - 1, 11
HEX = "4c1a5a7b0f1e4b5c9d7a3f2e1d0c9b8a"
MESSAGE = {"role": "assistant", "content": "15.5", "refusal": None, "reasoning_content": REASONING}
CHAT_RESPONSE: dict[str, Any] = {
    "id": f"chatcmpl-{HEX}",
    "object": "chat.completion",
    "created": 1_760_000_000,
    "model": "calculator",
    "choices": [{"index": 0, "message": MESSAGE, "logprobs": None, "finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": READ,
        "completion_tokens": WRITTEN,
        "total_tokens": READ + WRITTEN,
        "completion_tokens_details": {"reasoning_tokens": WRITTEN - ANSWER},
    },
    "calculation": EXAMPLE,
}

IGNORED: Any = Field(None, description="has no effect")


def _is_false(value: Any) -> Any:
    """Accepts only false. In Python 0 equals False; in JSON it does not."""
    if value is not False:
        raise PydanticCustomError("false", "Input should be false")
    return value


def _one_message(expected: str) -> WrapValidator:
    """Replaces the error messages of all alternatives of a union by one."""

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise PydanticCustomError(
                "alternatives", "Input should be {expected}", {"expected": expected}
            ) from None

    return WrapValidator(validate)


MAX_STOP_LENGTH = 128  # characters of a string that ends an answer

OnlyFalse = Annotated[Literal[False], BeforeValidator(_is_false)]
StopText = Annotated[str, Field(min_length=1, max_length=MAX_STOP_LENGTH)]
Stop = Annotated[
    StopText | Annotated[list[StopText], Field(max_length=4, fail_fast=True)],
    _one_message(
        f"a text, or a list of at most 4; none may be empty or longer than {MAX_STOP_LENGTH}"
    ),
]


class StreamOptions(Input):
    """Options of a stream."""

    include_usage: bool = Field(
        False, description="end with an event that has the usage and no choices"
    )
    include_obfuscation: bool = Field(True, description="has no effect")


class TextPart(BaseModel):
    """A part of a message. The calculator reads only text."""

    model_config = ConfigDict(strict=True)

    type: Literal["text", "input_text", "output_text"]
    text: str


Content = Annotated[
    str | Annotated[list[TextPart], Field(min_length=1, fail_fast=True)],
    _one_message("a text, or a list of parts of the type `text` or `input_text`"),
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


class TextFormat(Input):
    """The format of the answer. There is only one."""

    type: Literal["text"] = "text"


def _with_nulls(schema: dict[str, Any]) -> None:
    """Adds an example to a schema, and documents that null stands for the default of each optional
    member."""
    for name, member in schema["properties"].items():
        if name not in schema["required"] and {"type": "null"} not in member.get("anyOf", []):
            keys = [key for key in ("default", "description") if key in member]
            notes = {key: member.pop(key) for key in keys}
            schema["properties"][name] = {"anyOf": [member, {"type": "null"}], **notes}
    schema["examples"] = [CHAT_REQUEST]


def _without_nulls(content: Any) -> Any:
    """Returns the body of a request without members that are null."""
    if not isinstance(content, dict):
        return content
    return {name: value for name, value in content.items() if value is not None}


def _last_of_user(messages: list[Any]) -> str:
    for message in reversed(messages):
        if isinstance(message, Message) and message.role == "user":
            return message.text
    raise PydanticCustomError("no_user", "There is no message with the role `user`")


class ChatRequest(AnswerOptions):
    """A conversation, whose last message of a user is the expression to calculate."""

    model_config = ConfigDict(allow_inf_nan=False, json_schema_extra=_with_nulls)

    messages: list[Message] = Field(
        min_length=1,
        fail_fast=True,
        description="the last one of the role `user` is the expression",
    )
    stop: Stop = Field([], description="strings that end the answer; they are not part of it")
    stream: bool = Field(False, description="send the model's work while it is written")
    stream_options: StreamOptions = Field(StreamOptions(), description="options of a stream")
    n: int = Field(1, ge=1, le=1, description="only 1 is supported")
    logprobs: OnlyFalse = Field(False, description="not supported")
    response_format: TextFormat = TextFormat()
    modalities: list[Literal["text"]] = Field(["text"], fail_fast=True, description="only text")
    logit_bias: dict[str, float] = Field({}, max_length=0, description="not supported")
    tools: list[Any] = Field([], max_length=0, description="not supported")
    tool_choice: Literal["none", "auto"] = Field("auto", description="has no effect")

    temperature: Any = Field(None, description="has no effect: the most probable token is taken")
    max_tokens: Any = Field(None, description="has no effect: an answer is never cut")
    max_completion_tokens: Any = Field(None, description="has no effect: an answer is never cut")
    store: Any = Field(None, description="has no effect: nothing is stored")
    frequency_penalty: Any = IGNORED
    metadata: Any = IGNORED
    parallel_tool_calls: Any = IGNORED
    prediction: Any = IGNORED
    presence_penalty: Any = IGNORED
    prompt_cache_key: Any = IGNORED
    prompt_cache_options: Any = IGNORED
    prompt_cache_retention: Any = IGNORED
    reasoning_effort: Any = IGNORED
    safety_identifier: Any = IGNORED
    seed: Any = IGNORED
    service_tier: Any = IGNORED
    top_logprobs: Any = IGNORED
    top_p: Any = IGNORED
    user: Any = IGNORED
    verbosity: Any = IGNORED

    _drop_nulls = model_validator(mode="before")(_without_nulls)

    @model_validator(mode="after")
    def _check(self) -> Self:
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
