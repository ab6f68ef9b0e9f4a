"""Planners: they make operations of an expression, each for the model, and the value by them.

A planner calculates with exact arithmetic what the model should answer. `Rounding` rounds each
operation, and `Fractions` works out numerator and denominator.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Generic, NamedTuple, TypeVar

from calcgpt.errors import ExpressionError, ExpressionErrorKind
from calcgpt.inference.effort import EffortError, spend
from calcgpt.inference.exact import equal, round_to, value_of_number
from calcgpt.inference.expression_stack import Reading
from calcgpt.inference.expression_tree import Expression
from calcgpt.inference.functions import CONSTANTS, FUNCTIONS
from calcgpt.inference.programs import Term, run
from calcgpt.inference.real import Real, fraction, is_whole
from calcgpt.inference.spelling import MAX_DIGITS, MAX_OPERATIONS, MAX_READINGS, MESSAGES, READINGS
from datagen.arithmetic import MAX_ASKED_PLACES, MAX_PLACES, Number, Problem, answer
from datagen.operations import (
    ADDITION,
    BY_SIGN,
    DIVISION,
    MULTIPLICATION,
    SUBTRACTION,
    Operation,
)

_TOO_LARGE = 10 ** (2 * MAX_DIGITS)  # for a plan; rounded numbers may be larger than exact ones
LONG = 40  # digits of a factor
T = TypeVar("T")


class Operand(NamedTuple):
    """A number that was typed, or the result of an operation."""

    number: Number  # the right one
    step: int | None = None  # the index of the operation


class Step(NamedTuple):
    """An operation that the model is asked, and the part of the expression that it belongs to.
    `path` are the rows of the programs of functions that it comes from, the outermost first."""

    a: Operand
    op: Operation
    b: Operand
    places: int
    text: str
    start: int
    end: int
    path: tuple[str, ...] = ()

    @property
    def problem(self) -> Problem:
        """The problem with the right operands."""
        return Problem(self.a.number, self.op, self.b.number, self.places)


class Parts(NamedTuple):
    """The nodes of an expression in the order of `postorder`, their values, how many more places
    each needs than the result, the operations that the model knows, by the signs of nodes, and the
    result."""

    nodes: list[Expression]
    values: list[Real]
    more_places: list[int]
    operations: dict[str, Operation]
    right: Number  # the result


class Planner(ABC, Generic[T]):
    """Makes the operations of an expression. T is how the value of a part is represented."""

    def __init__(self, parts: Parts, places: int, step_places: int) -> None:
        """`step_places` are the places of operations before the last."""
        self.parts, self.places, self._step_places = parts, places, step_places
        self.more_places = 0  # than _step_places, which the part that is planned needs
        self.steps: list[Step] = []
        self.readings: list[Reading] = []
        self.path: tuple[str, ...] = ()
        self._index = 0  # of the part that is planned

    @property
    def _node(self) -> Expression:
        return self.parts.nodes[self._index]

    @property
    def step_places(self) -> int:
        """The places of the operations of the part that is planned."""
        return max(0, self._step_places + self.more_places)

    @abstractmethod
    def number(self, value: Fraction) -> T:
        """Returns a number that was typed, or a whole one."""

    @abstractmethod
    def constant(self, value: Real, more_places: int = 3) -> T:
        """Returns a number that the planner has worked out, to the places of the operations and
        some more."""

    @abstractmethod
    def value(self, number: T) -> Fraction:
        """Returns the value of a number."""

    @abstractmethod
    def is_zero(self, value: Real) -> bool:
        """Returns whether a value is 0 at the places of the operations."""

    @abstractmethod
    def apply(self, op: Operation, a: T, b: T) -> T:
        """Returns the result of an operation."""

    @abstractmethod
    def rounded(self, a: T, places: int) -> T:
        """Returns a number, rounded to a number of places."""

    @abstractmethod
    def _nearest(self, a: T, b: T) -> tuple[T, int]:
        """Returns the whole number nearest to a / b, also as an integer."""

    @abstractmethod
    def _finish(self, value: T) -> Operand:
        """Returns the result, rounded to the places of the answer."""

    def plan(self) -> Operand | None:
        """Plans all operations and returns the result, or None if an operation divides by a number
        that is rounded to 0, or has a result that is too large.

        Raises ExpressionError for more than MAX_OPERATIONS.
        """
        waiting: list[Term[T]] = []
        try:
            for index, real in enumerate(self.parts.values):
                self._index, self.more_places = index, self.parts.more_places[index]
                first = len(waiting) - len(self._node.operands)
                operands = waiting[first:]
                if self._node.sign in ("//", "mod"):
                    self._say_floor(*(operand.value for operand in operands))
                waiting[first:] = [Term(self.operation(self._node, operands, real), real)]
            return self._finish(waiting[0].number)
        except EffortError:
            raise
        except ArithmeticError:
            return None

    def operation(self, node: Expression, operands: Sequence[Term[T]], real: Real | None) -> T:
        """Plans a node, given its operands, and its exact value if it is known."""
        sign = node.sign
        if not sign:
            return self._typed(node)
        if sign in CONSTANTS:
            assert real
            return self.constant(real)
        if sign in FUNCTIONS and (sign != "^" or not is_whole(operands[1].value)):
            return run(self, sign, operands)
        a, exact = operands[0]
        if sign == "%":
            return self.apply(DIVISION, a, self.number(Fraction(100)))
        if sign == "||":
            is_below_0 = exact.sign() < 0
            return self.apply(SUBTRACTION, self.number(Fraction(0)), a) if is_below_0 else a
        if sign == "!":
            return self._factorial(exact.floor())
        b, exact_b = operands[1]
        if sign == "^":
            return self._power(a, exact_b.floor())
        if sign in ("+%", "-%"):
            return self.apply(BY_SIGN[sign[0]], a, self.apply(MULTIPLICATION, b, a))
        if sign in ("//", "mod"):
            quotient = self._floor(a, b, (exact / exact_b).floor())
            if sign == "//":
                return quotient
            return self.apply(SUBTRACTION, a, self.apply(MULTIPLICATION, quotient, b))
        return self.apply(self.parts.operations[sign], a, b)

    def _typed(self, node: Expression) -> T:
        return self.number(value_of_number(node.number))

    def _power(self, base: T, exponent: int) -> T:
        """Plans a power by repeated squaring. A long one is a product of factors of LONG digits,
        because the square of a long number needs more of the model's context."""
        if not exponent:
            return self.number(Fraction(1))
        size = fraction(self.value(base)).size() * abs(exponent)
        n_factors = math.ceil(size / LONG) if 4 * LONG < size < MAX_DIGITS else 1
        n_factors = min(n_factors, abs(exponent))
        factor, rest = divmod(abs(exponent), n_factors)
        power = unit = self._squared(base, factor)
        for _ in range(n_factors - 1):
            power = self.apply(MULTIPLICATION, power, unit)
        if rest:
            power = self.apply(MULTIPLICATION, power, self._squared(base, rest))
        if exponent < 0:
            return self.apply(DIVISION, self.number(Fraction(1)), power)
        return power

    def _squared(self, base: T, exponent: int) -> T:
        """Plans a power by repeated squaring, from the highest binary digit of the exponent on."""
        power = base
        for digit in f"{exponent:b}"[1:]:
            power = self.apply(MULTIPLICATION, power, power)
            if digit == "1":
                power = self.apply(MULTIPLICATION, power, base)
        return power

    def _factorial(self, n: int) -> T:
        product = self.number(Fraction(max(1, min(n, 2))))
        for factor in range(3, n + 1):
            product = self.apply(MULTIPLICATION, product, self.number(Fraction(factor)))
        return product

    def _floor(self, a: T, b: T, floor: int) -> T:
        """Plans a quotient rounded down: the nearest whole number, or one less."""
        quotient, nearest = self._nearest(a, b)
        if nearest == floor + 1:
            return self.apply(SUBTRACTION, quotient, self.number(Fraction(1)))
        return quotient

    def _say_floor(self, a: Real, b: Real) -> None:
        """Adds a reading where calculators differ: remainders with negative numbers."""
        if a.sign() * b.sign() >= 0 or len(self.readings) >= MAX_READINGS:
            return
        if is_whole(a / b):
            return
        left, right = (operand.text for operand in self._node.operands)
        read = READINGS[self._node.sign].format(a=left, b=right)
        text = READINGS["all"].format(typed=self._node.text, read=read)
        self.readings.append(Reading(text, None))

    def ask(self, a: Operand, op: Operation, b: Operand, places: int) -> Operand:
        """Adds an operation. Raises ArithmeticError and ExpressionError."""
        node = self._node
        spend(20 + (a.number.units.bit_length() + b.number.units.bit_length()) // 20)
        if len(self.steps) == MAX_OPERATIONS:
            reason = MESSAGES["operations"]
            raise ExpressionError(ExpressionErrorKind.TOO_LONG, reason, node.start, node.end)
        step = Step(a, op, b, places, self._node.text, node.start, node.end, self.path)
        self.steps.append(step)
        right = right_answer(step)
        return Operand(right, len(self.steps) - 1)


def right_answer(step: Step) -> Number:
    """Returns the right answer. Raises ArithmeticError."""
    if step.places > MAX_PLACES:
        raise OverflowError
    value = answer(step.problem)
    if value is None:
        raise ZeroDivisionError
    if abs(value.units) >= _TOO_LARGE:
        raise OverflowError
    return value


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
