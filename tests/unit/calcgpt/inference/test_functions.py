"""Functions: the program of each gives the value rounded once, by mpmath at another precision."""

import math
import statistics
from collections.abc import Callable
from typing import Any

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calcgpt.errors import ExpressionError
from calcgpt.inference.exact import plain_text
from calcgpt.inference.expression import parse
from calcgpt.inference.expression_tree import postorder
from calcgpt.inference.functions import DEFINITIONS, FUNCTIONS, SPELLINGS
from calcgpt.inference.limits import DirectLimits, ScratchpadLimits
from calcgpt.inference.planning import Plan, make_plan

LIMITS = ScratchpadLimits(block_size=32_768)
mp = mpmath.mp.clone()
mp.dps = 90


def plan(text: str, places: int = 8) -> Plan:
    return make_plan(parse(text).expression, places, LIMITS)


def result(text: str, places: int = 8) -> str:
    return plain_text(plan(text, places).result.number)


def rounded(value: Any, places: int) -> str:
    """Returns an mpmath number rounded to decimal places, as people write it."""
    units = int(mp.nint(value * mp.mpf(10) ** places))
    digits = str(abs(units)).zfill(places + 1)
    whole, decimals = digits[: len(digits) - places], digits[len(digits) - places :]
    return "-" * (units < 0) + f"{whole}.{decimals}".rstrip("0").rstrip(".")


def _decimals(least: int, most: int) -> st.SearchStrategy[str]:
    """Numbers with 0 to 4 places."""

    def text(places: int, share: float) -> str:
        return f"{least + (most - least) * share:.{places}f}"

    return st.builds(text, st.integers(0, 4), st.floats(0, 1))


any_number = _decimals(-1_000, 1_000)
above_0 = _decimals(0, 100_000).filter(lambda text: float(text) > 0)
small = _decimals(-18, 18)
arc = _decimals(-1, 1)
whole = st.integers(-10_000, 10_000).map(str)
halves = st.integers(-59, 59).filter(lambda n: n > 0 or n % 2).map(lambda n: f"{n / 2:g}")
choices = st.integers(0, 40).flatmap(lambda n: st.integers(0, n).map(lambda k: f"{n}, {k}"))
several = st.lists(any_number, min_size=2, max_size=5).map(", ".join)

#: Function -> its arguments, and its value by mpmath or Python.
CASES: dict[str, tuple[st.SearchStrategy[str], Callable[..., Any]]] = {
    "sqrt": (_decimals(0, 100_000), mp.sqrt),
    "cbrt": (any_number, lambda x: mp.sign(x) * mp.cbrt(abs(x))),
    "root": (
        st.tuples(above_0, st.integers(1, 12).map(str)).map(", ".join),
        lambda x, n: x ** (1 / n),
    ),
    "exp": (small, mp.exp),
    "ln": (above_0, mp.ln),
    "log": (above_0, mp.log10),
    "log2": (above_0, lambda x: mp.log(x, 2)),
    "sin": (any_number, mp.sin),
    "cos": (any_number, mp.cos),
    "tan": (small, mp.tan),
    "sin°": (any_number, lambda x: mp.sin(mp.radians(x))),
    "cos°": (any_number, lambda x: mp.cos(mp.radians(x))),
    "tan°": (_decimals(-89, 89), lambda x: mp.tan(mp.radians(x))),
    "asin": (arc, mp.asin),
    "acos": (arc, mp.acos),
    "atan": (any_number, mp.atan),
    "atan2": (
        st.tuples(any_number, any_number).filter(lambda y_x: any(map(float, y_x))).map(", ".join),
        mp.atan2,
    ),
    "exp2": (small, lambda x: 2**x),
    "log1p": (_decimals(0, 1_000), mp.log1p),
    "expm1": (small, mp.expm1),
    "frac": (any_number, lambda x: mp.sign(x) * mp.frac(abs(x))),
    "gamma": (halves, mp.gamma),
    "binomial": (choices, lambda n, k: math.comb(int(n), int(k))),
    "perm": (choices, lambda n, k: math.perm(int(n), int(k))),
    "sinh": (small, mp.sinh),
    "cosh": (small, mp.cosh),
    "tanh": (small, mp.tanh),
    "^": (st.tuples(_decimals(0, 20), _decimals(0, 5)).map(", ".join), lambda x, y: x**y),
    "^mod": (
        st.tuples(st.integers(2, 10**6), st.integers(200, 10**6), st.integers(1, 10**6)).map(
            lambda n: ", ".join(map(str, n))
        ),
        lambda base, exponent, modulus: pow(int(base), int(exponent), int(modulus)),
    ),
    "ln!": (st.integers(64, 10**6).map(str), lambda n: mp.loggamma(n + 1)),
    "degrees": (any_number, mp.degrees),
    "°": (any_number, mp.radians),
    "abs": (any_number, abs),
    "floor": (any_number, mp.floor),
    "ceil": (any_number, mp.ceil),
    "trunc": (any_number, lambda x: mp.sign(x) * mp.floor(abs(x))),
    "round": (any_number, mp.nint),
    "sign": (any_number, mp.sign),
    "gcd": (
        st.lists(whole, min_size=1, max_size=4).map(", ".join),
        lambda *n: math.gcd(*map(int, n)),
    ),
    "lcm": (
        st.lists(whole, min_size=1, max_size=3).map(", ".join),
        lambda *n: math.lcm(*map(int, n)),
    ),
    "min": (several, min),
    "max": (several, max),
    "sum": (several, lambda *x: mp.fsum(x)),
    "mean": (several, lambda *x: mp.fsum(x) / len(x)),
    "median": (several, lambda *x: statistics.median(x)),
    "stdev": (
        several,
        lambda *x: mp.sqrt(mp.fsum((a - mp.fsum(x) / len(x)) ** 2 for a in x) / (len(x) - 1)),
    ),
    "hypot": (several, lambda *x: mp.sqrt(mp.fsum(a * a for a in x))),
}
WRITTEN = {
    "sin°": "sin({}°)",
    "cos°": "cos({}°)",
    "tan°": "tan({}°)",
    "^": "({})^({})",
    "^mod": "{}^{} mod {}",  # of a power that is too long to write
    "ln!": "ln({}!)",
    "°": "({})°",
}


