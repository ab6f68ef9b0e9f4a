"""Values of functions as real numbers, which the model's answers are checked against."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cmp_to_key, reduce

from calcgpt.inference import real
from calcgpt.inference.real import MAX_EXACT_BITS, Real, fraction, is_whole
from calcgpt.inference.spelling import MAX_FACTORIAL

MAX_HALF = 5_000  # of a half of which there is the gamma function
MAX_ROOT = 1_000  # the degree of a root
MAX_ROUND = 30  # places to which a number is rounded
_HALF = Fraction(1, 2)


class DomainError(ArithmeticError):
    """A function has no value there. `args` are the key of the message and the index of the
    argument that is wrong, or -1 for the function as a whole."""


def constant(name: str) -> Real:
    """Returns pi, e, tau or phi."""
    return _CONSTANTS[name]()


def call(name: str, arguments: Sequence[Real]) -> Real:
    """Returns the value of a function. Raises DomainError where it has none, UndecidedError if that
    is not decided, and OverflowError for a whole number of more than MAX_EXACT_BITS."""
    return _VALUES[name](*arguments)


def _whole(value: int) -> Real:
    return fraction(Fraction(value))


def _sqrt(x: Real) -> Real:
    return _root(x, _whole(2))


def _root(x: Real, degree: Real) -> Real:
    if not is_whole(degree) or not 0 < (n := degree.floor()) <= MAX_ROOT:
        raise DomainError("root", 1)
    if n % 2 == 0 and x.sign() < 0:
        raise DomainError("even-root", 0)
    return real.power(x, Fraction(1, n))


def _ln(x: Real) -> Real:
    if x.sign() <= 0:
        raise DomainError("logarithm", 0)
    return real.ln(x)


def _log(x: Real, base: Real | None = None) -> Real:
    base = base or _whole(10)
    result = _ln(x)
    if base.sign() <= 0:
        raise DomainError("logarithm", 1)
    if not base.compare(1):
        raise DomainError("base", 1)
    return result / real.ln(base)


def power(x: Real, y: Real) -> Real:
    """Returns x^y. Raises what `call` raises."""
    if not x.sign():
        if y.sign() < 0:
            raise DomainError("division", -1)
        return _whole(0 if y.sign() else 1)
    if y.exact is not None and (y.exact.denominator == 1 or x.sign() > 0):
        return real.power(x, y.exact)
    if x.sign() < 0:
        raise DomainError("power", 0)
    return real.exp(y * real.ln(x))


def _tan(x: Real) -> Real:
    try:
        return real.sin(x) / real.cos(x)
    except ZeroDivisionError:
        raise DomainError("tangent", -1) from None


def _in_degrees(function: Callable[[Real], Real]) -> Callable[[Real], Real]:
    return lambda x: function(_radians(x))


def _radians(x: Real) -> Real:
    return x * fraction(Fraction(1, 180)) * real.pi()


def _asin(x: Real) -> Real:
    if x.compare(1) > 0 or x.compare(-1) < 0:
        raise DomainError("arc", 0)
    return real.asin(x)


def _hyperbolic(sign: int) -> Callable[[Real], Real]:
    return lambda x: (real.exp(x) + _whole(sign) * real.exp(-x)) * fraction(_HALF)


def _sum(*numbers: Real) -> Real:
    return reduce(lambda a, b: a + b, numbers)


def _mean(*numbers: Real) -> Real:
    return _sum(*numbers) * fraction(Fraction(1, len(numbers)))


def _hypot(*numbers: Real) -> Real:
    return _sqrt(_sum(*(x * x for x in numbers)))


def _stdev(*numbers: Real) -> Real:
    mean, n = _mean(*numbers), len(numbers)
    squares = [(x - mean) * (x - mean) for x in numbers]
    return _sqrt(_sum(*squares) * fraction(Fraction(1, n - 1)))


def _order(a: Real, b: Real) -> int:
    return (a - b).sign()


def _median(*numbers: Real) -> Real:
    ordered = sorted(numbers, key=cmp_to_key(_order))
    return _mean(ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2])


def _round(x: Real, places: Real | None = None) -> Real:
    places = places or _whole(0)
    if not is_whole(places) or abs(places.floor()) > MAX_ROUND:
        raise DomainError("round-places", 1)
    return fraction(x.rounded(places.floor()))


def _atan2(y: Real, x: Real) -> Real:
    """Returns the angle of the point (x, y)."""
    if not x.sign():
        if not y.sign():
            raise DomainError("origin", -1)
        return real.pi() * fraction(_HALF * y.sign())
    angle = real.atan(y / x)
    if x.sign() > 0:
        return angle
    return angle - real.pi() if y.sign() < 0 else angle + real.pi()


def _gamma(x: Real) -> Real:
    if is_whole(x) and 0 < x.floor() <= MAX_FACTORIAL:
        return real.factorial(x.floor() - 1)
    if x.exact is None or x.exact.denominator != 2 or abs(x.exact) > MAX_HALF:
        raise DomainError("gamma", 0)
    n, factor = abs(math.floor(x.exact)), Fraction(1)  # of gamma(1/2), the root of pi
    for k in range(1, 2 * n, 2):
        factor *= Fraction(k, 2)
    if x.exact < 0:
        factor = Fraction((-1) ** n) / factor
    return fraction(factor) * real.power(real.pi(), _HALF)


def _choice(function: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """Returns a function of n and of k chosen of them."""

    def value(n: int, k: int) -> int:
        n_factors = min(k, n - k) if function is math.comb else k
        if not 0 <= k <= n or n_factors * n.bit_length() > MAX_EXACT_BITS:
            raise DomainError("binomial", -1)
        return function(n, k)

    return value


def _of_whole(function: Callable[..., int]) -> Callable[..., Real]:
    def value(*numbers: Real) -> Real:
        for index, x in enumerate(numbers):
            if not is_whole(x):
                raise DomainError("whole", index)
        return _whole(function(*(x.floor() for x in numbers)))

    return value


_CONSTANTS: dict[str, Callable[[], Real]] = {
    "pi": real.pi,
    "e": lambda: real.exp(_whole(1)),
    "tau": lambda: _whole(2) * real.pi(),
    "phi": lambda: (_whole(1) + _sqrt(_whole(5))) * fraction(_HALF),
}
_VALUES: dict[str, Callable[..., Real]] = {
    "sqrt": _sqrt,
    "cbrt": lambda x: _root(x, _whole(3)),
    "root": _root,
    "exp": real.exp,
    "ln": _ln,
    "log": _log,
    "log2": lambda x: _log(x, _whole(2)),
    "sin": real.sin,
    "cos": real.cos,
    "tan": _tan,
    "sin°": _in_degrees(real.sin),
    "cos°": _in_degrees(real.cos),
    "tan°": _in_degrees(_tan),
    "asin": _asin,
    "acos": lambda x: fraction(_HALF) * real.pi() - _asin(x),
    "atan": real.atan,
    "sinh": _hyperbolic(-1),
    "cosh": _hyperbolic(1),
    "tanh": lambda x: _hyperbolic(-1)(x) / _hyperbolic(1)(x),
    "^": power,
    "^mod": _of_whole(pow),
    "ln!": lambda x: real.ln(real.factorial(x.floor())),
    "degrees": lambda x: x * _whole(180) / real.pi(),
    "°": _radians,
    "stdev": _stdev,
    "hypot": _hypot,
    "abs": lambda x: -x if x.sign() < 0 else x,
    "floor": lambda x: _whole(x.floor()),
    "ceil": lambda x: _whole(-(-x).floor()),
    "trunc": lambda x: _whole(x.floor() if x.sign() >= 0 else -(-x).floor()),
    "round": _round,
    "sign": lambda x: _whole(x.sign()),
    "atan2": _atan2,
    "gamma": _gamma,
    "binomial": _of_whole(_choice(math.comb)),
    "perm": _of_whole(_choice(math.perm)),
    "gcd": _of_whole(math.gcd),
    "lcm": _of_whole(math.lcm),
    "min": lambda *numbers: reduce(lambda a, b: b if _order(b, a) < 0 else a, numbers),
    "max": lambda *numbers: reduce(lambda a, b: b if _order(b, a) > 0 else a, numbers),
    "sum": _sum,
    "mean": _mean,
    "median": _median,
}
