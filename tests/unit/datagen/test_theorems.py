"""The statements over all whole numbers that lead from one case to a whole line (docs/PROOF.md).

Z3 looks for a counterexample to each of the first ones and shows that there is none. P, a power of
ten, is the place of a column: any number above 0. The others are about what the program decides.
"""

from fractions import Fraction

import pytest
import z3
from exact_values import exact
from hypothesis import example, given
from hypothesis import strategies as st

from calcgpt.proof import THEOREMS
from datagen.arithmetic import Number, Problem
from datagen.layout import layout, require_shape
from datagen.notation import render_prompt
from datagen.operations import BY_SIGN
from datagen.slots import NOWHERE
from datagen.work import render

a, b, c, d, k, m, o, q, t, w = z3.Ints("a b c d k m o q t w")
c_after, k_after = z3.Ints("c_after k_after")
A, B, K, M, N, P, Q, R, S, T, V = z3.Ints("A B K M N P Q R S T V")
minus = z3.Or(d == 1, d == -1)  # a direction


def holds(*assumptions: z3.ExprRef, then: z3.ExprRef) -> None:
    solver = z3.Solver()
    solver.set("timeout", 60_000)
    solver.add(P > 0, *assumptions, z3.Not(then))
    assert solver.check() == z3.unsat


def product_row() -> None:
    """S are the digits so far, R what they should be, of the old row plus m times A."""
    column = t + 10 * c_after == o + m * a + c
    holds(S + c * P == R, column, then=S + t * P + c_after * 10 * P == R + (o + m * a) * P)


def remainder_row() -> None:
    column = t - d * 10 * c_after == o - d * (q * b + c)
    then = S + t * P - d * c_after * 10 * P == R + (o - d * q * b) * P
    holds(minus, S - d * c * P == R, column, then=then)


def sum_row() -> None:
    """R is A plus or minus B so far."""
    column = a + d * (b + c) == t + d * 10 * c_after
    holds(
        minus,
        S + d * c * P == R,
        column,
        then=S + t * P + d * c_after * 10 * P == R + (a + d * b) * P,
    )


def sum_sign() -> None:
    """Above the operands, a carry c alone decides the top digit t."""
    digits = [S >= 0, S < P, S + d * c * P == R, c >= 0, c <= 1, t == (d * c) % 10]
    holds(minus, *digits, t == 9, then=z3.And(R < 0, S + 9 * P - 10 * P == R))
    holds(minus, *digits, t != 9, then=z3.And(R >= 0, S + t * P == R))


def magnitude() -> None:
    """T are the digits of the sum so far, M those of its ten's complement."""
    before = [k >= 0, k <= 1, P * (1 - k) == M + T, z3.Implies(k == 1, T == 0), T >= 0]
    column = [t >= 0, t <= 9, m == (9 - t + k) % 10, k_after == z3.If(t == 0, k, 0)]
    after = z3.And(M + m * P + T + t * P == 10 * P * (1 - k_after))
    holds(*before, *column, then=z3.And(after, z3.Implies(k_after == 1, T + t * P == 0)))


def rounding() -> None:
    """N is K with a digit d and lower ones w after it."""
    dropped = 2 * d + z3.If(w > 0, 1, 0)
    up = z3.Or(dropped > 10, z3.And(dropped == 10, K % 2 == 1))
    distance = 2 * z3.If(up, K + 1, K) * 10 * P - 2 * N
    nearest = z3.And(distance <= 10 * P, distance >= -10 * P)
    even = z3.Implies(z3.Or(distance == 10 * P, distance == -10 * P), up == (K % 2 == 1))
    digits = [d >= 0, d <= 9, w >= 0, w < P, K * 10 * P + d * P + w == N]
    holds(*digits, then=z3.And(nearest, even))


def quotient_rounding() -> None:
    """Q is the quotient without its last signed digit t, and x what the remainder adds to that."""
    x, sign = z3.Real("x"), z3.Int("sign")
    dropped = 2 * t + sign
    away = z3.Or(dropped > 10, dropped < -10)
    away = z3.Or(away, z3.And(z3.Or(dropped == 10, dropped == -10), Q % 2 == 1))
    w = z3.If(away, z3.If(dropped > 0, 1, -1), 0)
    distance = 10 * z3.ToReal(w) - z3.ToReal(t) - x  # from the exact quotient, in units of t
    even = z3.Implies(z3.Or(distance == 5, distance == -5), (Q + w) % 2 == 0)
    digits = [t >= -9, t <= 9, x > -1, x < 1, sign == z3.If(x > 0, 1, z3.If(x < 0, -1, 0))]
    holds(*digits, then=z3.And(distance <= 5, distance >= -5, even))


def quotient_digit() -> None:
    """x and b are anywhere in their intervals, whose lower ends are X and D."""
    x, b, X, D = z3.Reals("x b X D")
    Q = z3.ToReal(q)
    inside = [D > 0, x >= X, x < X + 10, b >= D, b < D + 1]
    corners = [X + 10 - (Q + 1) * D <= 0, X + 10 - (Q + 1) * (D + 1) <= 0]
    corners += [X - (Q - 1) * D > 0, X - (Q - 1) * (D + 1) >= 0]
    for digit in range(-9, 10):  # linear for each
        holds(*inside, *corners, q == digit, then=z3.And(-b < x - Q * b, x - Q * b < b))


