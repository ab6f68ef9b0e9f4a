"""Expressions for tests, and their value by a second, naive implementation: Python's fractions."""

from __future__ import annotations

import re
from fractions import Fraction

from hypothesis import strategies as st


def value_of(typed: str) -> Fraction:
    """Returns the exact value of an expression in ASCII, with powers written ^. Raises
    ZeroDivisionError."""
    numbers_as_fractions = re.sub(r"[\d.]+", r"Fraction('\g<0>')", typed.strip())
    return Fraction(eval(numbers_as_fractions.replace("^", "**")))


def rounded(value: Fraction, places: int) -> str:
    """Returns a value rounded to decimal places, ties to even, as people write it."""
    units = round(value * 10**places)
    digits = str(abs(units)).zfill(places + 1)
    whole, decimals = digits[: len(digits) - places], digits[len(digits) - places :]
    return "-" * (units < 0) + f"{whole}.{decimals}".rstrip("0").rstrip(".")


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
