"""Expressions for tests, and their value by a second, naive implementation.

The value is a `Fraction`, rounded after each operation. The rule for a point in a result is that of
the notation. Python's own parser parses the expression.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from fractions import Fraction

from hypothesis import strategies as st


@dataclass(frozen=True)
class Value:
    """An exact value and whether it is written with a point."""

    fraction: Fraction
    point: bool

    def __str__(self) -> str:
        """As Python writes the int or the float, the float from exact digits."""
        sign = "-" if self.fraction < 0 else ""
        units = abs(self.fraction) * 10**9
        assert units.denominator == 1
        digits = str(units.numerator).zfill(10)
        whole, places = digits[:-9], digits[-9:]
        if not self.point:
            assert places == "0" * 9
            return f"{sign}{whole}"
        return f"{sign}{whole}.{places[0]}{places[1:].rstrip('0')}"


def value_of(typed: str, largest: int, places: int = 2) -> Value:
    """Returns the value of an expression in ASCII, with powers written ^ and each operation rounded
    to `places`. Raises ZeroDivisionError, or OverflowError if an operand has more than `largest`
    characters."""
    typed = typed.strip().replace("^", "**")
    return _value(ast.parse(typed, mode="eval").body, typed, largest, places)


def _value(node: ast.expr, typed: str, largest: int, places: int) -> Value:
    match node:
        case ast.BinOp(left, ast.Pow(), ast.Constant(value=int() as exponent)):
            base = power = _operand(left, typed, largest, places)
            for _ in range(exponent - 1):
                if len(str(power)) > largest:
                    raise OverflowError(typed)
                power = _operate(power, ast.Mult(), base, places)
            return power if exponent else Value(Fraction(1), base.point)
        case ast.BinOp(left, op, right):
            a, b = (_operand(part, typed, largest, places) for part in (left, right))
            return _operate(a, op, b, places)
        case ast.UnaryOp(ast.USub(), part) if _is_operation(part):  # 0-(...)
            zero = Value(Fraction(0), False)
            return _operate(zero, ast.Sub(), _operand(part, typed, largest, places), places)
        case ast.UnaryOp(ast.USub(), part):
            number = _value(part, typed, largest, places)
            return Value(-number.fraction, number.point)
        case ast.Constant():
            text = ast.get_source_segment(typed, node)
            assert text
            return Value(Fraction(text), "." in text)
    raise AssertionError(ast.dump(node))


def _is_operation(node: ast.expr) -> bool:
    """Whether the expression is more than a number with signs before it."""
    while isinstance(node, ast.UnaryOp):
        node = node.operand
    return isinstance(node, ast.BinOp)


def _operand(node: ast.expr, typed: str, largest: int, places: int) -> Value:
    value = _value(node, typed, largest, places)
    if len(str(value)) > largest:
        raise OverflowError(typed)
    return value


def _operate(a: Value, op: ast.operator, b: Value, places: int) -> Value:
    point = a.point or b.point
    match op:
        case ast.Add():
            exact = a.fraction + b.fraction
        case ast.Sub():
            exact = a.fraction - b.fraction
        case ast.Mult():
            exact = a.fraction * b.fraction
        case _:
            exact, point = a.fraction / b.fraction, True
    return Value(Fraction(round(exact * 10**places), 10**places), point)  # ties to even


def numbers(largest: int = 9_999_999) -> st.SearchStrategy[str]:
    """Numbers as people type them, up to `largest` hundredths."""
    hundredths = st.integers(0, largest)
    whole = st.integers(0, largest // 100).map(str)
    return (
        st.integers(0, 20).map(str)
        | whole
        | hundredths.map(lambda n: f"{n // 100}.{n % 100:02d}")
        | hundredths.map(lambda n: f"{n // 100}.{n % 100 // 10}")
    )


def expressions(largest: int = 9_999_999, max_leaves: int = 8) -> st.SearchStrategy[str]:
    """Expressions of an operation or more, in ASCII, with signs, powers, spaces, parentheses."""
    operation = st.sampled_from(["+", "-", "*", "/", " + ", " - ", " * ", " / "])

    def larger(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        binary = st.builds(lambda a, op, b: f"{a}{op}{b}", parts, operation, parts)
        grouped = binary.map(lambda text: f"({text})")
        return binary | grouped | grouped.map(lambda text: f"-{text}")

    number = numbers(largest)
    power = st.builds(lambda base, n: f"{base}^{n}", st.integers(0, 99), st.integers(0, 3))
    leaves = number | number.map(lambda text: f"-{text}") | power
    whole = st.recursive(leaves, larger, max_leaves=max_leaves)
    return st.builds(lambda a, op, b: f"{a}{op}{b}", whole, operation, whole)
