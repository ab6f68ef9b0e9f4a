"""How problems are written, one a line, by the name of the format."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from datagen import steps, vectorised, vectorised_steps
from datagen.arithmetic import ProblemArray
from datagen.errors import DataError

DEFAULT_DIGITS = 7  # operands below 100,000


@dataclass(frozen=True)
class LineFormat:
    """A way to write problems whose operands fit into the notation's fields.

    `render_lines` gives n problems as n lines of ASCII, each ended by a newline; `fits` tells, as
    a mask of shape (n,), which problems it can write. `digits` is how many, in hundredths, the
    work calculates with; None where there is no work.
    """

    digits: int | None
    render_lines: Callable[[ProblemArray], bytes]
    fits: Callable[[ProblemArray], NDArray[np.bool_]]


def line_format(name: str, digits: int | None = None) -> LineFormat:
    """The format of that name.

    DataError, listing the names, if there is none, and for digits that it cannot have.
    """
    try:
        make = _FORMATS[name]
    except KeyError:
        known = ", ".join(FORMATS)
        raise DataError(f"unknown format {name!r}: choose one of {known}") from None
    return make(digits)


def _direct(digits: int | None) -> LineFormat:
    """The answer follows the question at once."""
    if digits is not None:
        raise DataError("the format 'direct' has no digits to choose: it has no steps")
    return LineFormat(None, vectorised.render_lines, lambda problems: np.ones(len(problems), bool))


def _steps(digits: int | None, loose: bool = False) -> LineFormat:
    """The work stands between question and answer; `loose`: with loose quotient digits."""
    count = DEFAULT_DIGITS if digits is None else digits
    steps.check_digits(count)
    return LineFormat(
        count,
        lambda problems: vectorised_steps.render_lines(problems, count, loose),
        lambda problems: vectorised_steps.fits(problems, count),
    )


_FORMATS: dict[str, Callable[[int | None], LineFormat]] = {
    "direct": _direct,
    "steps": _steps,
    "loose-steps": partial(_steps, loose=True),
}
FORMATS = tuple(_FORMATS)
