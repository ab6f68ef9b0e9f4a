"""What goes over the wire: requests, responses and the events of a stream."""

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

from calcgpt.inference.results import (
    EXAMPLE,
    EXAMPLE_PROMPT,
    EXAMPLE_WORK,
    Calculation,
    Node,
    Span,
)
from datagen.arithmetic import MAX_PLACES, USUAL_PLACES

OnWrong = Literal["report", "error"]
ON_WRONG: Any = Field(
    "report",
    description="how a wrong answer is reported: `report` returns it with `verified: false`; "
    "`error` returns a problem of kind `wrong-answer`",
)
MODEL = Field(
    None, description="a name from /v1/models; null means the default", examples=["steps"]
)
EXPRESSION = Field(
    description="numbers of at most nine decimal places, + - * / ( )", examples=["12.5+3"]
)
PLACES = Field(
    None,
    ge=1,
    le=MAX_PLACES,
    description="decimal places that each operation is rounded to; null means `default_places` of "
    "the model",
)
UNPROVEN = Field(
    False,
    description="whether to ask the model also about numbers and places for which it was not "
    "measured; then `proven` of the response says if there were any",
)


class Input(BaseModel):
    """The body of a request. An unknown member, or one of the wrong type, is an error."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Demands(Input):
    """What a client wants of an answer."""

    model: str | None = MODEL
    places: int | None = PLACES
    unproven: bool = UNPROVEN
    on_wrong: OnWrong = ON_WRONG
    min_confidence: float = Field(
        0,
        ge=0,
        le=1,
        allow_inf_nan=False,
        description="if `confidence.whole` is lower, there is a problem of kind `not-confident` "
        "instead of an answer",
    )
    require_verified: bool = Field(
        False,
        description="whether a wrong answer is a problem of kind `not-verified`; counted as an "
        "abstention, unlike `on_wrong`",
    )


class CalculateRequest(Demands):
    """An expression to calculate."""

    expression: str = EXPRESSION

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"expression": "12.5+3"}, {"expression": "(1+2)×3"}]}
    )


class CalculateResponse(Calculation):
    """The model's answer and its evidence. The exact value never replaces the answer."""

    model_config = ConfigDict(from_attributes=True)  # made from a `Calculation`


class BatchRequest(Demands):
    """Several expressions to calculate."""

    expressions: list[str] = Field(
        min_length=1,
        description="at most `max_items`, a setting, with at most `max_pending` operations",
        examples=[["12.5+3", "1/0"]],
    )


PROBLEM: dict[str, Any] = {
    "type": "urn:calcgpt:problem:syntax",
    "title": "Unprocessable Content",
    "status": 422,
    "detail": "a number is expected, not 'x' (position 3)",
    "position": 3,
    "end": 4,
}


