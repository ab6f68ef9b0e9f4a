"""The rules of worked steps: each writes a character from a few earlier ones.

A rule takes the characters of its sources (`datagen.slots`), as ASCII codes in arrays of shape
(n,), one item for each problem, and returns the characters to write, (n,) uint8. A source that does
not exist is 0, and counts as the digit 0. The same rules write one line or a million.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from datagen.slots import MIN_DIVISOR, Kind

Characters: TypeAlias = NDArray[np.uint8]  # (n,)
Values: TypeAlias = NDArray[np.int16]  # (n,)
Rule: TypeAlias = Callable[..., Characters]

PLUS, MINUS, ZERO, NINE = (ord(c) for c in "+-09")
_VALUES = np.zeros(256, np.int16)
_VALUES[ZERO : NINE + 1] = np.arange(10)
_POWERS = 10.0 ** np.arange(MIN_DIVISOR)


def value(characters: Characters) -> Values:
    """Returns the values of digits, (n,); 0 for any other character."""
    return _VALUES.take(characters)


def digit(values: NDArray[Any]) -> Characters:
    """Returns the characters of the values 0 to 9."""
    return np.asarray(values + ZERO, np.uint8)


def _sign(negative: NDArray[np.bool_]) -> Characters:
    return np.where(negative, MINUS, PLUS).astype(np.uint8)


def _constant(character: str) -> Rule:
    code = np.array([ord(character)], np.uint8)
    return lambda *sources: code


def _copy(source: Characters) -> Characters:
    return source


def _operand_sign(*field: Characters) -> Characters:
    return _sign(any_of(c == MINUS for c in field))


def _operand_sign_of_sum(*field_and_op: Characters) -> Characters:
    *field, op = field_and_op
    return _sign(any_of(c == MINUS for c in field) != (op == MINUS))


def any_of(flags: Iterable[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Returns where any of some arrays of one shape is true."""
    return np.asarray(np.logical_or.reduce(list(flags)))


def _add_or_subtract(a_sign: Characters, b_sign: Characters) -> Characters:
    return _sign(a_sign != b_sign)


def _sum_digit(
    operator: Characters, a: Characters, b: Characters, *column_before: Characters
) -> Characters:
    """Returns the digit of a column. The carry is not written: it follows from the operands and the
    sum of the column before. The lowest column has none before it."""
    add = operator == PLUS
    direction = np.where(add, 1, -1)
    total = value(a) + direction * value(b)
    if column_before:
        a_before, b_before, sum_before = column_before
        before = value(a_before) + direction * value(b_before)
        carried = (direction * (value(sum_before) - before)) % 10  # into the column before
        total += (before + direction * carried) // 10
    return digit(total % 10)


def _magnitude(top: Characters, total: Characters, *column_before: Characters) -> Characters:
    """Returns the digit of the sum or, if its top digit is 9, of the ten's complement."""
    carry = np.ones(len(total), bool)  # of the complement, which is the nines' complement plus one
    if column_before:
        total_before, magnitude_before = column_before
        # The carry goes on while all digits so far are 0.
        carry = (total_before == ZERO) & (magnitude_before == ZERO)
    values = value(total)
    return digit(np.where(top == NINE, (9 + carry - values) % 10, values))


def _product_total(
    multiplier: Characters, a: Characters, old: Characters, carry: Characters
) -> Values:
    return value(old) + value(multiplier) * value(a) + value(carry)


def _product_digit(*sources: Characters) -> Characters:
    return digit(_product_total(*sources) % 10)


