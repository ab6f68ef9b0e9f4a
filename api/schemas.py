"""What goes over the wire."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from calcgpt.inference.calculator import EXAMPLE, Calculation, Node, Span

PROBLEM: dict[str, Any] = {
    "type": "urn:calcgpt:problem:syntax",
    "title": "Unprocessable Content",
    "status": 422,
    "detail": "a number is expected, not 'x' (position 3)",
    "position": 3,
    "end": 4,
}

STEPS: dict[str, Any] = {
    "id": "steps",
    "object": "model",
    "created": 0,
    "owned_by": "calcgpt",
    "default": True,
    "description": "Exact answers by worked steps.",
    "parameters": 801_280,
    "engine": "onnxruntime",
    "domain": {
        "operations": ["+", "-", "*", "/"],
        "decimal_places": 2,
        "max_characters": 10,
        "below": 100_000,
        "works_in_steps": True,
    },
    "metrics": {"n": 10_000, "char_accuracy": 1.0, "exact_match": 1.0, "by_operation": {}},
}

OnWrong = Literal["report", "error"]
ON_WRONG: Any = Field(
    "report",
    description="what a wrong answer is: `report`, an answer that is not `verified`; `error`, a "
    "problem of kind `wrong-answer`",
)
MODEL = Field(None, description="a name from /v1/models; null for the default", examples=["steps"])
EXPRESSION = Field(
    description="numbers of at most two decimal places, + - * / ( )", examples=["12.5+3"]
)


class Input(BaseModel):
    """What a client sends: a member that is not known, or of another type, is an error."""

    model_config = ConfigDict(extra="forbid", strict=True)


class CalculateRequest(Input):
    """An expression to calculate."""

    expression: str = EXPRESSION
    model: str | None = MODEL
    on_wrong: OnWrong = ON_WRONG

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"expression": "12.5+3"}, {"expression": "(1+2)×3"}]}
    )


class CalculateResponse(Calculation):
    """The model's answer and its evidence. The exact value never replaces the answer."""

    model_config = ConfigDict(from_attributes=True)  # made from a `Calculation`


class BatchRequest(Input):
    """Several expressions to calculate."""

    expressions: list[str] = Field(
        min_length=1, description="as many as the service allows", examples=[["12.5+3", "1/0"]]
    )
    model: str | None = MODEL
    on_wrong: OnWrong = ON_WRONG


class Problem(BaseModel):
    """Problem details (RFC 9457)."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [PROBLEM]})

    type: str = Field("about:blank", description="the kind of problem")
    title: str
    status: int
    detail: str = Field(description="what is wrong, for a person")
    position: int | None = Field(
        None, description="where the offending part of the expression begins, from 0"
    )
    end: int | None = Field(None, description="where it ends")
    request_id: str | None = Field(None, description="which the service's log has, too")


class BatchItem(BaseModel):
    """What became of one expression: a calculation, or a problem."""

    status: int = Field(description="as the status of /v1/calculate", examples=[200])
    calculation: CalculateResponse | None = None
    problem: Problem | None = None


class BatchResponse(BaseModel):
    """One item an expression, in their order."""

    items: list[BatchItem] = Field(
        examples=[
            [
                {"status": 200, "calculation": EXAMPLE, "problem": None},
                {"status": 422, "calculation": None, "problem": PROBLEM},
            ]
        ]
    )


class Domain(BaseModel):
    """What a model can be asked."""

    operations: list[str] = ["+", "-", "*", "/"]
    decimal_places: int = Field(2, description="at most, of an operand")
    max_characters: int = Field(description="at most, of an operand")
    below: int | None = Field(description="operands are smaller in magnitude; null: no such bound")
    works_in_steps: bool = Field(description="whether it writes worked steps")


class Model(BaseModel):
    """A checkpoint that is loaded."""

    id: str
    object: Literal["model"] = "model"
    created: int = Field(0, description="not known: 0")
    owned_by: str = "calcgpt"
    default: bool = Field(description="whether it answers where no model is named")
    description: str
    parameters: int
    engine: str = Field(description="what runs it")
    domain: Domain | None = Field(description="null: a model of text, for /v1/completions alone")
    metrics: dict[str, Any] | None = Field(
        description="its scores on test problems: n, char_accuracy, exact_match, by_operation"
    )


class ModelList(BaseModel):
    """All models that can be named."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"object": "list", "data": [STEPS]}]})

    object: Literal["list"] = "list"
    data: list[Model]


class Status(BaseModel):
    """Answer of the health endpoints."""

    status: str = Field(examples=["ok"])
    model: str | None = Field(None, description="the default checkpoint, once it is loaded")


# Events of the stream, by name.


class Start(BaseModel):
    """`start`: what was understood, and the nodes by their number."""

    expression: str
    model: str
    nodes: list[Span]


class Begun(BaseModel):
    """`node`: the model is asked."""

    node: int
    problem: str
    prompt: str


class Token(BaseModel):
    """`token`: the model wrote a character, and how probable it held it."""

    node: int
    text: str
    probability: float


class Answered(Node):
    """`answer`: a node is done."""

    node: int
