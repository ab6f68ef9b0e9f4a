"""Requests, responses and stream events of /v1/calculate."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from calcgpt.inference.expression_stack import Angle, Percent, Style
from calcgpt.inference.results import EXAMPLE, Calculation, Node, Span
from datagen.arithmetic import MAX_ASKED_PLACES

MODEL = Field(
    None, description="a name from /v1/models; null means the default", examples=["calculator"]
)
EXPRESSION = Field(
    description="a calculation as people write it: numbers of at most 9,999 decimal places, "
    "+ - * / ^ % ! mod // | | ( ), functions such as sqrt and sin, pi, e, and words",
    examples=["12.5+3"],
)
PLACES = Field(
    None,
    ge=0,
    le=MAX_ASKED_PLACES,
    description="decimal places of the answer; null means those that the expression asks for, or "
    "`default_places` of the model",
)


class Input(BaseModel):
    """The body of a request. An unknown member, or one of the wrong type, is an error."""

    model_config = ConfigDict(extra="forbid", strict=True)


class AnswerOptions(Input):
    """Options for an answer."""

    model: str | None = MODEL
    places: int | None = PLACES
    percent: Percent = Field("relative", description="100-10% is 90 if `relative`, 99.9 if `plain`")
    angle: Angle = Field(
        "radians", description="what sin(30) is the sine of; sin(30°) is of degrees"
    )
    decimal_comma: bool = Field(False, description="whether 12,500 is 12.5 instead of 12500")
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
        description="whether a wrong answer is a problem of kind `not-verified`, not an answer "
        "with `verified: false`",
    )

    @property
    def style(self) -> Style:
        """How the expression is read."""
        return Style(self.percent, self.decimal_comma, self.angle)


class CalculateRequest(AnswerOptions):
    """An expression to calculate."""

    expression: str = EXPRESSION

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"expression": "12.5+3"}, {"expression": "(1+2)×3"}]}
    )


class CalculateQuery(CalculateRequest):
    """A `CalculateRequest` in an address, where every value is a text."""

    model_config = ConfigDict(strict=False)


class CalculateResponse(Calculation):
    """The model's answer and its evidence. The exact value never replaces the answer."""

    model_config = ConfigDict(from_attributes=True)  # made from a `Calculation`


class BatchRequest(AnswerOptions):
    """Several expressions to calculate."""

    expressions: list[str] = Field(
        fail_fast=True,
        min_length=1,
        max_length=100,
        description="with at most `max_pending` operations, a setting",
        examples=[["12.5+3", "1/0"]],
    )


PROBLEM: dict[str, Any] = {
    "type": "urn:calcgpt:problem:syntax",
    "title": "Unprocessable Content",
    "status": 422,
    "detail": "a number is expected, not 'x' (position 3)",
    "message": "a number is expected, not 'x' (position 3)",
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
    message: str = Field(description="the same as `detail`, for clients of OpenAI's API")
    position: int | None = Field(
        None, description="index of the first wrong character of the expression, from 0"
    )
    end: int | None = Field(None, description="index after the last wrong character")
    request_id: str | None = Field(None, description="the id of the request in the log")


class BatchItem(BaseModel):
    """The result of one expression: a calculation or a problem."""

    status: int = Field(description="the status that /v1/calculate would return", examples=[200])
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
