"""The value of an expression as a real number, and how people write it."""

from collections.abc import Sequence
from fractions import Fraction

from calcgpt.errors import ExpressionError, ExpressionErrorKind
from calcgpt.inference.effort import EffortError, spend
from calcgpt.inference.expression_tree import Expression, fold
from calcgpt.inference.function_values import DomainError, call, constant, power
from calcgpt.inference.functions import CONSTANTS, FUNCTIONS
from calcgpt.inference.real import (
    DECIDED_DIGITS,
    Real,
    UndecidedError,
    factorial,
    fraction,
    is_whole,
    parts,
)
from calcgpt.inference.spelling import MAX_FACTORIAL, MESSAGES
from datagen.arithmetic import Number, divide_half_even
from datagen.notation import number_text
from datagen.operations import OUTSIDE, Operation

FRACTION_DIGITS = 40  # of a fraction that is shown, numerator and denominator together
_PERCENT = fraction(Fraction(1, 100))


def evaluate(root: Expression) -> list[Real]:
    """Returns the values of the nodes of a tree in the order of `postorder`.

    Raises ExpressionError for a division by zero, for a factorial that is not of a whole number in
    its range, for a function where it has no value, where that is undecided, and for a value that
    takes too long to work out.
    """
    values: list[Real] = []

    def keep(node: Expression, operands: list[Real]) -> Real:
        values.append(value_of_node(node, operands))
        return values[-1]

    fold(root, keep)
    return values


def value_of_node(node: Expression, operands: Sequence[Real]) -> Real:
    """Returns the value of a node, given those of its operands. Raises ExpressionError."""
    try:
        return _value(node, *operands)
    except ArithmeticError as error:
        part = node
        if isinstance(error, ZeroDivisionError):
            part = node.operands[-1]
        elif isinstance(error, DomainError) and error.args[1] >= 0:
            part = node.operands[error.args[1]]
        kind, reason = reason_of(error)
        raise ExpressionError(kind, reason, part.start, part.end) from None


def reason_of(error: ArithmeticError) -> tuple[ExpressionErrorKind, str]:
    """Returns why there is no value."""
    key, kind = "value", ExpressionErrorKind.OUT_OF_RANGE
    if isinstance(error, DomainError):
        key = error.args[0]
    elif isinstance(error, ZeroDivisionError):
        key = "division"
    elif isinstance(error, UndecidedError):
        key, kind = "undecided", ExpressionErrorKind.UNDECIDED
    elif isinstance(error, EffortError):
        key, kind = "effort", ExpressionErrorKind.TOO_LONG
    kind = ExpressionErrorKind.DIVISION_BY_ZERO if key == "division" else kind
    return kind, MESSAGES[key].format(n=f"{DECIDED_DIGITS:,}")


def _value(node: Expression, *operands: Real) -> Real:
    sign = node.sign
    if not sign:
        return fraction(value_of_number(node.number))
    if sign in CONSTANTS:
        return constant(sign)
    if sign == "^":
        return power(*operands)
    if sign in FUNCTIONS:
        return call(sign, operands)
    a, b = operands[0], operands[-1]
    if sign == "%":
        return a * _PERCENT
    if sign == "||":
        return call("abs", operands)
    if sign == "!":
        return _factorial(a)
    if sign == "+":
        return a + b
    if sign == "-":
        return a - b
    if sign == "*":
        return a * b
    if sign == "/":
        return a / b
    if sign in OUTSIDE:
        return _outside(OUTSIDE[sign], a, b)
    if sign in ("+%", "-%"):
        return a + a * b if sign == "+%" else a - a * b
    if sign == "mod" and (rest := _residue(a, b)) is not None:
        return rest
    quotient = fraction(Fraction((a / b).floor()))
    return quotient if sign == "//" else a - b * quotient


def _outside(operation: Operation, a: Real, b: Real) -> Real:
    """Returns the value of an operation of a user's own, which is known of fractions alone."""
    if a.exact is None or b.exact is None:
        raise UndecidedError
    n, d = operation.exact(a.exact, b.exact, 1)
    return fraction(Fraction(n) / Fraction(d))


def _factorial(x: Real) -> Real:
    if not is_whole(x) or not 0 <= x.floor() <= MAX_FACTORIAL:
        raise DomainError("factorial", -1)
    return factorial(x.floor())


def _residue(whole: Real, divisor: Real) -> Real | None:
    """Returns the remainder of a whole number, even of one that is too long to write, by another;
    None if one of them is not whole, or the divisor is 0."""
    if not is_whole(divisor) or not divisor.exact:
        return None
    modulus = divisor.floor()
    found: dict[int, int | None] = {}
    for part in parts(whole):
        spend(1)
        known = [found[id(operand)] for operand in part.operands if part.exact is None]
        result = None
        if is_whole(part):
            result = part.floor() % modulus
        elif None in known or part.exact is not None:
            pass
        elif part.operation in "+*":
            a, b = known
            result = (a + b if part.operation == "+" else a * b) % modulus  # type: ignore[operator]
        elif part.operation == "^" and part.exponent.denominator == 1 and part.exponent >= 0:
            result = pow(known[0] or 0, int(part.exponent), modulus)
        elif part.operation == "!" and part.operands[0].exact >= abs(modulus):  # type: ignore[operator]
            result = 0
        found[id(part)] = result
    rest = found[id(whole)]
    return None if rest is None else fraction(Fraction(rest))


def value_of_number(number: Number) -> Fraction:
    """Returns the value of a decimal number."""
    return Fraction(number.units, 10**number.places)


def round_to(value: Fraction, places: int) -> Number:
    """Returns a value rounded to decimal places, ties to even, as a number without superfluous
    zeros."""
    units = divide_half_even(value.numerator * 10**places, value.denominator)
    number = Number.from_units(units, places, point=places > 0)
    return Number(number.units // 10) if number.places and number.units % 10 == 0 else number


def equal(a: Number, b: Number) -> bool:
    """Returns whether two numbers have the same value."""
    return value_of_number(a) == value_of_number(b)


def plain_text(number: Number) -> str:
    """Returns a number as people write it: `4`, not `4.0`."""
    return number_text(number).removesuffix(".0")


def fraction_text(value: Fraction) -> str | None:
    """Returns a value as `5/6`, a whole one as `3`; None if it has more than FRACTION_DIGITS."""
    if max(abs(value.numerator), value.denominator) >= 10**FRACTION_DIGITS:
        return None
    if value.denominator == 1:
        return str(value.numerator)
    digits = len(str(abs(value.numerator))) + len(str(value.denominator))
    return f"{value.numerator}/{value.denominator}" if digits <= FRACTION_DIGITS else None
