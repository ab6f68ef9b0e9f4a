"""The scores of a model: their types, and how they are read from `metrics.json` of a checkpoint."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from calcgpt.base.errors import DataError
from calcgpt.section import build
from datagen.operations import SIGNS, Sign

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=10**15)]
Name = Annotated[str, Field(max_length=200)]
Question = Annotated[str, Field(max_length=4_096)]


class PartialModel(BaseModel):
    """A model that reads the fields it declares and ignores all others. Converts no values."""

    model_config = ConfigDict(
        extra="ignore", frozen=True, strict=True, allow_inf_nan=False, defer_build=True
    )


class Accuracy(PartialModel):
    """Character accuracy and exact match over n problems."""

    n: Annotated[Count, Field(ge=1)]
    char_accuracy: Share
    exact_match: Share


class Scores(Accuracy):
    """Accuracy over all problems and by operation."""

    by_operation: dict[Sign, Accuracy]


class StoredMetrics(PartialModel):
    """The parts of a checkpoint's `metrics.json` that are read as numbers. All may be missing."""

    parameters: Count | None = None
    step: Count | None = None
    validation: Scores | None = None
    test: Scores | None = None
    test_sampled: Scores | None = None
    also: dict[str, Scores] = {}
    examples: Annotated[list[Question], Field(max_length=100)] = []  # of a user's own task


def read_scores(metrics: Mapping[str, Any], key: str, source: str) -> Scores:
    """Returns the scores under `key` of a checkpoint's `metrics.json`. Raises DataError, one line
    that starts with `source`, if they are not valid."""
    return build(Scores, metrics.get(key), f"{source}: {key}", wrong=DataError)


def score_cells(label: str, scores: Scores) -> list[str]:
    """Returns a row of a score table: accuracy over all problems, then exact match by operation."""
    accuracy = [f"{scores.n:,}", f"{scores.char_accuracy:.4f}", f"{scores.exact_match:.4f}"]
    return [label, *accuracy, *operation_cells(scores)]


def operation_cells(scores: Scores) -> list[str]:
    """Returns the exact match of each operation, or "" if the data has no problem of it."""
    accuracies = (scores.by_operation.get(operation) for operation in SIGNS)
    return [f"{accuracy.exact_match:.4f}" if accuracy else "" for accuracy in accuracies]
