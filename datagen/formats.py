"""The formats of a line, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from datagen import steps, vectorised, vectorised_steps, work
from datagen.arithmetic import ProblemArray
from datagen.errors import DataError, did_you_mean

DEFAULT_DIGITS = 7  # operands below 100,000


@dataclass(frozen=True)
class LineFormat:
    """A way to write problems.

    `render_lines` returns n lines of ASCII, each with its newline. `fits` returns a mask, (n,), of
    the problems that the format can write. `digits` is the width of the numbers in worked steps, in
    hundredths, or None if there are no steps.
    """

    digits: int | None
    render_lines: Callable[[ProblemArray], bytes]
    fits: Callable[[ProblemArray], NDArray[np.bool_]]


def line_format(name: str, digits: int | None = None) -> LineFormat:
    """Returns the format of that name. Raises DataError for an unknown name or unusable digits."""
    try:
        make = _FORMATS[name]
    except KeyError:
        names, hint = ", ".join(FORMATS), did_you_mean(name, FORMATS)
        raise DataError(f"unknown format {name!r}: choose one of {names}{hint}") from None
    return make(digits)


def _direct(digits: int | None) -> LineFormat:
    """The answer follows the question directly."""
    if digits is not None:
        raise DataError("the format 'direct' has no steps, so it takes no digits")
    return LineFormat(None, vectorised.render_lines, vectorised.fits)


def _steps(digits: int | None, loose: bool = False) -> LineFormat:
    """Worked steps stand between question and answer, with loose quotient digits if `loose`."""
    count = DEFAULT_DIGITS if digits is None else digits
    steps.check_digits(count)
    return LineFormat(
        count,
        lambda problems: vectorised_steps.render_lines(problems, count, loose),
        lambda problems: vectorised_steps.fits(problems, count),
    )


def _scratchpad(digits: int | None, loose: bool = False) -> LineFormat:
    """Worked steps of any width, with loose quotient digits if `loose`."""
    if digits is not None:
        raise DataError("the format 'scratchpad' is as wide as the problem, so it takes no digits")
    return LineFormat(
        None,
        lambda problems: work.render_lines(problems, loose),
        vectorised.fits,
    )


_FORMATS: dict[str, Callable[[int | None], LineFormat]] = {
    "direct": _direct,
    "scratchpad": _scratchpad,
    "loose-scratchpad": partial(_scratchpad, loose=True),
    "steps": _steps,
    "loose-steps": partial(_steps, loose=True),
}
FORMATS = tuple(_FORMATS)
