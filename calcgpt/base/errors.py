"""Errors in a user's input. Each message is one line."""

from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from numbers import Integral
from pathlib import Path
from types import NoneType
from typing import Any


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


class ArgumentError(ConfigError, DataError):
    """An argument of a function has a wrong type, or is out of range."""


_TYPE_NAMES = {NoneType: "None", str: "a string", int: "a whole number", Callable: "a function"}


def check_types(**arguments: tuple[object, *tuple[Any, ...]]) -> None:
    """Raises ArgumentError unless each argument, given as (value, type, another type, ...), has one
    of its types. None stands for its type, and True and False are no numbers."""
    for name, (value, *allowed) in arguments.items():
        if type(value) in allowed or (value is None and None in allowed):
            continue  # the usual cases: asking `isinstance` takes three times as long
        types = tuple(NoneType if kind is None else kind for kind in allowed)
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            known = [_TYPE_NAMES.get(kind) or kind.__name__ for kind in types]
            raise ArgumentError(f"{name} must be {' or '.join(known)}, not {shown(value)}")


def check_items(**arguments: tuple[object, Any]) -> None:
    """Raises ArgumentError unless each argument, given as (value, type), is a sequence or another
    iterable of items of that type. A string is none."""
    for name, (values, kind) in arguments.items():
        if isinstance(values, str | bytes) or not isinstance(values, Iterable):
            raise ArgumentError(f"{name} must be a list, not {shown(values)}")
        if isinstance(values, Collection):
            wrong = [value for value in values if not isinstance(value, kind)]
            check_types(**{f"each of {name}": (value, kind) for value in wrong[:1]})


def check_integer(name: str, value: object, low: int, high: int) -> None:
    """Raises ArgumentError unless a value is a whole number from `low` to `high`."""
    if type(value) is int and low <= value <= high:
        return  # the usual case
    if not isinstance(value, Integral) or isinstance(value, bool) or not low <= int(value) <= high:
        raise ArgumentError(
            f"{name} must be an integer from {low:,} to {high:,}, not {shown(value)}"
        )


def as_path(name: str, value: object) -> Path:
    """Returns a path that is a string or a Path. Raises ArgumentError for any other value, and for
    an empty string, which would be the current folder."""
    check_types(**{name: (value, str, Path)})
    if not str(value) or "\0" in str(value):
        raise ArgumentError(f"{name} {value!r} is not a path")
    return Path(str(value))


def shown(value: object) -> str:
    """Returns the beginning of a value in one line, as a message shows it."""
    try:
        return one_line(repr(value))[:40]
    except Exception:  # code of others, or an integer of too many digits
        return f"this {type(value).__name__}"


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


def unknown_name(kind: str, name: object, valid: Iterable[str]) -> str:
    """Returns the message for a name that is not among the valid ones."""
    names = list(valid)
    if not isinstance(name, str):
        return f"unknown {kind} {shown(name)}; valid names: {', '.join(names)}"
    return f"unknown {kind} {name!r}; valid names: {', '.join(names)}{did_you_mean(name, names)}"
