"""The kinds of planners, by what they do with numbers that are not decimals: `Rounding` rounds each
operation, `Scaled` does so with more places than a number has, and `Fractions` works out numerator
and denominator.
"""

from fractions import Fraction

from calcgpt.inference.exact import equal, round_to
from calcgpt.inference.expression_tree import Expression
from calcgpt.inference.planners import Operand, Parts, Planner, right_answer
from datagen.arithmetic import MAX_ASKED_PLACES as MAX_PLACES
from datagen.arithmetic import Number
from datagen.operations import ADDITION, DIVISION, MULTIPLICATION, Operation


class Rounding(Planner[Operand]):
    """Rounds each operation to the places of the answer and some guard places."""

    def __init__(self, parts: Parts, places: int, guard_places: int) -> None:
        super().__init__(parts, places, places + guard_places)

    def number(self, value: Fraction) -> Operand:
        return Operand(Number(int(value)))

    def _typed(self, node: Expression) -> Operand:
        return Operand(node.number)

    def constant(self, value: Fraction, more_places: int = 3) -> Operand:
        number = round_to(value, MAX_PLACES)
        if _value(number) != value:
            number = round_to(value, min(MAX_PLACES, self.step_places + more_places))
        return Operand(number)

    def value(self, number: Operand) -> Fraction:
        return _value(number.number)

    def is_zero(self, value: Fraction) -> bool:
        return 2 * abs(value) < Fraction(1, 10**self.step_places)

    def rounded(self, a: Operand, places: int) -> Operand:
        if equal(a.number, round_to(_value(a.number), places)):
            return a
        return self.ask(a, ADDITION, Operand(Number(0)), places)

    def apply(self, op: Operation, a: Operand, b: Operand) -> Operand:
        return self.ask(a, op, b, self.step_places)

    def _nearest(self, a: Operand, b: Operand) -> tuple[Operand, int]:
        quotient = self.ask(a, DIVISION, b, 0)
        return quotient, quotient.number.units

    def _finish(self, value: Operand) -> Operand:
        number, index = value
        is_last = index == len(self.steps) - 1
        if is_last and self.steps[-1].places == self.places:
            return value
        if is_last and self.steps[-1].places == self.step_places:
            last = self.steps[-1] = self.steps[-1]._replace(places=self.places)
            return Operand(right_answer(last), index)
        right = round_to(self.parts.values[-1].value, self.places)
        if not equal(number, right) and (index is None or not is_last):
            return self.ask(value, ADDITION, Operand(Number(0)), self.places)
        return value


