"""What goes over the wire."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from calcgpt.inference.calculator import Calculation

# One true answer of the shipped checkpoint `steps`, for the documentation.
PROMPT = "$(00000012.5+0000000003)="
WORK = "x0521000y0030000a+05510000:05510000+1"
SURE = {"answer": 0.9999971, "weakest_step": 0.9999929, "whole": 0.9999812}
NODE: dict[str, Any] = {
    "expression": "12.5+3",
    "position": 0,
    "end": 6,
    "problem": "12.5+3",
    "prompt": PROMPT,
    "work": WORK,
    "output": f"{WORK}=5.51000000$",
    "result": "15.5",
    "exact": "15.5",
    "agrees": True,
    "confidence": SURE,
}
CALCULATION: dict[str, Any] = {
    "expression": "12.5+3",
    "result": "15.5",
    "exact": "15.5",
    "verified": True,
    "confidence": SURE,
    "nodes": [NODE],
    "model": "steps",
}
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


class Confidence(BaseModel):
    """How probable the model held what it wrote, from 0 to 1."""

    model_config = ConfigDict(from_attributes=True)

    answer: float = Field(description="the answer, given the work", examples=[SURE["answer"]])
    weakest_step: float = Field(
        description="the least probable character of the work, likewise; 1 where there is none",
        examples=[SURE["weakest_step"]],
    )
    whole: float = Field(
        description="work and answer together, but for a quotient's digits, which are choices",
        examples=[SURE["whole"]],
    )


class Node(BaseModel):
    """One operation, answered by the model. Where an operand is lacking, because the model's
    answer to it was no number, it was not asked: then all but the first three is null, and
    `agrees` is false."""

    model_config = ConfigDict(from_attributes=True, json_schema_extra={"examples": [NODE]})

    expression: str = Field(description="the part of the whole")
    position: int = Field(description="where it begins in what was sent, from 0")
    end: int = Field(description="where it ends")
    problem: str | None = Field(description="what was asked, with the model's own operands")
    prompt: str | None = Field(description="the same as the model read it")
    work: str | None = Field(description="its worked steps, where it writes them")
    output: str | None = Field(
        description="all that it wrote: the steps and `=`, then the answer reversed and `$`"
    )
    result: str | None = Field(description="its answer; null where its output is no number")
    exact: str | None = Field(description="the answer to `problem` by exact arithmetic")
    agrees: bool = Field(description="whether the two are the same")
    confidence: Confidence | None


class CalculateResponse(BaseModel):
    """The model's answer and its evidence; the exact value never replaces the answer."""

    model_config = ConfigDict(from_attributes=True, json_schema_extra={"examples": [CALCULATION]})

    expression: str = Field(description="what was understood")
    result: str | None = Field(description="the model's answer; null where it is no number")
    exact: str = Field(description="the answer by exact arithmetic, rounded at each operation")
    verified: bool = Field(description="whether every node agrees with exact arithmetic")
    confidence: Confidence = Field(description="of all nodes together")
    nodes: list[Node] = Field(description="operands before the operation that needs them")
    model: str = Field(description="name of the checkpoint")

    @classmethod
    def of(cls, calculation: Calculation) -> CalculateResponse:
        """The same as it goes over the wire."""
        return cls.model_validate(calculation)


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
                {"status": 200, "calculation": CALCULATION, "problem": None},
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

    class Part(BaseModel):
        """Where a node stands in what was sent."""

        model_config = ConfigDict(from_attributes=True)

        expression: str
        position: int
        end: int

    expression: str
    model: str
    nodes: list[Part]


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
