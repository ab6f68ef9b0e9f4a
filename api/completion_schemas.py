"""What goes over the wire under /v1/completions, in OpenAI's shape."""

from __future__ import annotations

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

from api.schemas import MODEL, Input
from calcgpt.inference.calculator import EXAMPLE_PROMPT, EXAMPLE_WORK

REQUEST: dict[str, Any] = {
    "model": "steps",
    "prompt": EXAMPLE_PROMPT,
    "temperature": 0,
    "max_tokens": 200,
}
WRITTEN = f"{EXAMPLE_WORK}=5.51000000"
USAGE = {
    "prompt_tokens": len(EXAMPLE_PROMPT),
    "completion_tokens": len(WRITTEN) + 1,  # and the `$` that ended it
    "total_tokens": len(EXAMPLE_PROMPT + WRITTEN) + 1,
}
CHOICE = {"index": 0, "text": WRITTEN, "logprobs": None, "finish_reason": "stop"}
RESPONSE: dict[str, Any] = {
    "id": "cmpl-4c1a5a7b0f1e4b5c9d7a3f2e1d0c9b8a",
    "object": "text_completion",
    "created": 1_760_000_000,
    "model": "steps",
    "choices": [CHOICE],
    "usage": USAGE,
}


def _or_else(what: str) -> WrapValidator:
    """One message, instead of what each alternative of a union has against a value."""

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise PydanticCustomError(
                "alternatives", "Input should be {what}", {"what": what}
            ) from None

    return WrapValidator(validate)


Text = Annotated[str, Field(min_length=1)]
Ids = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
Prompt = Annotated[
    Text
    | Annotated[list[Text], Field(min_length=1)]
    | Ids
    | Annotated[list[Ids], Field(min_length=1)],
    _or_else("a text, token ids, or a list of texts or of lists of ids; none may be empty"),
]
Stop = Annotated[
    Text | Annotated[list[Text], Field(max_length=4)],
    _or_else("a text, or a list of at most 4; none may be empty"),
]


class StreamOptions(Input):
    """What a stream holds."""

    include_usage: bool = Field(False, description="end with an event of no choices but the usage")
    include_obfuscation: bool = Field(True, description="without effect")


def _with_nulls(schema: dict[str, Any]) -> None:
    """Say that null may stand for each default."""
    for name, member in schema["properties"].items():
        if name not in schema["required"] and {"type": "null"} not in member.get("anyOf", []):
            notes = {key: member.pop(key) for key in ("default", "description") if key in member}
            schema["properties"][name] = {"anyOf": [member, {"type": "null"}], **notes}
    schema["examples"] = [REQUEST]


class CompletionRequest(Input):
    """A text to be continued by the model as it is: no calculator, nothing is checked. What would
    need more than that, as a suffix, is refused."""

    model_config = ConfigDict(allow_inf_nan=False, json_schema_extra=_with_nulls)

    prompt: Prompt = Field(
        description="one, or several: each is continued", examples=[EXAMPLE_PROMPT]
    )
    model: str | None = MODEL
    max_tokens: int = Field(16, ge=0, description="to be written; fewer where the context is full")
    temperature: float = Field(
        1, ge=0, le=2, description="0, or less than 0.0001: always the most probable token"
    )
    top_p: float = Field(
        1, ge=0, le=1, description="sample from the most probable tokens that hold this share"
    )
    top_k: int | None = Field(
        None, ge=1, description="sample from so many of the most probable (not OpenAI's)"
    )
    seed: int | None = Field(None, description="the same samples again; null draws one")
    n: int = Field(1, ge=1, le=128, description="continuations of each prompt")
    stop: Stop = Field([], description="where the text is to end; not part of it")
    echo: bool = Field(False, description="begin the text with the prompt")
    logprobs: int | None = Field(
        None, ge=0, le=5, description="log-probabilities, and those of so many alternatives"
    )
    stream: bool = Field(False, description="send the text as it is written")
    stream_options: StreamOptions = Field(StreamOptions(), description="of a stream")

    best_of: int = Field(1, ge=1, le=1, description="not supported")
    presence_penalty: float = Field(0, ge=0, le=0, description="not supported")
    frequency_penalty: float = Field(0, ge=0, le=0, description="not supported")
    logit_bias: dict[str, float] = Field({}, max_length=0, description="not supported")
    suffix: str = Field("", max_length=0, description="not supported")
    user: str = Field("", description="without effect")

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        return {name: value for name, value in content.items() if value is not None}

    @property
    def prompts(self) -> list[str | list[int]]:
        """All of them, each a text or token ids."""
        several = isinstance(self.prompt, list) and not isinstance(self.prompt[0], int)
        return cast("list[str | list[int]]", self.prompt if several else [self.prompt])

    @property
    def stops(self) -> list[str]:
        """The strings that end a text."""
        return [self.stop] if isinstance(self.stop, str) else self.stop


class Logprobs(BaseModel):
    """The tokens, that which ended the text included, and how probable each was."""

    tokens: list[str]
    token_logprobs: list[float | None] = Field(description="null for the first token of all")
    top_logprobs: list[dict[str, float] | None] = Field(
        description="the most probable tokens in its place, and the token itself"
    )
    text_offset: list[int] = Field(description="where it begins in the text")


class CompletionChoice(BaseModel):
    """A continuation; in a stream, what is new of it."""

    index: int = Field(description="those of the first prompt come first")
    text: str
    logprobs: Logprobs | None = Field(None, description="null unless asked for")
    finish_reason: Literal["stop", "length"] | None = Field(
        None,
        description="`stop`: the model ended the text, with the token `$` where it writes the "
        "notation, or a string of `stop` did; `length`: it was cut; null: a stream goes on",
    )


class Usage(BaseModel):
    """How many tokens were read and written."""

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
    usage: Usage | None = Field(None, description="null in a stream, but for its last event")
