"""What a person can do wrong here, as types. Each message is one line that says what to change."""

from __future__ import annotations

from datagen.errors import UserError

__all__ = [
    "CheckpointError",
    "ConfigError",
    "DataError",
    "ExpressionError",
    "TrainingError",
    "UserError",
]


class ConfigError(UserError):
    """A recipe, an override or a name in a config is not valid."""


class DataError(UserError):
    """A data file cannot be read, or is not what the recipe needs."""


class CheckpointError(UserError):
    """A checkpoint is missing, incomplete, corrupted or of another kind; names the file."""


class TrainingError(UserError):
    """A run cannot go on as it was configured."""


class ExpressionError(UserError):
    """Input of the calculator that it cannot take.

    `position` is the 0-based index of the offending character in the text as typed.
    """

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason, position)
        self.reason = reason
        self.position = position

    def __str__(self) -> str:
        return f"{self.reason} (position {self.position})"
