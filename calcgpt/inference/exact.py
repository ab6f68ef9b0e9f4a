"""The exact value of an expression, and how people write it."""

import math
import operator
from fractions import Fraction

from calcgpt.errors import ExpressionError, ExpressionErrorKind
from calcgpt.inference.expression_tree import Expression, fold
from calcgpt.inference.functions import CONSTANTS, FUNCTIONS
from calcgpt.inference.real import DomainError, Real, call, constant, near
from calcgpt.inference.spelling import MAX_DIGITS, MAX_EXPONENT, MAX_FACTORIAL, MESSAGES
from datagen.arithmetic import Number, divide_half_even
from datagen.notation import number_text

FRACTION_DIGITS = 40  # of a fraction that is shown, numerator and denominator together
_MAX_BITS = int(MAX_DIGITS * math.log2(10))
_OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "mod": operator.mod,
}


def evaluate(root: Expression) -> list[Real]:
    """Returns the values of the nodes of a tree in the order of `postorder`.

    Raises ExpressionError for a division by zero, for a factorial that is not of a whole number in
    its range, for a function where it has no value, and for a value of more than MAX_DIGITS.
    """
    values: list[Real] = []

    def keep(node: Expression, operands: list[Real]) -> Real:
        values.append(value_of_node(node, operands))
        return values[-1]

    fold(root, keep)
    return values


def value_of_node(node: Expression, operands: list[Real]) -> Real:
    """Returns the value of a node, given those of its operands. Raises ExpressionError."""
    numbers = [operand.value for operand in operands]
    try:
        if node.sign in CONSTANTS:
            return constant(node.sign)
        # A power of sqrt(2) is worked out like sqrt(2): the exact one would have many digits.
        is_power = node.sign == "^" and operands[0].is_exact and numbers[1].denominator == 1
        if node.sign in FUNCTIONS and not is_power:
            result = call(node.sign, numbers)
        else:
            result = Real(_value(node, numbers))
        is_exact = result.is_exact and all(operand.is_exact for operand in operands)
        result = result if is_exact else near(result.value)
    except DomainError as error:
        key, index = error.args
        part = node if index < 0 else node.operands[index]
        reason = MESSAGES[key].format(n=MAX_DIGITS)
        kind = ExpressionErrorKind.DIVISION_BY_ZERO
        kind = kind if key == "division" else ExpressionErrorKind.OUT_OF_RANGE
        raise ExpressionError(kind, reason, part.start, part.end) from None
    if _n_bits(result.value) > _MAX_BITS:
        raise _too_long(node)
    return result


def _value(node: Expression, operands: list[Fraction]) -> Fraction:
    sign = node.sign
    if not sign:
        return Fraction(node.number.units, 10**node.number.places)
    if sign == "%":
        return operands[0] / 100
    if sign == "||":
        return abs(operands[0])
    if sign == "!":
        return _factorial(node, operands[0])
    a, b = operands
    if sign == "^":
        return _power(node, a, b)
    if sign in ("+%", "-%"):
        return a * (1 + b) if sign == "+%" else a * (1 - b)
    if not b and sign in ("/", "//", "mod"):
        divisor = node.operands[1]
        kind = ExpressionErrorKind.DIVISION_BY_ZERO
        raise ExpressionError(kind, MESSAGES["division"], divisor.start, divisor.end)
    return Fraction(_OPERATORS[sign](a, b))


def _power(node: Expression, base: Fraction, exponent: Fraction) -> Fraction:
    part = node.operands[1]
    if abs(exponent) > MAX_EXPONENT:
        reason = MESSAGES["large-exponent"]
        raise ExpressionError(ExpressionErrorKind.OUT_OF_RANGE, reason, part.start, part.end)
    if not base and exponent < 0:
        kind = ExpressionErrorKind.DIVISION_BY_ZERO
        raise ExpressionError(kind, MESSAGES["division"], node.start, node.end)
    if _n_bits(base) > 1 and (_n_bits(base) - 1) * abs(int(exponent)) > _MAX_BITS:
        raise _too_long(node)
    return Fraction(base ** int(exponent))


def _factorial(node: Expression, value: Fraction) -> Fraction:
    if value.denominator != 1 or not 0 <= value <= MAX_FACTORIAL:
        reason = MESSAGES["factorial"]
        raise ExpressionError(ExpressionErrorKind.OUT_OF_RANGE, reason, node.start, node.end)
    return Fraction(math.factorial(int(value)))


def _n_bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _too_long(node: Expression) -> ExpressionError:
    reason = MESSAGES["value"]
    return ExpressionError(ExpressionErrorKind.OUT_OF_RANGE, reason, node.start, node.end)


def round_to(value: Fraction, places: int) -> Number:
    """Returns a value rounded to decimal places, ties to even, as a number without superfluous
    zeros."""
    units = divide_half_even(value.numerator * 10**places, value.denominator)
    while places and units % 10 == 0:
        units, places = units // 10, places - 1
    return Number(units, places)


def equal(a: Number, b: Number) -> bool:
    """Returns whether two numbers have the same value."""
    return plain_text(a) == plain_text(b)


def plain_text(number: Number) -> str:
    """Returns a number as people write it: `4`, not `4.0`."""
    return number_text(number).removesuffix(".0")


def fraction_text(value: Fraction) -> str | None:
    """Returns a value as `5/6`, a whole one as `3`; None if it has more than FRACTION_DIGITS."""
    if value.denominator == 1 and abs(value) < 10**FRACTION_DIGITS:
        return str(value.numerator)
    digits = len(str(abs(value.numerator))) + len(str(value.denominator))
    return f"{value.numerator}/{value.denominator}" if digits <= FRACTION_DIGITS else None