class Scaled(Planner[tuple[Operand, int]]):
    """Works with numbers times 10^scale, because no number has more than MAX_PLACES places. The
    power of ten of a number is 0 if it was typed or is known exactly."""

    def __init__(self, parts: Parts, places: int, scale: int) -> None:
        super().__init__(parts, places, MAX_PLACES)
        self._scale = scale

    def number(self, value: Fraction) -> tuple[Operand, int]:
        return Operand(Number(int(value))), 0

    def _typed(self, node: Expression) -> tuple[Operand, int]:
        return Operand(node.number), 0

    def constant(self, value: Fraction, more_places: int = 3) -> tuple[Operand, int]:
        number = round_to(value, MAX_PLACES)
        if _value(number) == value:
            return Operand(number), 0
        return Operand(round_to(value * 10**self._scale, MAX_PLACES)), self._scale

    def value(self, number: tuple[Operand, int]) -> Fraction:
        return _value(number[0].number) * Fraction(1, 10 ** number[1])

    def is_zero(self, value: Fraction) -> bool:
        return 2 * abs(value) < Fraction(1, 10 ** (MAX_PLACES + self._scale))

    def rounded(self, a: tuple[Operand, int], places: int) -> tuple[Operand, int]:
        return self._divided(a, places), 0

    def apply(
        self, op: Operation, a: tuple[Operand, int], b: tuple[Operand, int]
    ) -> tuple[Operand, int]:
        (x, x_scale), (y, y_scale) = a, b
        if op is MULTIPLICATION:
            scale = x_scale + y_scale
            product = self.ask(x, op, y, MAX_PLACES), scale
            return product if scale <= self._scale else (self._divided(product), self._scale)
        wanted = self._scale + y_scale if op is DIVISION else self._scale
        x = self._times(x, wanted - x_scale)
        y = y if op is DIVISION else self._times(y, wanted - y_scale)
        return self.ask(x, op, y, MAX_PLACES), self._scale

    def _times(self, a: Operand, zeros: int) -> Operand:
        """Returns a number times a power of ten. A constant is written so."""
        if not zeros:
            return a
        if a.step is None:
            return Operand(round_to(_value(a.number) * 10**zeros, MAX_PLACES))
        return self.ask(a, MULTIPLICATION, Operand(Number(10**zeros)), MAX_PLACES)

    def _divided(self, a: tuple[Operand, int], places: int = MAX_PLACES) -> Operand:
        """Returns a number divided by 10^scale, rounded."""
        number, scale = a
        if not scale and equal(number.number, round_to(_value(number.number), places)):
            return number
        if not scale:
            return self.ask(number, ADDITION, Operand(Number(0)), places)
        return self.ask(number, DIVISION, Operand(Number(10**self._scale)), places)

    def _nearest(
        self, a: tuple[Operand, int], b: tuple[Operand, int]
    ) -> tuple[tuple[Operand, int], int]:
        scale = max(a[1], b[1])
        x, y = (self._times(operand, scale - own) for operand, own in (a, b))
        quotient = self.ask(x, DIVISION, y, 0)
        return (quotient, 0), quotient.number.units

    def _finish(self, value: tuple[Operand, int]) -> Operand:
        return self._divided(value, self.places)


class Fractions(Planner[tuple[Operand, Operand | None]]):
    """Works out numerator and denominator as whole numbers, and divides once. A denominator of
    None is 1."""

    def __init__(self, parts: Parts, places: int) -> None:
        super().__init__(parts, places, places)

    def constant(self, value: Fraction, more_places: int = 3) -> tuple[Operand, Operand | None]:
        return self.number(value)

    def value(self, number: tuple[Operand, Operand | None]) -> Fraction:
        n, d = number
        return Fraction(n.number.units, d.number.units if d else 1)

    def is_zero(self, value: Fraction) -> bool:
        return value == 0

    def rounded(
        self, a: tuple[Operand, Operand | None], places: int
    ) -> tuple[Operand, Operand | None]:
        raise ArithmeticError

    def number(self, value: Fraction) -> tuple[Operand, Operand | None]:
        numerator, denominator = value.as_integer_ratio()
        divisor = Operand(Number(denominator)) if denominator > 1 else None
        return Operand(Number(numerator)), divisor

    def apply(
        self, op: Operation, a: tuple[Operand, Operand | None], b: tuple[Operand, Operand | None]
    ) -> tuple[Operand, Operand | None]:
        (n, d), (m, e) = a, b
        if op is MULTIPLICATION:
            return self._product(n, m), self._times(d, e)
        if op is DIVISION:
            return self._times(n, e) or n, self._times(m, d)
        if d == e:
            return self.ask(n, op, m, self.places), d
        left, right = self._times(n, e) or n, self._times(m, d) or m
        return self.ask(left, op, right, self.places), self._times(d, e)

    def _nearest(
        self, a: tuple[Operand, Operand | None], b: tuple[Operand, Operand | None]
    ) -> tuple[tuple[Operand, Operand | None], int]:
        n, d = self.apply(DIVISION, a, b)
        assert d
        quotient = self.ask(n, DIVISION, d, 0)
        return (quotient, None), quotient.number.units

    def _finish(self, value: tuple[Operand, Operand | None]) -> Operand:
        n, d = value
        return self.ask(n, DIVISION, d, self.places) if d else n

    def _product(self, a: Operand, b: Operand) -> Operand:
        return self.ask(a, MULTIPLICATION, b, self.places)

    def _times(self, a: Operand | None, b: Operand | None) -> Operand | None:
        return self._product(a, b) if a and b else a or b


def _value(number: Number) -> Fraction:
    return Fraction(number.units, 10**number.places)
