"""Expressions for tests, and their value by a second, naive implementation: Python's fractions."""

import random
import re
from fractions import Fraction

from hypothesis import strategies as st

from calcgpt.inference.functions import ANGLED, CONSTANT_SPELLINGS, FUNCTIONS, SPELLINGS


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


#: Functions of a number, and those of several, by all their spellings.
SINGLE, SEVERAL = (
    [
        (name, spelling)
        for name in SPELLINGS
        if (name not in FUNCTIONS or FUNCTIONS[name].most == 1) == is_single
        for spelling in SPELLINGS[name]
    ]
    for is_single in (True, False)
)
POWERS = ("^0.5", "^(1/3)", "^-1.5", "^pi", "^20", "^1/2", "²", "!", "%", "°")
FACTORS = ("(2)", "π", "√3", "sqrt(2)", "|-2|", "e")
JOINTS = ("+", "-", "*", "/", "//", " mod ", "^", " ", "", " of ", " plus ", " choose ")
NUMBERS = (
    *("0", "1", "2", "3", "8", "16", "27", "30", "45", "90", "100", "360", "0.5", "1.5", "-3"),
    *("1/3", "1e3", "1e20", "1e30", "1e-5", "1e-20", "123456789.123456789", "1,000", "0,5", "½"),
    *CONSTANT_SPELLINGS,
)


def with_functions(draw: random.Random, depth: int = 3) -> str:
    """Returns a random text with functions, constants and powers, most of them expressions."""
    kind = draw.random()
    if depth == 0 or kind < 0.2:
        drawn = f"{draw.randint(0, 10 ** draw.randint(0, 6))}"
        drawn += f".{draw.randint(0, 9_999)}" if draw.random() < 0.3 else ""
        return draw.choice([*NUMBERS, *(drawn for _ in NUMBERS)])
    first = with_functions(draw, depth - 1)
    if kind < 0.55:
        name, spelling = draw.choice(SINGLE)
        unit = draw.choice(["", "°", " degrees"]) if name in ANGLED else ""
        form = draw.choice(["{}({}{})", "{}({}{})", "{}({}{})", "{} of {}{}", "{} {}{}", "{}{}{}"])
        return form.format(spelling, first, unit)
    if kind < 0.7:
        name, spelling = draw.choice(SEVERAL)
        usual = 2 if FUNCTIONS[name].most else draw.randint(1, 4)
        n = usual if draw.random() < 0.9 else draw.randint(1, 3)
        others = [with_functions(draw, depth - 1) for _ in range(n - 1)]
        return f"{spelling}({draw.choice([',', ', ', '; ']).join([first, *others])})"
    if kind < 0.75:
        return f"log{draw.choice(['_2', '2', ' 10', ' 3'])}({first})"
    if kind < 0.85:
        return f"({first}){draw.choice(POWERS + FACTORS)}"
    return f"{first}{draw.choice(JOINTS)}{with_functions(draw, depth - 1)}"