def _product_carry(*sources: Characters) -> Characters:
    return digit(_product_total(*sources) // 10)


def _remainder_total(
    sign: Characters, q: Characters, b: Characters, old: Characters, carry: Characters
) -> Values:
    """Returns old - q * b. The carry is a borrow if q is positive."""
    change = value(q) * value(b) + value(carry)
    return value(old) + np.where(sign == PLUS, -change, change)


def _remainder_digit(*sources: Characters) -> Characters:
    return digit(_remainder_total(*sources) % 10)


def _remainder_carry(*sources: Characters) -> Characters:
    return digit(abs(_remainder_total(*sources) // 10))


def _marked(characters: Characters, before: Characters | None = None) -> Characters:
    """Returns digits, but 1 in place of a 0 after a digit that is not 0. So the highest digit of a
    row is 0 only if all digits of the row are 0."""
    if before is None:
        return characters
    return np.where((characters == ZERO) & (value(before) > 0), ZERO + 1, characters).astype(
        np.uint8
    )


def _last_digit(*sources: Characters) -> Characters:
    *total, before = sources
    return _marked(_remainder_digit(*total), before)


def _sum_below(top: Characters, total: Characters, *column_before: Characters) -> Characters:
    return _marked(_magnitude(top, total, *column_before), *column_before[1:])


def _dividend_sign(top: Characters) -> Characters:
    return _sign(top == NINE)


def estimate(*sources: Characters) -> NDArray[np.float64]:
    """Returns an estimate of the quotient from leading digits, (n,), within 0.2 of the true one.

    The sources are the leading digits of the remainder, lowest first and its sign digit last, and
    then those of the divisor.
    """
    values = _VALUES.take(sources)  # (7, n)
    dividend = _POWERS @ values[:MIN_DIVISOR]
    dividend -= np.where(sources[MIN_DIVISOR] == NINE, 10**MIN_DIVISOR, 0)
    divisor = _POWERS @ values[MIN_DIVISOR + 1 :]
    # The digits that are not read add half a unit on average.
    result: NDArray[np.float64] = 10 * (dividend + 0.5) / (divisor + 0.5)
    return result


def quotient_digit(*sources: Characters) -> Characters:
    """Returns the digit of the whole number nearest to the estimate, without its sign. The
    remainder is always smaller than the divisor."""
    return digit(np.minimum(np.abs(np.rint(estimate(*sources))), 9).astype(np.int16))


def second_quotient_digit(*sources: Characters) -> Characters:
    """Returns the second nearest whole number if it, too, certainly leaves less than the divisor;
    else the nearest."""
    quotient = estimate(*sources)
    nearest = np.clip(np.rint(quotient), -9, 9)
    distance = quotient - nearest
    other = nearest + np.sign(distance)
    negative = sources[MIN_DIVISOR] == NINE
    usable = (np.abs(distance) > 0.25) & (np.abs(other) <= 9) & ((other < 0) <= negative)
    usable &= (other > 0) <= ~negative
    return digit(np.abs(np.where(usable, other, nearest)).astype(np.int16))


def _rounding(half: Characters, kept: Characters, below: Characters) -> Characters:
    more = value(half) > 5
    tie_or_more = half == ZERO + 5
    rest = value(below) > 0
    up = more | (tie_or_more & (rest | (value(kept) % 2 == 1)))
    return np.where(up, PLUS, ZERO).astype(np.uint8)


def _quotient_rounding(
    sign: Characters, last: Characters, before: Characters, top: Characters
) -> Characters:
    """Returns what the last quotient digit adds to the digit before when it is rounded off."""
    positive = sign == PLUS
    zero = top == ZERO
    # Whether the remainder has the sign of the last digit: then the part to round exceeds `last`.
    beyond = ~zero & ((top != NINE) == positive)
    away = (value(last) > 5) | ((value(last) == 5) & (beyond | (zero & (value(before) % 2 == 1))))
    return np.where(away, np.where(positive, PLUS, MINUS), ZERO).astype(np.uint8)


def _rounded_result(exact: Characters, before: Characters, result: Characters) -> Characters:
    """Returns an exact digit plus a carry. `result` is the result digit before, or the rounding."""
    carry = (result == PLUS) | ((before == NINE) & (result == ZERO))
    return digit((value(exact) + carry) % 10)


def _quotient_result(
    sign: Characters,
    q: Characters,
    sign_before: Characters,
    q_before: Characters,
    result: Characters,
) -> Characters:
    """Returns a signed digit plus the carry of the digit before. `result` is the result digit
    before, or the rounding."""
    before = np.where(sign_before == MINUS, -1, 1) * value(q_before)
    carry_before = (value(result) - before + 1) % 10 - 1  # into the digit before: -1, 0 or 1
    carry = np.where(sign_before == 0, _signed_one(result), (before + carry_before) // 10)
    return digit((np.where(sign == MINUS, -1, 1) * value(q) + carry) % 10)


def _signed_one(rounding: Characters) -> Values:
    return np.asarray((rounding == PLUS).astype(np.int16) - (rounding == MINUS), np.int16)


def _sum_sign(a_sign: Characters, top: Characters, *result: Characters) -> Characters:
    negative = (a_sign == MINUS) != (top == NINE)
    return _sign(negative & any_of(value(c) > 0 for c in result))


def _product_sign(a_sign: Characters, b_sign: Characters, *result: Characters) -> Characters:
    if not result:
        return _sign(np.zeros(len(a_sign), bool))
    return _sign((a_sign != b_sign) & any_of(value(c) > 0 for c in result))


RULES: dict[Kind, Rule] = {
    Kind.A_SIGN: _operand_sign,
    Kind.A_DIGIT: _copy,
    Kind.A_BELOW: _marked,
    Kind.A_ZERO: _constant("0"),
    Kind.B_SIGN: _operand_sign,
    Kind.B_SIGN_OF_SUM: _operand_sign_of_sum,
    Kind.B_DIGIT: _copy,
    Kind.B_ZERO: _constant("0"),
    Kind.ADD_OR_SUBTRACT: _add_or_subtract,
    Kind.SUM_LOWEST: _sum_digit,
    Kind.SUM_DIGIT: _sum_digit,
    Kind.ROW_MARK: _constant(";"),
    Kind.MULTIPLIER: _copy,
    Kind.FIRST_DIGIT: _product_digit,
    Kind.FIRST_CARRY: _product_carry,
    Kind.PRODUCT_DIGIT: _product_digit,
    Kind.PRODUCT_CARRY: _product_carry,
    Kind.REMAINDER_MARK: _constant(";"),
    Kind.REMAINDER_COPY: _copy,
    Kind.REMAINDER_ZERO: _constant("0"),
    Kind.BROUGHT_DOWN: _copy,
    Kind.BROUGHT_ZERO: _constant("0"),
    Kind.DIVIDEND_SIGN: _dividend_sign,
    Kind.QUOTIENT_DIGIT: quotient_digit,
    Kind.REMAINDER_DIGIT: _remainder_digit,
    Kind.REMAINDER_CARRY: _remainder_carry,
    Kind.LAST_DIGIT: _last_digit,
    Kind.EXACT_MARK: _constant("|"),
    Kind.PRODUCT_BELOW: _marked,
    Kind.PRODUCT_HALF: _copy,
    Kind.PRODUCT_KEPT: _copy,
    Kind.SUM_BELOW: _sum_below,
    Kind.SUM_HALF: _magnitude,
    Kind.SUM_KEPT: _magnitude,
    Kind.ROUNDING: _rounding,
    Kind.QUOTIENT_ROUNDING: _quotient_rounding,
    Kind.RESULT_MARK: _constant(":"),
    Kind.SUM_RESULT: _magnitude,
    Kind.PRODUCT_RESULT: _copy,
    Kind.ROUNDED_RESULT: _rounded_result,
    Kind.ROUNDED_TOP: _rounded_result,
    Kind.QUOTIENT_RESULT: _quotient_result,
    Kind.SUM_SIGN: _sum_sign,
    Kind.SIGN: _product_sign,
    Kind.NAN: _constant("n"),
    Kind.EQUALS: _constant("="),
}
