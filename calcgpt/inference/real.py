"""Real numbers, and what can be decided about them: sign, order, rounding.

A number is a fraction, or an operation on numbers. Of the latter, python-flint encloses the value
in a ball, to any precision (Johansson 2017, Arb). Two numbers are different if their balls are.
They are equal by a theorem, never because they are near:
- by their closed forms (`calcgpt.inference.closed_form`),
- if they are algebraic, by a bound of how near to 0 such a number can be without being 0.
If neither decides by MAX_BITS, the question is undecided.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from calcgpt.inference import closed_form
from calcgpt.inference.closed_form import Form, TooLargeError
from calcgpt.inference.effort import spend
from calcgpt.inference.separation import separation

if TYPE_CHECKING:
    from flint import arb

MAX_BITS = 2**15  # of enclosures
DECIDED_DIGITS = int(MAX_BITS * math.log10(2))  # beyond which a question is undecided
MAX_EXACT_BITS = 2**17  # of a fraction, numerator or denominator
_FIRST_BITS = 128
_MAX_FORM_BITS, _MAX_DEPTH = 4_000, 50  # of a fraction, and of a number, that has a form
_MAX_ROOT = 1_000  # the degree of a root that is not worked out as a power of e
_SIMPLE, _SIMPLE_DIGITS = 10**15, 60  # denominator of a simple fraction; digits to guess it by

_precision = threading.Lock()  # flint has one precision for all threads


class UndecidedError(ArithmeticError):
    """No theorem says whether a number is 0, and no enclosure shows that it is not."""


class Real:
    """A real number. `exact` is its value if that is known to be a fraction."""

    exact: Fraction | None = None
    operation = ""
    operands: tuple[Real, ...] = ()
    exponent = Fraction(1)  # of a power
    depth = 0  # of functions, roots and quotients in each other
    bits = 0  # with which `ball` was worked out
    ball: arb

    @cached_property
    def form(self) -> Form | None:
        """The closed form, or None if there is none of a moderate size."""
        if self.depth > _MAX_DEPTH:
            return None
        with suppress(TooLargeError):
            if self.exact is not None:
                is_short = _n_bits(self.exact) <= _MAX_FORM_BITS
                return closed_form.rational(self.exact) if is_short else None
            forms = [operand.form for operand in self.operands]
            if all(form is not None for form in forms):
                if self.operation == "^":
                    return closed_form.power(*forms, self.exponent)  # type: ignore[call-arg,arg-type]
                return _FORMS[self.operation](*forms)
        return None

    def __add__(self, other: Real) -> Real:
        if both := _fractions(self, other):
            return fraction(both[0] + both[1])
        return _operation("+", self, other)

    def __sub__(self, other: Real) -> Real:
        return self + -other

    def __neg__(self) -> Real:
        return fraction(Fraction(-1)) * self if self.exact is None else fraction(-self.exact)

    def __mul__(self, other: Real) -> Real:
        if both := _fractions(self, other):
            return fraction(both[0] * both[1])
        return _operation("*", self, other)

    def __truediv__(self, other: Real) -> Real:
        """Raises ZeroDivisionError, and UndecidedError if the divisor may be 0."""
        if not other.sign():
            raise ZeroDivisionError
        if both := _fractions(self, other):
            return fraction(both[0] / both[1])
        return _operation("/", self, other)

    def enclose(self, bits: int) -> arb:
        """Returns a ball with the value, worked out with so many binary digits. It may be wider
        than they say, or not finite."""
        from flint import ctx

        with _precision, ctx.workprec(bits):
            for real in parts(self, lambda real: real.bits >= bits):
                slow = real.operation not in ("", "+", "*", "/")
                spend(1 + (bits // 400) ** (2 if slow else 1))
                real.ball, real.bits = _ball(real), bits
        return self.ball

    def sign(self) -> int:
        """Returns -1, 0 or 1. Raises UndecidedError."""
        bits, distance = _FIRST_BITS, None
        while self.exact is None:
            if bits > MAX_BITS:
                raise UndecidedError
            ball = self.enclose(bits)
            if ball > 0 or ball < 0:
                return 1 if ball > 0 else -1
            if bits == _FIRST_BITS:
                distance = separation(parts(self))
            if distance and ball.is_finite() and ball.abs_upper() < distance:
                self.exact = Fraction(0)
            bits *= 2
        return (self.exact > 0) - (self.exact < 0)

    def compare(self, value: Fraction | int) -> int:
        """Returns the sign of this number minus a fraction. Raises UndecidedError."""
        order = (self - fraction(Fraction(value))).sign()
        if not order:
            self.exact = Fraction(value)
        return order

    def floor(self) -> int:
        """Returns the number rounded down. Raises UndecidedError, and OverflowError if it has more
        than MAX_EXACT_BITS."""
        if self.exact is not None:
            return math.floor(self.exact)
        nearest = self._nearest()
        return nearest - (self.compare(nearest) < 0)

    def rounded(self, places: int) -> Fraction:
        """Returns the number rounded to decimal places, which may be negative; ties to even. Raises
        what `floor` raises."""
        scale = Fraction(10) ** places
        if self.exact is not None:
            return round(self.exact * scale) / scale
        halves = (self * fraction(2 * scale))._nearest()
        if halves % 2 and (order := self.compare(halves / (2 * scale))):
            halves += order
        return round(Fraction(halves, 2)) / scale

    def _nearest(self) -> int:
        """Returns a whole number that is less than 1 from this number."""
        if self.exact is not None:
            return round(self.exact)
        for near in self._approximations():
            if near.rad() < 0.25:
                return round(_middle(near))
        raise UndecidedError

    def _approximations(self, bits: int = _FIRST_BITS) -> Iterator[arb]:
        """Yields balls that are smaller and smaller."""
        while bits <= MAX_BITS:
            ball = self.enclose(bits)
            if ball.is_finite():
                if _log2(ball) > MAX_EXACT_BITS:
                    raise OverflowError
                yield ball
            bits *= 2

    def approximate(self, digits: int = 40) -> Fraction:
        """Returns the number, or one that is near it, to so many digits unless it is nearly 0. It
        decides nothing. Raises OverflowError if it has more than MAX_EXACT_BITS."""
        if self.exact is not None:
            return self.exact
        wanted = int(digits / math.log10(2)) + 8
        near = None
        for ball in self._approximations(wanted + 32):
            near = _middle(ball)
            if ball.rel_accuracy_bits() >= wanted or ball.rad() < 2.0**-1000:
                break
        if near is None:
            raise OverflowError
        return near

    def size(self) -> float:
        """Returns the decimal logarithm of the magnitude, about: -inf for 0 and what may be 0, inf
        if it is not known. It decides nothing."""
        if self.exact is not None:
            n, d = self.exact.as_integer_ratio()
            return (n.bit_length() - d.bit_length()) * math.log10(2) if n else -math.inf
        bits = 2 * _FIRST_BITS
        while not ((ball := self.enclose(bits)) > 0 or ball < 0):
            bits *= 2
            if bits > MAX_BITS:
                return -math.inf if ball.is_finite() else math.inf
        return _log2(ball) * math.log10(2)

    def settle(self) -> Real:
        """Returns this number, as a fraction if it is shown to be a simple one."""
        if self.exact is None:
            with suppress(UndecidedError, OverflowError):
                near = self.approximate(2 * _SIMPLE_DIGITS)
                simple = near.limit_denominator(_SIMPLE)
                if abs(simple - near) < Fraction(1, 10**_SIMPLE_DIGITS):
                    self.compare(simple)
        return self


def fraction(value: Fraction) -> Real:
    """Returns a fraction as a real number."""
    spend(1 + (_n_bits(value) // 2_000) ** 2)
    real = Real()
    real.exact = value
    return real


def _fractions(a: Real, b: Real) -> tuple[Fraction, Fraction] | None:
    """Returns both numbers if they are fractions that are short enough to calculate with."""
    if a.exact is None or b.exact is None:
        return None
    is_short = _n_bits(a.exact) + _n_bits(b.exact) <= MAX_EXACT_BITS
    return (a.exact, b.exact) if is_short else None


def pi() -> Real:
    return _operation("pi")


def power(base: Real, exponent: Fraction) -> Real:
    """Returns a power. The base is not 0 if the exponent is negative; a negative base needs an
    exponent with an odd denominator, and gives the real power. Raises UndecidedError."""
    n, d = exponent.as_integer_ratio()
    if d > 1 and base.sign() < 0:
        result = power(-base, exponent)
        return -result if n % 2 else result
    if base.exact is not None and (root := _exact_root(base.exact, d)) is not None:
        if _n_bits(root) <= 1:
            return fraction(root ** (n % 2 + 2))
        if _n_bits(root) * abs(n) <= MAX_EXACT_BITS:
            return fraction(root**n)
    return _operation("^", base, exponent=exponent)


def factorial(n: int) -> Real:
    """Returns n!, for n that is not negative."""
    if n <= 10_000:
        return fraction(Fraction(math.factorial(n)))
    return _operation("!", fraction(Fraction(n)))


def exp(x: Real) -> Real:
    return _operation("exp", x)


def ln(x: Real) -> Real:
    """x must be positive."""
    return _operation("ln", x)


def sin(x: Real) -> Real:
    return _odd("sin", x)


def cos(x: Real) -> Real:
    return _operation("cos", -x if _is_below_0(x) else x)


def asin(x: Real) -> Real:
    """x must be from -1 to 1."""
    return _odd("asin", x)


def atan(x: Real) -> Real:
    return _odd("atan", x)


def is_whole(real: Real) -> bool:
    """Whether a number is known to be whole."""
    return real.exact is not None and real.exact.denominator == 1


def _odd(name: str, x: Real) -> Real:
    return -_operation(name, -x) if _is_below_0(x) else _operation(name, x)


def _is_below_0(x: Real) -> bool:
    """Whether a number is seen to be negative."""
    return x.exact < 0 if x.exact is not None else x.enclose(_FIRST_BITS) < 0


def _operation(name: str, *operands: Real, exponent: Fraction = Fraction(1)) -> Real:
    """Returns an operation on numbers, or a fraction if its form is one."""
    spend(20)
    real = Real()
    real.operation, real.operands, real.exponent = name, operands, exponent
    real.depth = max((x.depth for x in operands), default=0) + (name not in ("+", "*"))
    real.exact = real.form.rational if real.form else None
    return real


_FORMS: dict[str, Callable[..., Form]] = {
    "pi": lambda: closed_form.PI,
    "+": closed_form.add,
    "*": closed_form.multiply,
    "/": lambda a, b: closed_form.multiply(a, closed_form.inverse(b)),
    "exp": closed_form.exp,
    "ln": closed_form.ln,
    "sin": closed_form.sin,
    "cos": closed_form.cos,
    "asin": closed_form.asin,
    "atan": closed_form.atan,
    "!": lambda n: closed_form.atom("!", n),
}
_BALLS: dict[str, Callable[..., arb]] = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "exp": lambda x: x.exp(),
    "ln": lambda x: x.log(),
    "sin": lambda x: x.sin(),
    "cos": lambda x: x.cos(),
    "asin": lambda x: x.asin(),
    "atan": lambda x: x.atan(),
    "!": lambda n: (n + 1).gamma(),
}


def _ball(real: Real) -> arb:
    """Returns the ball of a number, from those of its operands."""
    from flint import arb, fmpq, fmpz

    if real.exact is not None:
        return arb(fmpq(real.exact.numerator, real.exact.denominator))
    if real.operation == "pi":
        return arb.pi()
    balls = [operand.ball for operand in real.operands]
    if real.operation != "^":
        return _BALLS[real.operation](*balls)
    n, d = real.exponent.as_integer_ratio()
    if d > _MAX_ROOT:
        return balls[0] ** arb(fmpq(n, d))
    return (balls[0].root(d) if d > 1 else balls[0]) ** fmpz(n)


def parts(real: Real, is_known: Callable[[Real], bool] = lambda _: False) -> list[Real]:
    """Returns the numbers that one is made of, operands first, without those that are known and
    what these are made of."""
    ordered, waiting, seen = [], [(real, False)], set()
    while waiting:
        part, is_complete = waiting.pop()
        if is_complete:
            ordered.append(part)
        elif id(part) not in seen and not is_known(part):
            seen.add(id(part))
            waiting.append((part, True))
            if part.exact is None:
                waiting.extend((operand, False) for operand in part.operands)
    return ordered


def _exact_root(value: Fraction, degree: int) -> Fraction | None:
    """Returns the root of a number that is not negative if it is a fraction, else None."""
    if degree == 1 or value in (0, 1):
        return value
    if degree > _n_bits(value):
        return None
    from flint import fmpz

    roots = [int(fmpz(number).root(degree)) for number in value.as_integer_ratio()]
    root = Fraction(*roots)
    return root if root**degree == value else None


def _middle(ball: arb) -> Fraction:
    """Returns the middle of a ball, or 0 if that is tiny."""
    if _log2(ball) < -MAX_EXACT_BITS:
        return Fraction(0)
    mantissa, exponent = ball.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def _log2(ball: arb) -> int:
    """Returns the exponent of the middle of a ball, which is rounded first, so that it is that of
    other balls with the same number: 0 for 0."""
    mantissa, exponent = map(int, ball.mid().man_exp())
    excess = max(0, mantissa.bit_length() - 64)
    return ((abs(mantissa) + (1 << excess >> 1)) >> excess).bit_length() + excess + exponent


def _n_bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())
