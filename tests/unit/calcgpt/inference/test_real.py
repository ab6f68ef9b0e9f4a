"""Real numbers: what is decided agrees with interval arithmetic at ten times the precision."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from real_numbers import HARD, IDENTITIES, UNDECIDED

from calcgpt.errors import ExpressionError
from calcgpt.errors import ExpressionErrorKind as Kind
from calcgpt.inference import closed_form, real
from calcgpt.inference.closed_form import Form
from calcgpt.inference.exact import evaluate
from calcgpt.inference.expression import parse
from calcgpt.inference.real import Real, UndecidedError, fraction

DIGITS = 3_000  # of the oracle
iv = mpmath.iv.clone() if hasattr(mpmath.iv, "clone") else mpmath.iv
mp = mpmath.mp.clone()
mp.dps = 60


def value_of(text: str) -> Real:
    return evaluate(parse(text).expression)[-1].settle()


@pytest.mark.parametrize("text", IDENTITIES)
def test_equality_is_shown_by_a_theorem(text: str) -> None:
    assert value_of(text).exact == IDENTITIES[text]


@pytest.mark.parametrize("text", HARD)
def test_what_is_near_is_not_equal(text: str) -> None:
    assert value_of(text).exact == HARD[text]


@pytest.mark.parametrize("text", UNDECIDED)
def test_what_no_theorem_decides_is_undecided(text: str) -> None:
    with pytest.raises(ExpressionError, match="undecided") as refused:
        value_of(text)
    assert refused.value.kind is Kind.UNDECIDED


Drawn = tuple[str, Callable[[], Any]]  # a text, and its value by interval arithmetic

CONSTANTS: list[Drawn] = [
    ("pi", lambda: +iv.pi),
    ("e", lambda: +iv.e),
    ("sqrt(2)", lambda: iv.sqrt(2)),
]
FUNCTIONS: list[tuple[str, Callable[[Any], Any]]] = [
    ("sin({})", lambda x: iv.sin(x)),
    ("cos({})", lambda x: iv.cos(x)),
    ("exp(-|{}|)", lambda x: iv.exp(-abs(x))),
    ("ln(1+|{}|)", lambda x: iv.log(1 + abs(x))),
    ("sqrt|{}|", lambda x: iv.sqrt(abs(x))),
    ("(1/(1+|{}|))", lambda x: 1 / (1 + abs(x))),
    ("(1-cos({}))", lambda x: 1 - iv.cos(x)),
]
OPERATIONS: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("({}+{})", lambda a, b: a + b),
    ("({}-{})", lambda a, b: a - b),
    ("({}*{})", lambda a, b: a * b),
]


def _near(n: int, k: int) -> Drawn:
    """Numbers that are near to whole ones and halves, up to 10^-300."""
    return f"({n}/2+10^-{k})", lambda: iv.mpf(n) / 2 + iv.mpf(10) ** -k


def reals() -> st.SearchStrategy[Drawn]:
    """Real expressions without domain errors, some of them near to where a value is rational."""
    near = st.builds(_near, st.integers(-6, 6), st.integers(1, 300))
    unary = st.sampled_from(FUNCTIONS)
    binary = st.sampled_from(OPERATIONS)

    def larger(parts: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
        of_one = st.builds(lambda f, x: (f[0].format(x[0]), lambda: f[1](x[1]())), unary, parts)
        of_two = st.builds(
            lambda f, a, b: (f[0].format(a[0], b[0]), lambda: f[1](a[1](), b[1]())),
            *(binary, parts, parts),
        )
        return of_one | of_two

    return st.recursive(near | st.sampled_from(CONSTANTS), larger, max_leaves=5)


def by_intervals(value: Callable[[], Any], digits: int = DIGITS) -> tuple[Fraction, Fraction]:
    """Returns the ends of the interval that a value is in."""
    before, iv.dps = iv.dps, digits
    try:
        interval = value()
        return tuple(_exact(end) for end in interval._mpi_)  # type: ignore[return-value]
    finally:
        iv.dps = before


def _exact(end: Any) -> Fraction:
    sign, mantissa, exponent, _ = end
    return Fraction(int(-mantissa if sign else mantissa)) * Fraction(2) ** int(exponent)


STEPS: dict[str, Callable[[Fraction], Any]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "sign": lambda x: (x > 0) - (x < 0),
    "trunc": math.trunc,
}


def _decided(text: str) -> Fraction | None:
    """Returns the value of a text, or None if it is undecided."""
    try:
        return value_of(text).exact
    except ExpressionError as error:
        if error.kind is Kind.UNDECIDED:
            return None
        raise


@given(reals(), st.sampled_from(sorted(STEPS)))
def test_steps_agree_with_intervals_or_are_undecided(drawn: Drawn, step: str) -> None:
    text, value = drawn
    low, high = (STEPS[step](end) for end in by_intervals(value))
    decided = _decided(f"{step}({text})")
    assert low <= decided <= high if decided is not None else low != high


@settings(max_examples=50)
@given(reals(), reals())
def test_a_remainder_agrees_with_intervals_or_is_undecided(a: Drawn, b: Drawn) -> None:
    low, high = by_intervals(b[1])
    assume(low > 0 or high < 0)
    quotient = _decided(f"({a[0]}) // ({b[0]})")
    ends = [math.floor(end) for end in by_intervals(lambda: a[1]() / b[1]())]
    assert quotient is None or ends[0] <= quotient <= ends[1]


@given(reals(), st.integers(0, 300))
def test_a_value_is_rounded_as_intervals_say(drawn: Drawn, places: int) -> None:
    text, value = drawn
    try:
        rounded = value_of(text).rounded(places)
    except UndecidedError:
        return
    low, high = (Fraction(round(end * 10**places), 10**places) for end in by_intervals(value))
    assert low <= rounded <= high


@given(reals())
def test_a_closed_form_is_worth_its_number(drawn: Drawn) -> None:
    text, value = drawn
    form = evaluate(parse(text).expression)[-1].form
    if form:
        low, _ = by_intervals(value, 50)
        assert abs(_by_form(form) - mp.mpf(low.numerator) / low.denominator) < mp.mpf(10) ** -40


def _by_form(form: Form) -> Any:
    """Returns the value of a form by mpmath."""
    n, d = (
        mp.fsum(
            mp.mpf(c.numerator) / c.denominator * _by_monomial(monomial) for monomial, c in part
        )
        for part in form
    )
    return n / d


def _by_monomial(monomial: closed_form.Monomial) -> Any:
    powers = []
    for atom, e in monomial:
        exponent = mp.mpf(e.numerator) / e.denominator
        powers.append(_by_atom(*atom) ** (int(e) if e.denominator == 1 else exponent))
    return mp.fprod(powers)


def _by_atom(name: str, of: Any = None) -> Any:
    if name == "pi":
        return +mp.pi
    if name == "prime":
        return mp.mpf(of)
    if name == "sine":
        return mp.sin(mp.pi * of.numerator / of.denominator)
    if name == "sum":
        return _by_form(of)
    if isinstance(of, int):
        of = mp.mpf(of)
    elif isinstance(of, Form):
        of = _by_form(of)
    elif isinstance(of, frozenset):
        of = _by_monomial(of)
    else:
        of = _by_atom(*of)
    names = {"ln": mp.ln, "ln of": mp.ln, "exp": mp.exp, "sin": mp.sin, "cos": mp.cos}
    return names[name](of)


@given(st.integers(2, 10**6), st.integers(1, 40))
def test_roots_that_nearly_cancel_are_told_from_0(n: int, k: int) -> None:
    """sqrt(n^2 + 1) - n, times a power of ten, is not 0; sqrt(n^2) - n is."""
    root = real.power(fraction(Fraction(n * n * 10 ** (2 * k) + 1)), Fraction(1, 2))
    assert (root - fraction(Fraction(n * 10**k))).sign() == 1
    nested = real.power(
        fraction(Fraction(n + 1)) + real.power(fraction(Fraction(4 * n)), Fraction(1, 2)),
        Fraction(1, 2),
    )
    root_n = real.power(fraction(Fraction(n)), Fraction(1, 2))
    assert (nested - root_n).compare(1) == 0  # sqrt(n + 1 + 2 sqrt(n)) is sqrt(n) + 1


def test_a_remainder_of_a_long_number_is_worked_out_without_it() -> None:
    for text, rest in (
        ("7^(10^9) mod 13", pow(7, 10**9, 13)),
        ("(535^125*125^854) mod 1283", 535**125 * 125**854 % 1283),
        ("(3^100000+2) mod 10^9", (pow(3, 100_000, 10**9) + 2) % 10**9),
        ("100000! mod 99991", 0),
        ("100000! mod -99991", 0),
        ("3^100000 mod -10", pow(3, 100_000, -10)),
    ):
        assert value_of(text).exact == rest
    with pytest.raises(ExpressionError, match="more than 10,000 digits"):
        value_of("100000! mod -1000003")  # of a factorial below the divisor
