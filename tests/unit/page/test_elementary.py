"""The page's roots, logarithms and other functions of fractions, against mpmath."""

import random
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest
from mpmath import mp

from tools.node import in_node

REAL = """async (asked) => {
    const real = await import("/static/engine/elementary.js");
    const fraction = ([n, d]) => ({ n: BigInt(n), d: BigInt(d) });
    return asked.map(([name, x, degree, digits]) => {
        const rest = degree === null ? [digits] : [BigInt(degree), digits];
        try {
            const { n, d } = real[name](...(x === null ? rest : [fraction(x), ...rest]));
            return [String(n), String(d)];
        } catch (error) {
            if (!(error instanceof RangeError)) throw error;
            return error.message;
        }
    });
}"""
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    **{"ln": mp.log, "exp": mp.exp, "sinh": mp.sinh, "cosh": mp.cosh, "tanh": mp.tanh},
    **{"sin": mp.sin, "cos": mp.cos, "tan": mp.tan},
    **{"asin": mp.asin, "acos": mp.acos, "atan": mp.atan},
}
CONSTANTS: dict[str, Callable[[], Any]] = {
    **{"pi": lambda: +mp.pi, "e": lambda: +mp.e, "phi": lambda: +mp.phi},
    **{"ln2": lambda: mp.log(2), "ln10": lambda: mp.log(10)},
}
DIGITS = (1, 8, 30, 60, 100)
LARGEST_POWER = 4_605  # e to it has 2,000 digits
N_DRAWN = 150  # arguments of a function

Case = tuple[str, Fraction | None, int | None, int]


def results(cases: list[Case]) -> list[Any]:
    """Returns what the page makes of cases: a fraction in lowest terms, or an error's message."""
    asked = [(name, None if x is None else written(x), *rest) for name, x, *rest in cases]
    found = []
    for result in in_node(REAL, asked):
        fraction = result if isinstance(result, str) else Fraction(*map(int, result))
        assert isinstance(result, str) or written(fraction) == tuple(result)
        found.append(fraction)
    return found


def written(x: Fraction) -> tuple[str, str]:
    return str(x.numerator), str(x.denominator)


def check(cases: list[Case]) -> None:
    """Checks that each error is less than one unit of the last digit."""
    for (name, x, degree, digits), found in zip(cases, results(cases), strict=True):
        assert isinstance(found, Fraction), (name, x, found)
        with mp.workdps(digits + 200):  # more than arguments and values together
            if x is None:
                right = CONSTANTS[name]()
            elif degree:
                right = mp.sign(real(x)) * mp.root(abs(real(x)), degree)
            else:
                right = FUNCTIONS[name](real(x))
            unit = mp.mpf(10) ** (mp.floor(mp.log10(abs(right))) - digits + 1) if right else 0
            error = abs(real(found) - right)
            assert error < unit or not error, (name, x, degree, digits)


def real(x: Fraction) -> Any:
    return mp.mpf(x.numerator) / x.denominator


def drawn(draw: random.Random) -> Fraction:
    """A random number of any size from 10**-40 to 10**40: short or long, or next to an integer."""
    digits = draw.choice((1, 3, 20, 50))
    number = Fraction(draw.randint(10 ** (digits - 1), 10**digits - 1)) / 10**digits
    number *= Fraction(10) ** draw.choice((draw.randint(-39, 40), draw.randint(-3, 4)))
    if draw.random() < 0.2:
        number = Fraction(draw.randint(1, 10**9), draw.randint(1, 10**9))
    if draw.random() < 0.2:
        number = draw.randint(1, 9) + number / 10**41
    return number * draw.choice((1, -1))


