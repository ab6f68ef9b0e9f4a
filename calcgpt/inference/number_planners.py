"""The kinds of planners, by what they do with numbers that are not decimals: `Rounding` rounds each
operation, and `Fractions` works out numerator and denominator.
"""

from fractions import Fraction

from calcgpt.inference.exact import equal, round_to, value_of_number
from calcgpt.inference.expression_tree import Expression
from calcgpt.inference.planners import Operand, Parts, Planner, right_answer
from calcgpt.inference.real import Real
from datagen.arithmetic import MAX_ASKED_PLACES, MAX_PLACES, Number
from datagen.operations import ADDITION, DIVISION, MULTIPLICATION, Operation


class Rounding(Planner[Operand]):
    """Rounds each operation to the places of the answer and some guard places."""

    def __init__(self, parts: Parts, places: int, guard_places: int) -> None:
        super().__init__(parts, places, places + guard_places)

    def number(self, value: Fraction) -> Operand:
        return Operand(Number(int(value)))

    def _typed(self, node: Expression) -> Operand:
        return Operand(node.number)

    def constant(self, value: Real, more_places: int = 3) -> Operand:
        places = min(MAX_PLACES, self.step_places + more_places)
        if value.exact is not None:
            number = round_to(value.exact, max(places, MAX_ASKED_PLACES))
            if value_of_number(number) == value.exact:
                return Operand(number)
        return Operand(round_to(value.rounded(places), places))

    def value(self, number: Operand) -> Fraction:
        return value_of_number(number.number)

    def is_zero(self, value: Real) -> bool:
        return 2 * abs(value.approximate()) < Fraction(1, 10**self.step_places)

    def rounded(self, a: Operand, places: int) -> Operand:
        if equal(a.number, round_to(value_of_number(a.number), places)):
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
        if not equal(number, self.parts.right) and (index is None or not is_last):
            return self.ask(value, ADDITION, Operand(Number(0)), self.places)
        return value


class Fractions(Planner[tuple[Operand, Operand | None]]):
    """Works out numerator and denominator as whole numbers, and divides once. A denominator of
    None is 1."""

    def __init__(self, parts: Parts, places: int) -> None:
        super().__init__(parts, places, places)

    def constant(self, value: Real, more_places: int = 3) -> tuple[Operand, Operand | None]:
        if value.exact is None:
            raise ArithmeticError
        return self.number(value.exact)

    def value(self, number: tuple[Operand, Operand | None]) -> Fraction:
        n, d = number
        return Fraction(n.number.units, d.number.units if d else 1)

    def is_zero(self, value: Real) -> bool:
        return not value.sign()

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