class Problem(BaseModel):
    """Problem details (RFC 9457)."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [PROBLEM]})

    type: str = Field("about:blank", description="the kind of problem")
    title: str
    status: int
    detail: str = Field(description="what is wrong, in one line")
    position: int | None = Field(
        None, description="index of the first wrong character of the expression, from 0"
    )
    end: int | None = Field(None, description="index after the last wrong character")
    request_id: str | None = Field(None, description="the id of the request in the log")


class BatchItem(BaseModel):
    """The result of one expression: a calculation or a problem."""

    status: int = Field(description="the status as of /v1/calculate", examples=[200])
    calculation: CalculateResponse | None = None
    problem: Problem | None = None


class BatchResponse(BaseModel):
    """One item for each expression, in their order."""

    items: list[BatchItem] = Field(
        examples=[
            [
                {"status": 200, "calculation": EXAMPLE, "problem": None},
                {"status": 422, "calculation": None, "problem": PROBLEM},
            ]
        ]
    )


# Models and health.


class Domain(BaseModel):
    """The problems that a model can be given."""

    operations: list[str] = ["+", "-", "*", "/"]
    decimal_places: int = Field(
        USUAL_PLACES, description="most decimal places of an operand, and of an answer"
    )
    default_places: int = Field(
        USUAL_PLACES, description="decimal places of an answer, if the request does not say"
    )
    digits: int | None = Field(
        None,
        description="most significant digits of an operand; `unproven` lifts this limit and that "
        "of the places; null for a model whose notation has a fixed width",
    )
    divisor_digits: int | None = Field(
        None, description="most significant digits of a divisor, if these are fewer"
    )
    max_characters: int = Field(description="most characters of an operand")
    below: int | None = Field(
        description="operands are smaller than this in magnitude; null means no such bound"
    )
    works_in_steps: bool = Field(description="whether the model writes worked steps")


class Model(BaseModel):
    """A loaded checkpoint."""

    id: str
    object: Literal["model"] = "model"
    created: int = Field(0, description="always 0: the time is not known")
    owned_by: str = "calcgpt"
    default: bool = Field(description="whether requests that name no model use this one")
    description: str
    parameters: int
    engine: str = Field(description="the library that runs the model")
    domain: Domain | None = Field(
        description="null for a model of plain text, which only /v1/completions can use"
    )
    metrics: dict[str, Any] | None = Field(
        description="scores on test problems: n, char_accuracy, exact_match, by_operation"
    )


STEPS = Model(
    id="steps",
    default=True,
    description="Exact answers by worked steps.",
    parameters=801_280,
    engine="onnxruntime",
    domain=Domain(max_characters=10, below=100_000, works_in_steps=True),
    metrics={"n": 10_000, "char_accuracy": 1.0, "exact_match": 1.0, "by_operation": {}},
).model_dump()


class ModelList(BaseModel):
    """All loaded checkpoints."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"object": "list", "data": [STEPS]}]})

    object: Literal["list"] = "list"
    data: list[Model]


class Status(BaseModel):
    """The response of the health endpoints."""

    status: str = Field(examples=["ok"])
    model: str | None = Field(None, description="the default checkpoint, once it is loaded")


# Events of /v1/calculate/stream.


class Start(BaseModel):
    """`start`: the expression as understood, and its nodes by index."""

    expression: str
    model: str
    places: int
    nodes: list[Span]


class NodeStart(BaseModel):
    """`node`: the model begins a node."""

    node: int
    problem: str
    prompt: str


class Token(BaseModel):
    """`token`: the model wrote a character, with this probability."""

    node: int
    text: str
    probability: float


class NodeEnd(Node):
    """`answer`: a node is finished."""

    node: int


# /v1/completions.

REQUEST: dict[str, Any] = {
    "model": "steps",
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
    "model": "steps",
    "choices": [CHOICE],
    "usage": USAGE,
}


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


MAX_STOP_LENGTH = 128  # characters of a string that ends a text

Text = Annotated[str, Field(min_length=1)]
Ids = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)]
Prompt = Annotated[
    Text
    | Annotated[list[Text], Field(min_length=1)]
    | Ids
    | Annotated[list[Ids], Field(min_length=1)],
    _one_message("a text, token ids, or a list of texts or of lists of ids; none may be empty"),
]
StopText = Annotated[str, Field(min_length=1, max_length=MAX_STOP_LENGTH)]
Stop = Annotated[
    StopText | Annotated[list[StopText], Field(max_length=4)],
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


def _allow_nulls(schema: dict[str, Any]) -> None:
    """Documents that null stands for the default of each optional member."""
    for name, member in schema["properties"].items():
        if name not in schema["required"] and {"type": "null"} not in member.get("anyOf", []):
            notes = {key: member.pop(key) for key in ("default", "description") if key in member}
            schema["properties"][name] = {"anyOf": [member, {"type": "null"}], **notes}
    schema["examples"] = [REQUEST]


class CompletionRequest(Input):
    """A text for the raw model to continue. Nothing is parsed or checked. Options of OpenAI's
    endpoint that are not supported, such as `suffix`, are refused."""

    model_config = ConfigDict(allow_inf_nan=False, json_schema_extra=_allow_nulls)

    prompt: Prompt = Field(
        description="one prompt, or a list; each is continued", examples=[EXAMPLE_PROMPT]
    )
    model: str | None = MODEL
    max_tokens: int = Field(
        16, ge=0, description="most tokens to write; fewer if the context is full"
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

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        return {name: value for name, value in content.items() if value is not None}

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
