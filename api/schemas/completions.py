"""Requests to /v1/completions, and its responses and events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from api.schemas.calculator import MODEL, Input
from calcgpt.inference.results import EXAMPLE_PROMPT, EXAMPLE_WORK

REQUEST: dict[str, Any] = {
    "model": "scratchpad-small",
    "prompt": EXAMPLE_PROMPT,
    "temperature": 0,
    "max_tokens": 200,
}
COMPLETION = f"{EXAMPLE_WORK}=5.51000000"
USAGE = {
    "prompt_tokens": len(EXAMPLE_PROMPT),
    "completion_tokens": len(COMPLETION) + 1,  # with the `$` that ends it
    "total_tokens": len(EXAMPLE_PROMPT + COMPLETION) + 1,
}
CHOICE = {"index": 0, "text": COMPLETION, "logprobs": None, "finish_reason": "stop"}
RESPONSE: dict[str, Any] = {
    "id": "cmpl-4c1a5a7b0f1e4b5c9d7a3f2e1d0c9b8a",
    "object": "text_completion",
    "created": 1_760_000_000,
    "model": "scratchpad-small",
    "choices": [CHOICE],
    "usage": USAGE,
}


def one_message(expected: str) -> WrapValidator:
    """Replaces the error messages of all alternatives of a union by one."""

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise PydanticCustomError(
                "alternatives", "Input should be {expected}", {"expected": expected}
            ) from None

    return WrapValidator(validate)


MAX_STOP_LENGTH = 128  # characters of a string that ends a text

Text = Annotated[str, Field(min_length=1)]
# `fail_fast` stops at the first error: the errors of 15,000 items would take long to report.
Ids = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1, fail_fast=True)]
Prompt = Annotated[
    Text
    | Annotated[list[Text], Field(min_length=1, fail_fast=True)]
    | Ids
    | Annotated[list[Ids], Field(min_length=1, fail_fast=True)],
    one_message("a text, token ids, or a list of texts or of lists of ids; none may be empty"),
]
StopText = Annotated[str, Field(min_length=1, max_length=MAX_STOP_LENGTH)]
Stop = Annotated[
    StopText | Annotated[list[StopText], Field(max_length=4, fail_fast=True)],
    one_message(
        f"a text, or a list of at most 4; none may be empty or longer than {MAX_STOP_LENGTH}"
    ),
]


class StreamOptions(Input):
    """Options of a stream."""

    include_usage: bool = Field(
        False, description="end with an event that has the usage and no choices"
    )
    include_obfuscation: bool = Field(True, description="has no effect")


def with_nulls(example: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    """Returns a function that adds an example to a schema, and documents that null stands for the
    default of each optional member."""

    def extend(schema: dict[str, Any]) -> None:
        for name, member in schema["properties"].items():
            if name not in schema["required"] and {"type": "null"} not in member.get("anyOf", []):
                keys = [key for key in ("default", "description") if key in member]
                notes = {key: member.pop(key) for key in keys}
                schema["properties"][name] = {"anyOf": [member, {"type": "null"}], **notes}
        schema["examples"] = [example]

    return extend


def without_nulls(content: Any) -> Any:
    """Returns the body of a request without members that are null."""
    if not isinstance(content, dict):
        return content
    return {name: value for name, value in content.items() if value is not None}


class CompletionRequest(Input):
    """A text for the raw model to continue. Nothing is parsed or checked. Options of OpenAI's
    endpoint that are not supported, such as `suffix`, are refused."""

    model_config = ConfigDict(allow_inf_nan=False, json_schema_extra=with_nulls(REQUEST))

    prompt: Prompt = Field(
        description="one prompt, or a list; each is continued", examples=[EXAMPLE_PROMPT]
    )
    model: str | None = MODEL
    max_tokens: int = Field(
        16, ge=0, description="maximum number of tokens to write; fewer if the context is full"
    )
    temperature: float = Field(
        1, ge=0, le=2, description="below 0.0001, the most probable token is always taken"
    )
    top_p: float = Field(
        1, ge=0, le=1, description="sample from the most probable tokens that add up to this"
    )
    top_k: int | None = Field(
        None, ge=1, description="sample from this many of the most probable tokens (not OpenAI's)"
    )
    seed: int | None = Field(
        None, description="the same seed gives the same samples; null draws a new one"
    )
    n: int = Field(1, ge=1, le=100, description="continuations of each prompt")
    stop: Stop = Field([], description="strings that end the text; they are not part of it")
    echo: bool = Field(False, description="begin the text with the prompt")
    logprobs: int | None = Field(
        None, ge=0, le=5, description="return log-probabilities, with this many alternatives"
    )
    stream: bool = Field(False, description="send the text while it is written")
    stream_options: StreamOptions = Field(StreamOptions(), description="options of a stream")

    best_of: int = Field(1, ge=1, le=1, description="not supported")
    presence_penalty: float = Field(0, ge=0, le=0, description="not supported")
    frequency_penalty: float = Field(0, ge=0, le=0, description="not supported")
    logit_bias: dict[str, float] = Field({}, max_length=0, description="not supported")
    suffix: str = Field("", max_length=0, description="not supported")
    user: str = Field("", description="has no effect")

    _drop_nulls = model_validator(mode="before")(without_nulls)

    @property
    def prompts(self) -> list[str | list[int]]:
        """All prompts, each a text or token ids."""
        several = isinstance(self.prompt, list) and not isinstance(self.prompt[0], int)
        return cast("list[str | list[int]]", self.prompt if several else [self.prompt])

    @property
    def stops(self) -> list[str]:
        """The strings that end a text."""
        return [self.stop] if isinstance(self.stop, str) else self.stop


class Logprobs(BaseModel):
    """The tokens, with the one that ended the text, and their log-probabilities."""

    tokens: list[str]
    token_logprobs: list[float | None] = Field(description="null for the first token of a prompt")
    top_logprobs: list[dict[str, float] | None] = Field(
        description="the most probable tokens at this position, and the token itself"
    )
    text_offset: list[int] = Field(description="index of the token's first character in the text")


class CompletionChoice(BaseModel):
    """One continuation. In a stream: the new part of it."""

    index: int = Field(description="the continuations of the first prompt come first")
    text: str
    logprobs: Logprobs | None = Field(None, description="null unless requested")
    finish_reason: Literal["stop", "length"] | None = Field(
        None,
        description="`stop`: the model ended the text (in the notation, with the token `$`), or a "
        "string of `stop` did; `length`: the text was cut; null: the stream goes on",
    )


class Usage(BaseModel):
    """The numbers of tokens read and written."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class CompletionResponse(BaseModel):
    """The continuations of all prompts."""

    model_config = ConfigDict(json_schema_extra={"examples": [RESPONSE]})

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int = Field(description="seconds since 1970")
    model: str = Field(description="name of the checkpoint")
    choices: list[CompletionChoice]
    usage: Usage | None = Field(None, description="in a stream, null except in the last event")