def call(name: str, arguments: list[str]) -> str:
    if name in WRITTEN:
        return WRITTEN[name].format(*arguments)
    return f"{name}({', '.join(arguments)})"


@pytest.mark.parametrize("name", [*FUNCTIONS, *DEFINITIONS])
@settings(max_examples=30)  # of each
@given(st.data(), st.sampled_from((0, 2, 8, 8, 15, 30)))
def test_the_program_of_a_function_gives_the_value_rounded_once(
    name: str, data: st.DataObject, places: int
) -> None:
    drawn, value = CASES[name]
    arguments = data.draw(drawn).split(", ")
    right = value(*map(mp.mpf, arguments))
    tie = mp.frac(abs(right) * mp.mpf(10) ** places) - mp.mpf("0.5")
    if abs(tie) > mp.mpf(10) ** -50:  # mpmath's `nint` may go either way at a tie
        assert result(call(name, arguments), places) == rounded(right, places)


def _with_functions() -> st.SearchStrategy[tuple[str, Any]]:
    """Expressions with functions that have a value, and the value by mpmath."""
    one = _decimals(-20, 20).map(lambda text: (f"({text})", mp.mpf(text)))
    constants = st.sampled_from([("pi", +mp.pi), ("e", +mp.e), ("phi", +mp.phi)])
    functions: list[tuple[str, Callable[[Any], Any]]] = [
        *(("sin({})", mp.sin), ("cos({})", mp.cos), ("atan({})", mp.atan), ("tanh({})", mp.tanh)),
        *(("sqrt|{}|", lambda x: mp.sqrt(abs(x))), ("ln(1+|{}|)", lambda x: mp.ln(1 + abs(x)))),
        ("exp(sin({}))", lambda x: mp.exp(mp.sin(x))),
        ("(1+|{}|)^0.3", lambda x: (1 + abs(x)) ** mp.mpf("0.3")),
        ("(1/(1+|{}|))", lambda x: 1 / (1 + abs(x))),
    ]
    operations: list[tuple[str, Callable[[Any, Any], Any]]] = [
        *(("({}+{})", lambda a, b: a + b), ("({}-{})", lambda a, b: a - b)),
        *(("({}*{})", lambda a, b: a * b), ("hypot({}, {})", mp.hypot)),
    ]

    def larger(parts: st.SearchStrategy[tuple[str, Any]]) -> st.SearchStrategy[tuple[str, Any]]:
        unary = st.builds(
            lambda f, x: (f[0].format(x[0]), f[1](x[1])), st.sampled_from(functions), parts
        )
        binary = st.builds(
            lambda f, a, b: (f[0].format(a[0], b[0]), f[1](a[1], b[1])),
            *(st.sampled_from(operations), parts, parts),
        )
        return unary | binary

    return st.recursive(one | constants, larger, max_leaves=5)


@given(_with_functions(), st.sampled_from((0, 2, 8, 8, 12)))
def test_an_expression_with_functions_is_rounded_once(drawn: tuple[str, Any], places: int) -> None:
    text, right = drawn
    tie = mp.frac(abs(right) * mp.mpf(10) ** places) - mp.mpf("0.5")
    if abs(tie) > mp.mpf(10) ** -50:
        assert result(text, places) == rounded(right, places)


