"""Errors that a user can correct. Each message is one line that says what to change."""

from enum import StrEnum
from typing import Any

from calcgpt.base.errors import UserError


class CheckpointError(UserError):
    """A checkpoint is missing, incomplete, corrupted or of another kind. Names the file."""


class ExpressionErrorKind(StrEnum):
    """What can be wrong with an expression."""

    SYNTAX = "syntax"
    DECIMAL_COMMA = "decimal-comma"
    NO_OPERATION = "no-operation"
    TOO_LONG = "too-long"
    TOO_MANY_PLACES = "too-many-places"
    OUT_OF_RANGE = "out-of-range"
    DIVISION_BY_ZERO = "division-by-zero"
    UNDECIDED = "undecided"  # no theorem decides what the value is


class ExpressionError(UserError):
    """An expression that the calculator cannot evaluate.

    The wrong part of the input is `text[position:end]`. It is empty if the text ends too early.
    """

    def __init__(
        self, kind: ExpressionErrorKind, reason: str, position: int, end: int | None = None
    ) -> None:
        end = position + 1 if end is None else end
        super().__init__(kind, reason, position, end)
        self.kind = kind
        self.reason = reason
        self.position = position
        self.end = end

    def __str__(self) -> str:
        return f"{self.reason} (position {self.position})"

    def to_dict(self) -> dict[str, Any]:
        """Returns the error as JSON has it."""
        span = {"position": self.position, "end": self.end}
        return {"kind": self.kind.value, "reason": self.reason, **span}
