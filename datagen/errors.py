"""Errors in a user's input. Each message is one line."""

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path


class UserError(Exception):
    """Something that the user gave is wrong. The message says what, in one line."""


class NotationError(UserError):
    """A text is not in the notation, or a number does not fit in it.

    `position` is the 0-based index of the first wrong character: the text before it is the start of
    something valid. It equals the length of the text if the text ends too early.
    """

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason, position)  # both, so that the error can be pickled
        self.reason = reason
        self.position = position

    def __str__(self) -> str:
        return f"{self.reason} at position {self.position}"


class ConfigError(UserError):
    """A recipe, an override or a name in a config is not valid."""


class DataError(UserError):
    """A data set or data file cannot be made, continued, read or used."""


def file_error(error: OSError, name: object = None) -> str:
    """Returns one line that says which file or folder cannot be used, and why. `name` is used if
    the error names no file."""
    reason = error.strerror or str(error)
    file = error.filename or name
    if isinstance(error, FileExistsError):  # where a folder was to be made
        is_file = file is None or Path(str(file)).exists()
        reason = "is a file, and a folder is needed" if is_file else "is a link to nothing"
    return f"{file or 'cannot write'}: {reason}"


def one_line(text: object) -> str:
    """Returns a text in one line, such as the message of an error."""
    return " ".join(str(text).split())


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """Returns a question that ends a message about an unknown name, or nothing if none is close."""
    names = {candidate.lower(): candidate for candidate in valid}
    close = get_close_matches(name.lower(), names, 1)
    return f"; did you mean {names[close[0]]!r}?" if close else ""


def unknown_name(kind: str, name: str, valid: Iterable[str]) -> str:
    """Returns the message for a name that is not among the valid ones."""
    names = list(valid)
    return f"unknown {kind} {name!r}; valid names: {', '.join(names)}{did_you_mean(name, names)}"


# Names of earlier versions, which recipes, data sets and checkpoints may still have.
_RENAMED = {
    "edge": "tricky-5",
    "corner": "tricky-12",
    "loose-scratchpad": "scratchpad-second-choices",
}


def current_name(name: str) -> str:
    """Returns the name that a distribution or a format of this name has now."""
    return _RENAMED.get(name, name)
