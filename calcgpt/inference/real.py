"""Values of functions, by mpmath: what the model's answers are checked against.

A value is a fraction. That of sqrt(2) is near the true one, to PLACES places. A value that comes
that near to a simple fraction is that fraction: sin(30°) is 1/2, log2(8) is 3.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from calcgpt.inference.spelling import MAX_FACTORIAL

PLACES = 150  # of a value that is not exact
LARGEST = 10**60  # of such a value
MAX_ROOT, MAX_POWER = 1_000, 100_000  # exponents of roots, and of e or another number
MAX_ROUND = 30  # places to which a number is rounded
_DIGITS = PLACES + 80  # of mpmath's numbers
_UNIT = 10**PLACES
_SIMPLE = 10**20  # denominator of a simple fraction
_NEAR, _NEAR_ZERO = Fraction(1, 10**80), Fraction(1, 10**130)


class Real(NamedTuple):
    """A value, and whether it is exact."""

    value: Fraction
    is_exact: bool = True


class DomainError(ArithmeticError):
    """A function has no value there. `args` are the key of the message and the index of the
    argument that is wrong, or -1 for the function as a whole."""


def near(value: Fraction) -> Real:
    """Returns a value that is known to PLACES places, or the simple fraction that it is near to.
    Raises DomainError if it is too large."""
    if abs(value) >= LARGEST:
        raise DomainError("large", -1)
    simple = value.limit_denominator(_SIMPLE)
    if abs(simple - value) < (_NEAR if simple else _NEAR_ZERO):
        return Real(simple)
    return Real(Fraction(round(value * _UNIT), _UNIT), is_exact=False)


@lru_cache
def constant(name: str) -> Real:
    """Returns pi, e, tau or phi."""
    from mpmath import mp

    with mp.workdps(_DIGITS):
        numbers = {"pi": mp.pi, "e": mp.e, "tau": 2 * mp.pi, "phi": mp.phi}
        return near(_fraction(+numbers[name]))


def call(name: str, arguments: Sequence[Fraction]) -> Real:
    """Returns the value of a function. Raises DomainError where it has none."""
    if name in _EXACT:
        return Real(Fraction(_EXACT[name](arguments)))
    _check(name, arguments)
    from mpmath import mp

    with mp.workdps(_DIGITS):
        numbers = [mp.mpf(a.numerator) / a.denominator for a in arguments]
        result = _REAL[name](mp, *numbers)
        if not mp.isfinite(result):
            raise DomainError("large", -1)
        return near(_fraction(result))


def _fraction(number: Any) -> Fraction:
    sign, mantissa, exponent, _ = number._mpf_
    return Fraction(int(-mantissa if sign else mantissa)) * Fraction(2) ** int(exponent)


def _check(name: str, arguments: Sequence[Fraction]) -> None:
    """Raises DomainError for arguments without a value, or so large that computing takes long."""
    x, last = arguments[0], arguments[-1]
    if name == "sqrt" and x < 0:
        raise DomainError("even-root", 0)
    if name == "root":
        if last.denominator != 1 or not 0 < last <= MAX_ROOT:
            raise DomainError("root", 1)
        if x < 0 and last % 2 == 0:
            raise DomainError("even-root", 0)
    if name in ("ln", "log", "log2"):
        for index, argument in enumerate(arguments):
            if argument <= 0 or (index and argument == 1):
                raise DomainError("logarithm" if argument <= 0 else "base", index)
    if name in ("asin", "acos") and abs(x) > 1:
        raise DomainError("arc", 0)
    if name == "^" and x < 0 and last.denominator != 1:
        raise DomainError("power", 0)
    if name == "^" and x == 0 and last < 0:
        raise DomainError("division", -1)
    is_half = x.denominator == 2 and x >= -MAX_FACTORIAL
    is_whole = x.denominator == 1 and x > 0
    if name == "gamma" and (not (is_half or is_whole) or x > MAX_FACTORIAL):
        raise DomainError("gamma", 0)
    if name == "atan2" and x == last == 0:
        raise DomainError("origin", -1)
    is_large = name in ("exp", "sinh", "cosh", "^") and abs(last) > MAX_POWER
    if is_large or max(map(abs, arguments)) >= LARGEST:
        raise DomainError("large", -1)


def _root(mp: Any, x: Any, n: Any) -> Any:
    return -mp.root(-x, int(n)) if x < 0 else mp.root(x, int(n))


def _tan(mp: Any, sine: Any, cosine: Any) -> Any:
    if abs(cosine) < mp.mpf(10) ** -PLACES:
        raise DomainError("tangent", -1)
    return sine / cosine


def _log(mp: Any, x: Any, base: Any = 10) -> Any:
    return mp.ln(x) / mp.ln(base)


def _stdev(mp: Any, *numbers: Any) -> Any:
    mean = mp.fsum(numbers) / len(numbers)
    return mp.sqrt(mp.fsum((number - mean) ** 2 for number in numbers) / (len(numbers) - 1))


def _degrees(mp: Any, x: Any) -> Any:
    return x * 180 / mp.pi


_REAL: dict[str, Callable[..., Any]] = {
    "sqrt": lambda mp, x: mp.sqrt(x),
    "cbrt": lambda mp, x: _root(mp, x, 3),
    "root": _root,
    "exp": lambda mp, x: mp.exp(x),
    "ln": lambda mp, x: mp.ln(x),
    "log": _log,
    "log2": lambda mp, x: _log(mp, x, 2),
    "sin": lambda mp, x: mp.sin(x),
    "cos": lambda mp, x: mp.cos(x),
    "tan": lambda mp, x: _tan(mp, mp.sin(x), mp.cos(x)),
    "sin°": lambda mp, x: mp.sin(x * mp.pi / 180),
    "cos°": lambda mp, x: mp.cos(x * mp.pi / 180),
    "tan°": lambda mp, x: _tan(mp, mp.sin(x * mp.pi / 180), mp.cos(x * mp.pi / 180)),
    "asin": lambda mp, x: mp.asin(x),
    "acos": lambda mp, x: mp.acos(x),
    "atan": lambda mp, x: mp.atan(x),
    "atan2": lambda mp, y, x: mp.atan2(y, x),
    "gamma": lambda mp, x: mp.gamma(x),
    "sinh": lambda mp, x: mp.sinh(x),
    "cosh": lambda mp, x: mp.cosh(x),
    "tanh": lambda mp, x: mp.tanh(x),
    "^": lambda mp, x, y: x**y,
    "degrees": _degrees,
    "°": lambda mp, x: x * mp.pi / 180,
    "stdev": _stdev,
    "hypot": lambda mp, *numbers: mp.sqrt(mp.fsum(number * number for number in numbers)),
}


def _round(arguments: Sequence[Fraction]) -> Fraction:
    places = arguments[1] if len(arguments) == 2 else Fraction(0)
    if places.denominator != 1 or abs(places) > MAX_ROUND:
        raise DomainError("round-places", 1)
    return Fraction(round(arguments[0], int(places)))


def _whole(function: Callable[..., int]) -> Callable[[Sequence[Fraction]], int]:
    def value(arguments: Sequence[Fraction]) -> int:
        for index, argument in enumerate(arguments):
            if argument.denominator != 1:
                raise DomainError("whole", index)
        return function(*map(int, arguments))

    return value


def _binomial(n: int, k: int) -> int:
    _check_choice(n, k, min(k, n - k))
    return math.comb(n, k)


def _perm(n: int, k: int) -> int:
    _check_choice(n, k, k)
    return math.perm(n, k)


def _check_choice(n: int, k: int, n_factors: int) -> None:
    if not 0 <= k <= n < LARGEST or n_factors > MAX_FACTORIAL:
        raise DomainError("binomial", -1)


_EXACT: dict[str, Callable[[Sequence[Fraction]], Fraction | int]] = {
    "abs": lambda a: abs(a[0]),
    "floor": lambda a: math.floor(a[0]),
    "ceil": lambda a: math.ceil(a[0]),
    "trunc": lambda a: math.trunc(a[0]),
    "round": _round,
    "sign": lambda a: (a[0] > 0) - (a[0] < 0),
    "binomial": _whole(_binomial),
    "perm": _whole(_perm),
    "gcd": _whole(math.gcd),
    "lcm": _whole(math.lcm),
    "min": min,
    "max": max,
    "sum": sum,
    "mean": statistics.mean,
    "median": statistics.median,
}