@pytest.mark.parametrize(
    ("name", "spelling"), [(n, spelling) for n in SPELLINGS for spelling in SPELLINGS[n]]
)
def test_every_spelling_is_read_with_its_place(name: str, spelling: str) -> None:
    needs_two = name == "mod" or (name in FUNCTIONS and FUNCTIONS[name].least == 2)
    text = f"{spelling}({'6, 3' if needs_two else '6'})"
    for part in postorder(parse(text).expression):
        assert 0 <= part.start <= part.end <= len(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("sin(0°)", "0"), ("sin(30°)", "0.5"), ("sin(150°)", "0.5"), ("sin(270°)", "-1")),
        *(("cos(0°)", "1"), ("cos(60°)", "0.5"), ("cos(-120°)", "-0.5"), ("cos(720°)", "1")),
        *(("tan(0°)", "0"), ("tan(45°)", "1"), ("tan(135°)", "-1"), ("tan(180°)", "0")),
        *((f"sqrt({n * n})", str(n)) for n in (0, 1, 2, 9, 10, 99, 12_345, 10**15)),
        *((f"cbrt({n**3})", str(n)) for n in (-7, 0, 1, 2, 10, 99)),
        *((f"log({10**n})", str(n)) for n in (0, 1, 5, 20)),
        *((f"log2({2**n})", str(n)) for n in (0, 1, 10, 64)),
        *(("ln(1)", "0"), ("exp(0)", "1"), ("ln(e)", "1"), ("2^-0.5", "0.70710678")),
        *(("sin(pi)", "0"), ("cos(pi)", "-1"), ("sin(pi/6)", "0.5"), ("tan(1.57)", "1255.7655915")),
        *(("asin(1)", "1.57079633"), ("acos(-1)", "3.14159265"), ("acos(1)", "0")),
        *(("ln(1.00000001)", "0.00000001"), ("ln(10^-30)", "-69.07755279"), ("exp(-60)", "0")),
        *(("exp(20)", "485165195.40979028"), ("exp(50)", "5184705528587072464087.45332293")),
        *(("sin(10^20)", "-0.64525129"), ("tanh(50)", "1"), ("0^0.5", "0"), ("sqrt(2)^2", "2")),
        *(("atan2(0,-1)", "3.14159265"), ("atan2(-1,0)", "-1.57079633"), ("atan2(0,2)", "0")),
        *(("gamma(1)", "1"), ("gamma(0.5)", "1.77245385"), ("gamma(-0.5)", "-3.5449077")),
        *(("expm1(10^-20)*10^20", "1"), ("log1p(10^-20)*10^20", "1"), ("frac(-2.75)", "-0.75")),
        *(("gcd(0, 0)", "0"), ("round(2.5)", "2"), ("round(3.5)", "4"), ("floor(sqrt(4))", "2")),
        *(("exp(100)", "26881171418161354484126255515800135873611118.77374192"), ("e^0", "1")),
        *(("tanh(100)", "1"), ("tanh(400)", "1"), ("1/(1+tanh(400))", "0.5")),
        *(("exp(-10^9)", "0"), ("(1/3)^(10^8)", "0"), ("sign(exp(-10^9))", "1")),
        *(("cosh(60)", "57100369490784214183147859.15723828"), ("ln(50!)", "148.47776695")),
        *(("10^25.5", "31622776601683793319988935.44432719"), ("log2(512!)", "3875.16612194")),
        *(("ln(1000000!)", "12815518.38465817"), ("ln(3^5000)", "5493.06144334")),
        *(("(1-cos(exp(-100)))*exp(200)", "0.5"), ("(1-cos(10^-41))*10^50*10^32", "0.5")),
        *(("tan(90° - 2.3*10^-15)", "434782608695652.17391304"), ("1-cos(10^-41)", "0")),
    ],
)  # fmt: skip
def test_special_points(text: str, value: str) -> None:
    assert result(text) == value


def test_every_operation_of_a_function_says_which_row_it_belongs_to() -> None:
    steps = plan("1+tan(1)").steps
    assert steps[-1].path == ()
    rows = {step.path for step in steps[:-1]}
    assert ("result = sin(x)/cos(x)",) in rows
    assert ("result = sin(x)/cos(x)", "2. t = t*w/c") in rows


def test_a_model_without_worked_steps_has_no_functions() -> None:
    with pytest.raises(ExpressionError, match="worked steps"):
        make_plan(parse("sqrt(2)").expression, 2, DirectLimits())
