"""What translated modules take for granted: integers, fractions, equality and keys as in Python."""

import operator
from fractions import Fraction
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tools.node import in_node

# Evaluates what is asked: an operator and two values, or whether values are equal as keys.
EVALUATE = """async (asked) => {
    const py = await import("/static/engine/python.js");
    const { Fraction } = await import("/static/engine/fractions.js");
    const read = (value) => {
        if (typeof value === "string") return value;
        const [kind, ...parts] = value;
        if (kind === "int") return py.int(parts[0]);
        if (kind === "big") return BigInt(parts[0]);
        if (kind === "fraction") return new Fraction(BigInt(parts[0]), BigInt(parts[1]));
        return kind === "tuple" ? parts.map(read) : py.frozenset(parts.map(read));
    };
    const write = (value) => value.n === undefined ? String(value) : `${value.n}/${value.d}`;
    return asked.map(([name, a, b]) => {
        try {
            const [x, y] = [read(a), read(b)];
            if (name === "key") return [py.dict([[x, 1]]).has(y), py.eq(x, y)];
            return write(py[name](x, y));
        } catch (error) {
            if (error instanceof py.ZeroDivisionError) return "ZeroDivisionError";
            throw error;
        }
    });
}"""
OPERATORS = ("add", "sub", "mul", "floordiv", "mod", "lt", "le", "gt", "ge", "eq")
EDGES = [
    sign * (2**bits + near)
    for bits in (0, 31, 52, 53, 64)
    for near in (-1, 0, 1)
    for sign in (1, -1)
]
INTEGERS = st.sampled_from([*EDGES, 80_000_000_000]) | st.integers() | st.integers(-9, 9)
FRACTIONS = st.fractions()
KEYS = st.recursive(
    INTEGERS
    | FRACTIONS
    | st.sampled_from(["", "1", "n1", "\0(1)", "(1)", "#1", "@1", "1/2", "null"]),
    lambda parts: st.lists(parts, max_size=3).map(tuple) | st.frozensets(parts, max_size=3),
    max_leaves=8,
)


def written(value: Any, is_big: bool = False) -> Any:
    """Returns a value in JSON. An integer may be a BigInt that need not be one."""
    match value:
        case int():
            return ["big" if is_big else "int", str(value)]
        case Fraction():
            return ["fraction", str(value.numerator), str(value.denominator)]
        case str():
            return value
    return [type(value).__name__, *map(written, value)]


def result(name: str, a: Any, b: Any) -> str:
    try:
        found = getattr(operator, name)(a, b)
    except ZeroDivisionError:
        return "ZeroDivisionError"
    if isinstance(found, Fraction):
        return f"{found.numerator}/{found.denominator}"
    return str(found).lower()


@settings(max_examples=2, phases=[Phase.generate])
@given(
    st.lists(st.tuples(INTEGERS, INTEGERS, st.booleans(), FRACTIONS), min_size=200, max_size=200)
)
def test_numbers_are_calculated_and_compared_as_in_python(drawn: list[Any]) -> None:
    cases = [(name, a, b, is_big) for a, b, is_big, _ in drawn for name in OPERATORS]
    fractional = [name for name in OPERATORS if name not in ("floordiv", "mod")]
    cases += [
        (name, q, a, is_big) for a, _, is_big, q in drawn for name in [*fractional, "truediv"]
    ]
    asked = [(name, written(a, is_big), written(b)) for name, a, b, is_big in cases]
    expected = [result(name, a, b) for name, a, b, _ in cases]
    assert in_node(EVALUATE, asked) == expected


@settings(max_examples=2, phases=[Phase.generate])
@given(st.lists(st.tuples(KEYS, KEYS), min_size=200, max_size=200))
def test_what_is_equal_and_nothing_else_has_one_key(drawn: list[Any]) -> None:
    pairs = [*drawn, *((a, a) for a, _ in drawn), (2**53, 80_000_000_000)]
    asked = [("key", written(a), written(b)) for a, b in pairs]
    expected = [[a == b, a == b] for a, b in pairs]
    assert in_node(EVALUATE, asked) == expected
