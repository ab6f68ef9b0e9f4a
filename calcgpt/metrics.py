"""The scores of a model in `metrics.json` of a checkpoint: their types."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from datagen.operations import Sign

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
