"""The loaded models, and the health of the service."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from datagen.arithmetic import USUAL_PLACES
from datagen.operations import SIGNS


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

    model_config = ConfigDict(json_schema_extra=lambda schema: schema.update(examples=[EXAMPLE]))

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


EXAMPLE: dict[str, Any] = Model(
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
        json_schema_extra={"examples": [{"object": "list", "data": [EXAMPLE]}]}
    )

    object: Literal["list"] = "list"
    data: list[Model]


class Status(BaseModel):
    """The response of the health endpoints."""

    status: str = Field(examples=["ok"])
    model: str | None = Field(None, description="the default checkpoint, once it is loaded")
