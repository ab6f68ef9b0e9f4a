"""Requests, responses and stream events of /v1/calculate, the models, and the health of the
service."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from calcgpt.inference.expression_stack import Angle, Percent, Style
from calcgpt.inference.results import EXAMPLE, Calculation, Node, Span
from datagen.arithmetic import MAX_ASKED_PLACES, USUAL_PLACES
from datagen.operations import SIGNS

MODEL = Field(
    None, description="a name from /v1/models; null means the default", examples=["calculator"]
)


class Input(BaseModel):
    """The body of a request. An unknown member, or one of the wrong type, is an error."""

    model_config = ConfigDict(extra="forbid", strict=True)


class AnswerOptions(Input):
    """Options for an answer."""

    model: str | None = MODEL
    places: int | None = Field(
        None,
        ge=0,
        le=MAX_ASKED_PLACES,
        description="decimal places of the answer; null means those that the expression asks for, "
        "or `default_places` of the model",
    )
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

    expression: str = Field(
        description="a calculation as people write it: numbers of at most 9,999 decimal places, "
        "+ - * / ^ % ! mod // | | ( ), functions such as sqrt and sin, pi, e, and words",
        examples=["12.5+3"],
    )

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"expression": "12.5+3"}, {"expression": "(1+2)×3"}]}
    )


class CalculateQuery(CalculateRequest):
    """A `CalculateRequest` in an address, where every value is a text."""

    model_config = ConfigDict(strict=False)


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
    calculation: Calculation | None = None
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


# Models, and the health of the service.


class Domain(BaseModel):
    """The problems that a model can be given."""

    operations: list[str] = list(SIGNS)
    decimal_places: int = Field(
        USUAL_PLACES,
        description="maximum decimal places of an answer",
    )
    default_places: int = Field(
        USUAL_PLACES,
        description="decimal places of an answer, if neither the request nor the expression says",
    )
    max_characters: int = Field(description="maximum number of characters of an operand")
    works_in_steps: bool = Field(description="whether the model writes worked steps")


class Task(BaseModel):
    """The questions that a model of a user's own task can be asked."""

    examples: list[str] = Field(description="questions that it was validated on, not trained on")
    characters: str = Field(description="the characters that a question can have")
    max_characters: int = Field(description="maximum number of characters of a question")


class Calibration(BaseModel):
    """What the confidence of a model was measured on, and how well it tells right from wrong."""

    n: int = Field(description="test problems, none of which the model was trained on")
    file: str = Field(description="the file, or the task, of these problems")
    file_sha256: str
    expected_calibration_error: float = Field(
        description="mean distance between `confidence.whole` and the share of right answers"
    )
    no_error_above: float = Field(
        description="the highest `confidence.whole` of a wrong answer; 0 if none was wrong"
    )
    kept: float = Field(description="the share of answers with a confidence above that")


class Model(BaseModel):
    """A loaded checkpoint."""

    model_config = ConfigDict(
        json_schema_extra=lambda schema: schema.update(examples=[MODEL_EXAMPLE])
    )

    id: str
    object: Literal["model"] = "model"
    created: int = Field(0, description="always 0: the time is not known")
    owned_by: str = "calcgpt"
    default: bool = Field(description="whether requests that name no model use this one")
    description: str
    parameters: int
    engine: str = Field(description="the library that runs the model")
    domain: Domain | None = Field(description="null for a model of a task")
    task: Task | None = Field(None, description="null for a model that calculates")
    metrics: dict[str, Any] | None = Field(
        description="scores on test problems: n, char_accuracy, exact_match, by_operation"
    )
    calibration: Calibration | None = Field(
        description="what `confidence` was measured on; null if it was not: in that case it is "
        "only the model's own probability"
    )


MODEL_EXAMPLE: dict[str, Any] = Model(
    id="calculator",
    default=True,
    description="The calculator: right in every case of its rules, with weights of 8 bits.",
    parameters=41_596,
    engine="cases",
    domain=Domain(
        decimal_places=30,
        default_places=8,
        max_characters=10_100,
        works_in_steps=True,
    ),
    metrics={"n": 10_000, "char_accuracy": 1.0, "exact_match": 1.0, "by_operation": {}},
    calibration=Calibration(
        n=10_000,
        file="test.txt",
        file_sha256="f89e0f119c0d698d7e8b4abb831221bf2b7151177533d697c6f622b28cd71325",
        expected_calibration_error=0.0002002,
        no_error_above=0.0,
        kept=1.0,
    ),
).model_dump()


class ModelList(BaseModel):
    """All loaded checkpoints."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"object": "list", "data": [MODEL_EXAMPLE]}]}
    )

    object: Literal["list"] = "list"
    data: list[Model]


class Status(BaseModel):
    """The response of the health endpoints."""

    status: str = Field(examples=["ok"])
    model: str | None = Field(None, description="the default checkpoint, once it is loaded")
