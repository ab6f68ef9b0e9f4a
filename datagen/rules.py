"""The rules of worked steps: each writes a character from a few earlier ones.

A rule takes the characters of its sources (`datagen.slots`), as ASCII codes in arrays of shape
(n,), one item for each problem, and returns the characters to write, (n,) uint8. A source that does
not exist is 0, and counts as the digit 0. The same rules write one line or a million. Here are the
rules that several operations have; the others are in `datagen.operations`.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from datagen.slots import Kind, StepKind

Characters: TypeAlias = NDArray[np.uint8]  # (n,)
Values: TypeAlias = NDArray[np.int16]  # (n,)
Rule: TypeAlias = Callable[..., Characters]

PLUS, MINUS, ZERO, NINE = (ord(c) for c in "+-09")
_VALUES = np.zeros(256, np.int16)
_VALUES[ZERO : NINE + 1] = np.arange(10)


def value(characters: Characters) -> Values:
    """Returns the values of digits, (n,); 0 for any other character."""
    return _VALUES.take(characters)


def digit(values: NDArray[Any]) -> Characters:
    """Returns the characters of the values 0 to 9."""
    return np.asarray(values + ZERO, np.uint8)


def sign(negative: NDArray[np.bool_]) -> Characters:
    """Returns `-` where `negative` is true, and `+` elsewhere."""
    return np.where(negative, MINUS, PLUS).astype(np.uint8)


def constant(character: str) -> Rule:
    """Returns the rule that always writes one character."""
    code = np.array([ord(character)], np.uint8)
    return lambda *sources: code


def copy(source: Characters) -> Characters:
    """Returns the source."""
    return source


def marked(characters: Characters, before: Characters | None = None) -> Characters:
    """Returns digits, but 1 in place of a 0 after a digit that is not 0. So the highest digit of a
    row is 0 only if all digits of the row are 0."""
    if before is None:
        return characters
    return np.where((characters == ZERO) & (value(before) > 0), ZERO + 1, characters).astype(
        np.uint8
    )


def _operand_sign(minus: Characters) -> Characters:
    return sign(minus == MINUS)


def _rounding(half: Characters, kept: Characters, below: Characters) -> Characters:
    more = value(half) > 5
    tie_or_more = half == ZERO + 5
    rest = value(below) > 0
    up = more | (tie_or_more & (rest | (value(kept) % 2 == 1)))
    return np.where(up, PLUS, ZERO).astype(np.uint8)


def _rounded_result(exact: Characters, before: Characters, result: Characters) -> Characters:
    """Returns an exact digit plus a carry. `result` is the result digit before, or the rounding."""
    carry = (result == PLUS) | ((before == NINE) & (result == ZERO))
    return digit((value(exact) + carry) % 10)


def _sign_of_both(a_sign: Characters, b_sign: Characters) -> Characters:
    """Returns the sign of a product or quotient."""
    return sign(a_sign != b_sign)


COMMON: dict[StepKind, dict[Kind, Rule]] = {
    StepKind.OPERAND: {
        Kind.A_DIGIT: copy,
        Kind.A_BELOW: marked,
        Kind.A_ZERO: constant("0"),
        Kind.B_DIGIT: copy,
        Kind.B_ZERO: constant("0"),
    },
    StepKind.ROUNDING: {
        Kind.ROUNDING: _rounding,
        Kind.ROUNDED_RESULT: _rounded_result,
        Kind.ROUNDED_TOP: _rounded_result,
    },
    StepKind.SIGN: {
        Kind.A_SIGN: _operand_sign,
        Kind.B_SIGN: _operand_sign,
        Kind.SIGN: _sign_of_both,
    },
    StepKind.LAYOUT: {
        Kind.EXACT_MARK: constant("|"),
        Kind.RESULT_MARK: constant(":"),
        Kind.EQUALS: constant("="),
    },
}