def argument(name: str, draw: random.Random) -> Fraction:
    """A random number for which a function has a value."""
    x = drawn(draw)
    if name in ("exp", "sinh", "cosh"):
        return x if abs(x) <= LARGEST_POWER else LARGEST_POWER / x
    if name in ("asin", "acos"):
        x = x if abs(x) <= 1 else 1 / x
        return draw.choice((x, x, 1 - abs(x) / 10**40, abs(x) / 10**40 - 1))
    if name in ("sin", "cos", "tan") and draw.random() < 0.3:
        with mp.workdps(140):  # next to a multiple of pi/2
            digits = draw.randint(5, 60)
            angle = mp.pi / 2 * draw.randint(-(10 ** draw.randint(0, 39)), 10**40)
            return Fraction(int(angle * 10**digits), 10**digits)
    return abs(x) if name == "ln" else x


def special(name: str) -> Iterator[Fraction]:
    """Arguments with known values, and those next to them."""
    yield from map(Fraction, (1, 10**40, 2, 10))
    yield from (1 + sign * Fraction(1, 10**size) for sign in (1, -1) for size in (1, 30, 40))
    yield from (Fraction(10) ** -size for size in (1, 10, 40))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_the_digits_that_are_asked_for(name: str) -> None:
    draw = random.Random(name)
    arguments = [argument(name, draw) for _ in range(N_DRAWN)]
    in_range = {"exp": LARGEST_POWER, "sinh": LARGEST_POWER, "cosh": LARGEST_POWER}
    most = in_range.get(name, 1 if name in ("asin", "acos") else 10**40)
    arguments += [x for x in special(name) if abs(x) <= most]
    arguments += [] if name == "ln" else [-x for x in special(name) if abs(x) <= most]
    check([(name, x, None, draw.choice(DIGITS)) for x in arguments])


def test_roots_have_the_digits_that_are_asked_for() -> None:
    draw = random.Random(0)
    cases: list[Case] = []
    for degree in (1, 2, 2, 2, 3, 3, 4, 5, 16, 17, 100, 10_000):
        arguments = [drawn(draw) for _ in range(30)] + list(special("root"))
        arguments = [x if degree % 2 else abs(x) for x in arguments]
        cases += [("root", x, degree, draw.choice(DIGITS)) for x in arguments]
    check(cases)


def test_constants_have_the_digits_that_are_asked_for() -> None:
    check([(name, None, None, n) for n in (100, 1, 60, 2_000) for name in CONSTANTS])


def test_values_that_are_fractions_are_exact() -> None:
    draw = random.Random(0)
    zero, one = Fraction(0), Fraction(1)
    exact: list[tuple[Case, Fraction]] = [
        *(((name, zero, None, 9), zero) for name in ("sin", "tan", "asin", "atan")),
        *(((name, zero, None, 9), zero) for name in ("sinh", "tanh")),
        *(((name, zero, None, 9), one) for name in ("exp", "cos", "cosh")),
        *(((name, one, None, 9), zero) for name in ("ln", "acos")),
    ]
    for degree in (1, 2, 3, 4, 7, 17, 100):
        for root in (zero, one, abs(drawn(draw)), Fraction(2, 3), Fraction(draw.randint(2, 99))):
            exact.append((("root", root**degree, degree, 1), root))
            if degree % 2:
                exact.append((("root", -(root**degree), degree, 1), -root))
    assert results([case for case, _ in exact]) == [value for _, value in exact]


def test_what_has_no_value_or_too_long_a_one_is_an_error() -> None:
    cases: list[Case] = [
        *(("root", Fraction(-2), degree, 9) for degree in (2, 100)),
        *(("ln", Fraction(x), None, 9) for x in (0, -1)),
        *((name, x, None, 9) for name in ("asin", "acos") for x in (Fraction(2), Fraction(-9, 8))),
        *((name, Fraction(4_607), None, 9) for name in ("exp", "sinh", "cosh")),
        *((name, Fraction(-4_607), None, 9) for name in ("exp", "sinh", "cosh")),
    ]
    for case, found in zip(cases, results(cases), strict=True):
        assert isinstance(found, str), case