def leading_digits() -> None:
    """The next leading digits r are one of those that follow from the corners."""
    x, b = z3.Reals("x b")
    r, X, D = z3.Ints("r X D")
    inside = [D > 0, x >= X, x < X + 10, b >= D, b < D + 1, r == z3.ToInt(x - q * b)]
    for digit in range(-9, 10):
        ends = X - digit * D, X - digit * (D + 1)
        low, high = z3.If(ends[0] < ends[1], *ends), z3.If(ends[0] < ends[1], *ends[::-1])
        holds(*inside, q == digit, then=z3.And(low <= r, r <= high + 9))


def long_division() -> None:
    """V are the digits of A so far, Q the quotient, R the remainder."""
    column = [V == Q * B + R, 10 * R + a - q * B == T]
    holds(*column, then=10 * V + a == (10 * Q + q) * B + T)


def carried_digits() -> None:
    """The signed digits of a quotient, or the digits of a row that is rounded, with carries."""
    holds(S + c * P == R, t + 10 * c_after == d + c, then=S + t * P + 10 * c_after * P == R + d * P)


LEMMAS = [
    *(product_row, remainder_row, sum_row, sum_sign, magnitude, rounding, quotient_rounding),
    *(quotient_digit, leading_digits, long_division, carried_digits),
]


@pytest.mark.parametrize("lemma", LEMMAS, ids=lambda lemma: lemma.__name__)
def test_there_is_no_counterexample(lemma) -> None:
    lemma()


def test_z3_finds_a_counterexample_where_there_is_one() -> None:
    with pytest.raises(AssertionError):
        holds(S + c * P == R, then=S == R)


def number(units: int, places: int) -> Number:
    return Number.from_units(units, places, places > 0)


def value(prompt: str) -> Fraction | None:
    """Returns the number that the answer to a prompt writes, None for nan."""
    text = render([prompt.encode()])[0].decode().rpartition("=")[2].rstrip("$")[::-1]
    return None if "n" in text else Fraction(text.lstrip("0") or "0")


sizes = st.tuples(st.integers(1, 6), st.integers(0, 6))
extremes = sizes.flatmap(
    lambda size: st.sampled_from((10 ** (size[0] - 1), 10 ** size[0] - 1)).map(
        lambda units: (units, size[1])
    )
)


@given(extremes, st.sampled_from((0, 1, -1)), st.integers(0, 3))
def test_nan(a: tuple[int, int], b: int, b_places: int) -> None:
    """The answer is nan if and only if B is 0."""
    problem = Problem(number(*a), BY_SIGN["/"], number(b, b_places))
    assert (value(render_prompt(problem)) is None) == (b == 0)


@given(extremes, extremes, st.integers(0, 8), st.sampled_from("*/"))
@example((1, 0), (9, 3), 1, "*")
@example((9, 0), (1, 0), 0, "/")
def test_dropped(a: tuple[int, int], b: tuple[int, int], places: int, op: str) -> None:
    """Where there is no row, or no digit is kept or rounded, the answer is less than half of the
    last place. On the other side of the boundary the work has rows. Operands are the smallest and
    the largest of their shapes, so no other is beyond them."""
    problem = Problem(number(*a), BY_SIGN[op], number(*b), places)
    shape = require_shape(render_prompt(problem))
    if layout(shape).result:
        return
    assert abs(exact(problem)) * 2 < Fraction(1, 10**places)
    if op == "*":
        assert shape.a_places + shape.b_places - places > shape.a_digits + shape.b_digits
    else:
        rows = shape.a_digits - shape.a_places - shape.b_digits + shape.b_places + places + 3
        assert rows <= 1


@given(extremes, extremes, st.booleans(), st.booleans(), st.integers(0, 8), st.sampled_from("+-*/"))
def test_answer(a, b, a_negative, b_negative, places, op) -> None:
    """Zeros that are not copied change no value, a zero has no sign, and the point is between the
    places and the rest."""
    (a_units, a_places), (b_units, b_places) = a, b
    problem = Problem(
        number(-a_units if a_negative else a_units, a_places),
        BY_SIGN[op],
        number(-b_units if b_negative else b_units, b_places),
        places,
    )
    prompt = render_prompt(problem)
    plan, [line] = layout(require_shape(prompt)), render([prompt.encode()])
    assert plan.sign != NOWHERE
    digits = "".join(chr(line[position]) for position in reversed(plan.result)) or "0"
    negative = line[plan.sign] == ord("-")
    row = Fraction(int(digits), 10**plan.result_places) * (-1 if negative else 1)
    assert value(prompt) == row
    places = min(places, max(a_places, b_places)) if op in "+-" else places
    distance = abs(row - exact(problem))
    assert distance * 2 <= Fraction(1, 10**plan.result_places)
    text = line.decode().rpartition("=")[2]
    assert ("-" in text) == (row < 0)


def test_each_statement_has_its_test() -> None:
    names = [name for name, _ in THEOREMS]
    assert {lemma.__name__ for lemma in LEMMAS} <= set(names)
    assert all(name in globals() or f"test_{name}" in globals() for name in names)
