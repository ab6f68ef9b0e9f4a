"""Real numbers, and what can be decided about them: sign, order, rounding.

A number is a fraction, or an operation on numbers. Of the latter, a ball encloses the value, to any
precision (`calcgpt.inference.balls`). Two numbers are different if their balls are.
They are equal by a theorem, never because they are near:
- by their closed forms (`calcgpt.inference.closed_form`),
- if they are algebraic, by a bound of how near to 0 such a number can be without being 0.
If neither decides by MAX_BITS, the question is undecided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from functools import cached_property

from calcgpt.inference import balls, closed_form
from calcgpt.inference.balls import Ball
from calcgpt.inference.closed_form import Form, TooLargeError
from calcgpt.inference.effort import spend
from calcgpt.inference.separation import separation

MAX_BITS = 2**15  # of enclosures
DECIDED_DIGITS = int(MAX_BITS * math.log10(2))  # beyond which a question is undecided
MAX_EXACT_BITS = 2**17  # of a fraction, numerator or denominator
_FIRST_BITS = 128
_MAX_FORM_BITS, _MAX_DEPTH = 4_000, 50  # of a fraction, and of a number, that has a form
_SIMPLE, _SIMPLE_DIGITS = 10**15, 60  # denominator of a simple fraction; digits to guess it by


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
    ball: Ball

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
        return _operation("+", (self, other))

    def __sub__(self, other: Real) -> Real:
        return self + -other

    def __neg__(self) -> Real:
        return fraction(Fraction(-1)) * self if self.exact is None else fraction(-self.exact)

    def __mul__(self, other: Real) -> Real:
        if both := _fractions(self, other):
            return fraction(both[0] * both[1])
        return _operation("*", (self, other))

    def __truediv__(self, other: Real) -> Real:
        """Raises ZeroDivisionError, and UndecidedError if the divisor may be 0."""
        if not other.sign():
            raise ZeroDivisionError
        if both := _fractions(self, other):
            return fraction(both[0] / both[1])
        return _operation("/", (self, other))

    def enclose(self, bits: int) -> Ball:
        """Returns a ball with the value, worked out with so many binary digits. It may be wider
        than they say, or not finite."""
        for real in parts(self, lambda real: real.bits >= bits):
            spend(balls.cost("" if real.exact is not None else real.operation, bits))
            real.ball, real.bits = _ball(real, bits), bits
        return self.ball

    def sign(self) -> int:
        """Returns -1, 0 or 1. Raises UndecidedError."""
        bits, distance = _FIRST_BITS, None
        while self.exact is None:
            if bits > MAX_BITS:
                raise UndecidedError
            ball = self.enclose(bits)
            if sign := balls.sign(ball):
                return sign
            if bits == _FIRST_BITS:
                distance = separation(parts(self))
            if distance is not None and balls.is_finite(ball) and balls.is_below(ball, -distance):
                self.exact = Fraction(0)
            bits *= 2
        return (self.exact > 0) - (self.exact < 0)

    def compare(self, value: Fraction | int) -> int:
        """Returns the sign of this number minus a fraction. Raises UndecidedError."""
        if self.exact is not None:
            return (self.exact > value) - (self.exact < value)
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
            if balls.is_narrow(near, -2):
                return round(balls.middle(near))
        raise UndecidedError

    def _approximations(self, bits: int = _FIRST_BITS) -> Iterator[Ball]:
        """Yields balls that are smaller and smaller."""
        while bits <= MAX_BITS:
            ball = self.enclose(bits)
            if balls.is_finite(ball):
                if balls.logarithm(ball) > MAX_EXACT_BITS:
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
            near = balls.middle(ball)
            if balls.accuracy(ball) >= wanted or balls.is_narrow(ball, -1000):
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
        while not balls.sign(ball := self.enclose(bits)):
            bits *= 2
            if bits > MAX_BITS:
                return -math.inf if balls.is_finite(ball) else math.inf
        return balls.logarithm(ball) * math.log10(2)

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
    return _operation("pi", ())


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
    return _operation("^", (base,), exponent)


def factorial(n: int) -> Real:
    """Returns n!, for n that is not negative."""
    if n <= 10_000:
        return fraction(Fraction(math.factorial(n)))
    return _operation("!", (fraction(Fraction(n)),))


def exp(x: Real) -> Real:
    return _operation("exp", (x,))


def ln(x: Real) -> Real:
    """x must be positive."""
    return _operation("ln", (x,))


def sin(x: Real) -> Real:
    return _odd("sin", x)


def cos(x: Real) -> Real:
    return _operation("cos", (-x if _is_below_0(x) else x,))


def asin(x: Real) -> Real:
    """x must be from -1 to 1."""
    return _odd("asin", x)


def atan(x: Real) -> Real:
    return _odd("atan", x)


def is_whole(real: Real) -> bool:
    """Whether a number is known to be whole."""
    return real.exact is not None and real.exact.denominator == 1


def _odd(name: str, x: Real) -> Real:
    return -_operation(name, (-x,)) if _is_below_0(x) else _operation(name, (x,))


def _is_below_0(x: Real) -> bool:
    """Whether a number is seen to be negative."""
    return x.exact < 0 if x.exact is not None else balls.sign(x.enclose(_FIRST_BITS)) < 0


def _operation(name: str, operands: tuple[Real, ...], exponent: Fraction = Fraction(1)) -> Real:
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


def _ball(real: Real, bits: int) -> Ball:
    """Returns the ball of a number, from those of its operands."""
    if real.exact is not None:
        return balls.of_fraction(real.exact, bits)
    operands = [operand.ball for operand in real.operands]
    return balls.apply(real.operation, operands, real.exponent, bits)


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
    n, d = value.as_integer_ratio()
    root = Fraction(balls.integer_root(n, degree), balls.integer_root(d, degree))
    return root if root**degree == value else None


def _n_bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())
