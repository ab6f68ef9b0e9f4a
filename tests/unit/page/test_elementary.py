"""The page's balls contain the values of functions that Arb gives at three times the precision."""

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from flint import arb, ctx, fmpq, fmpz

from tools.node import in_node

BALLS = """async (asked) => {
    const elementary = await import("/static/engine/elementary.js");
    const balls = await import("/static/engine/ball.js");
    return asked.map(([name, [n, d], radius, k, bits]) => {
        const middle = balls.ofFraction({ n: BigInt(n), d: BigInt(d) }, bits);
        const x = radius === null ? middle : balls.widen(middle, 1n, BigInt(radius), bits);
        const value =
            name === "pi" ? elementary.pi(bits)
            : name === "factorial" ? elementary.factorial(BigInt(k), bits)
            : name === "root" ? elementary.root(x, BigInt(k), bits)
            : name === "power" ? balls.power(x, BigInt(k), bits)
            : elementary[name](x, bits);
        return value && Object.values(value).map(String);
    });
}"""
FUNCTIONS: dict[str, Callable[[Any, int], Any]] = {
    **{"exp": lambda x, _: x.exp(), "ln": lambda x, _: x.log()},
    **{"sin": lambda x, _: x.sin(), "cos": lambda x, _: x.cos()},
    **{"asin": lambda x, _: x.asin(), "atan": lambda x, _: x.atan()},
    **{"root": lambda x, k: x.root(k), "power": lambda x, k: x ** fmpz(k)},
    **{"factorial": lambda _, k: (arb(k) + 1).gamma(), "pi": lambda *_: arb.pi()},
}
PARAMETERS: dict[str, Callable[[random.Random], int]] = {
    "root": lambda draw: draw.choice((2, 3, 4, 16, 17, 100)),
    "power": lambda draw: draw.choice((2, -3, 100, -(10**6), 10**9)),
    "factorial": lambda draw: draw.randint(10_001, 10 ** draw.randint(5, 9)),
}
N_DRAWN = 300  # arguments of a function
LOST = 24  # bits that an exact argument of usual size may cost

Case = tuple[Fraction, int | None, int, int]  # a middle, the size of the radius, k, bits


def drawn(draw: random.Random) -> Fraction:
    """A random number of any size: short or long, or next to an integer."""
    digits = draw.choice((1, 3, 20, 50))
    number = Fraction(draw.randint(10 ** (digits - 1), 10**digits - 1), 10**digits)
    number *= Fraction(10) ** draw.choice((draw.randint(-300, 60), draw.randint(-3, 4)))
    if draw.random() < 0.2:
        number = draw.randint(1, 9) + number / 10 ** draw.randint(1, 60)
    if draw.random() < 0.2:
        number = Fraction(draw.randint(1, 20), draw.choice((1, 2, 4, 1_000_003)))
    return number * draw.choice((1, -1))


def argument(name: str, draw: random.Random) -> Fraction:
    """A random number for which a function has a value."""
    x = drawn(draw)
    if name == "exp":
        return x if abs(x) <= 10**15 else 1 / x
    if name == "asin":
        x = x if abs(x) <= 1 else 1 / x
        return draw.choice((x, x, 1 - abs(x) / 10**70))
    if name in ("sin", "cos") and draw.random() < 0.3:  # next to a multiple of pi/2
        with ctx.workprec(600):
            angle = arb.pi() / 2 * draw.randint(-(10 ** draw.randint(0, 39)), 10**40)
            return Fraction(int(angle.mid().unique_fmpz() or 0) or 1)
    return abs(x) if name in ("ln", "root", "power") else x


def case(name: str, draw: random.Random) -> Case:
    bits = draw.choice((64, 128, 256, 700, 1_000, 2_048))
    k = PARAMETERS[name](draw) if name in PARAMETERS else 0
    return argument(name, draw), draw.choice((None, None, -bits, -bits // 2, -20)), k, bits


def inside(x: Fraction, radius: int | None) -> list[Fraction]:
    """Returns numbers within a ball, its ends nearly among them."""
    if radius is None:
        return [x]
    most = Fraction(2) ** radius * Fraction(999, 1_000)
    return [x - most, x, x + most]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_balls_contain_the_values_of_functions(name: str) -> None:
    draw = random.Random(name)
    cases = [case(name, draw) for _ in range(N_DRAWN)]
    asked = [[name, list(map(str, x.as_integer_ratio())), *rest] for x, *rest in cases]
    n_sharp = 0
    for (x, radius, k, bits), found in zip(cases, in_node(BALLS, asked), strict=True):
        if found is None:  # nothing is known
            continue
        with ctx.workprec(3 * bits + 2_000):
            m, r, e = (fmpz(int(part)) for part in found)
            for point in inside(x, radius):
                if (point <= 0 and name in ("ln", "root")) or (abs(point) > 1 and name == "asin"):
                    continue
                value = FUNCTIONS[name](arb(fmpq(*point.as_integer_ratio())), k)
                distance = abs(value - arb(m) * arb(2) ** e)
                assert distance <= arb(r) * arb(2) ** e, (x, radius, k, bits)
        n_sharp += r.bit_length() <= max(LOST, m.bit_length() - bits + LOST)
    assert n_sharp > N_DRAWN // 4  # more than so many balls are small
