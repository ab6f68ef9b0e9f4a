"""What plots are drawn from: the files that commands wrote, read and checked."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from calcgpt.data.batches import read_text
from calcgpt.errors import DataError
from calcgpt.recipe import build
from datagen.files import parse_json

Operation = Literal["+", "-", "*", "/"]
Share = Annotated[float, Field(ge=0, le=1)]
Loss = Annotated[float, Field(ge=0, le=1e6)]
Count = Annotated[int, Field(ge=0, le=10**15)]
Name = Annotated[str, Field(max_length=200)]
Table = Annotated[list[list[Count]], Field(min_length=1, max_length=20)]  # (A's, B's) digits
Point = tuple[int, float]  # tokens seen, value


class Part(BaseModel):
    """A part of a file: nothing converted; what no plot needs is passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


class Bin(Part):
    """One bin of a reliability diagram; see `calcgpt.inference.confidence.reliability`."""

    low: Share
    high: Share
    n: Count
    confidence: Share | None
    accuracy: Share | None

    @model_validator(mode="after")
    def _means_of_something(self) -> Self:
        if {value is None for value in (self.confidence, self.accuracy)} != {self.n == 0}:
            raise ValueError("confidence and accuracy are null where n is 0, and only there")
        return self


class Reliability(Part):
    """Confidence against accuracy."""

    bins: Annotated[list[Bin], Field(min_length=1, max_length=100)]
    expected_calibration_error: Share


class Confidence(Part):
    """The confidence part of a record."""

    reliability: Reliability


class Lengths(Part):
    """Problems, and right answers among them, by the lengths of operands."""

    n: Table
    right: Table

    @model_validator(mode="after")
    def _square_and_possible(self) -> Self:
        sizes = {len(self.n), len(self.right), *(len(row) for row in self.n + self.right)}
        if len(sizes) != 1:
            raise ValueError("n and right must be square tables of one size")
        rows = zip(self.n, self.right, strict=True)
        if any(right > n for row in rows for n, right in zip(*row, strict=True)):
            raise ValueError("more right answers than problems")
        return self


class Record(Part):
    """What is drawn of a record of `calcgpt eval --json`."""

    checkpoint: Name
    file: Name
    n: Annotated[Count, Field(ge=1)]
    exact_match: Share
    temperature: Annotated[float, Field(ge=0)]
    confidence: Confidence
    by_length: Annotated[dict[Operation, Lengths], Field(min_length=1)]
    first_faults: dict[Operation, dict[Name, Count]] | None = None  # only where there are steps


class Row(Part):
    """A line of `metrics.jsonl`: of training, with `loss`, or of validation, with `val_loss`."""

    step: Count
    tokens: Count | None = None
    seconds: Annotated[float, Field(ge=0)] | None = None
    loss: Loss | None = None
    val_loss: Loss | None = None
    char_accuracy: Share | None = Field(None, alias="val_char_accuracy")
    all: Share | None = Field(None, alias="val_exact_match")
    add: Share | None = Field(None, alias="val_exact_match+")
    sub: Share | None = Field(None, alias="val_exact_match-")
    mul: Share | None = Field(None, alias="val_exact_match*")
    div: Share | None = Field(None, alias="val_exact_match/")

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        if (self.loss is None) == (self.val_loss is None):
            raise ValueError("a row has either loss or val_loss")
        if self.loss is not None and self.tokens is None:
            raise ValueError("tokens is missing")
        return self


@dataclass(frozen=True)
class Curves:
    """A run against the tokens that it had seen; each list is in the order of steps."""

    loss: list[Point]
    val_loss: list[Point]
    exact_match: dict[str, list[Point]]  # of `all` and of each operation; only what was measured


# Exact match in a row: what it is of, and the field.
EXACT_MATCH = {"all": "all", "+": "add", "-": "sub", "*": "mul", "/": "div"}


def read_record(path: Path) -> Record:
    """A record of `calcgpt eval --json`. UserError, one line, for any other file."""
    return build(
        Record, parse_json(read_text(path), str(path)), f"{path} is no record of `eval --json`"
    )


def read_rows(path: Path) -> list[Row]:
    """The rows of a run's `metrics.jsonl`, by step, at least one of them of training. UserError,
    one line, for any other file.

    A last line without its newline, which a killed run can leave, is left out.
    """
    lines = read_text(path).split("\n")[:-1]
    rows = []
    for number, line in enumerate(lines, start=1):
        where = f"{path}, line {number}"
        rows.append(build(Row, parse_json(line, where), where))
    if all(row.loss is None for row in rows):
        raise DataError(f"{path} holds no row of training")
    return sorted(rows, key=lambda row: row.step)


def read_curves(path: Path) -> Curves:
    """The curves of a run's `metrics.jsonl`. UserError, one line, for any other file."""
    return curves(read_rows(path))


def curves(rows: Sequence[Row]) -> Curves:
    """The curves of rows as `read_rows` gives them.

    Validation rows do not say how many tokens came before: it is what the last training row at or
    before that step says. One before every training row is left out.
    """
    training = [row for row in rows if row.loss is not None]
    steps = [row.step for row in training]

    def points(name: str) -> list[Point]:
        found = []
        for row in rows:
            value, before = getattr(row, name), bisect_right(steps, row.step)
            if value is not None and before:
                found.append((training[before - 1].tokens or 0, value))
        return found

    scores = {label: points(name) for label, name in EXACT_MATCH.items()}
    return Curves(
        loss=points("loss"),
        val_loss=points("val_loss"),
        exact_match={label: found for label, found in scores.items() if found},
    )
