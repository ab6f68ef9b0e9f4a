"""Planners: they make operations of an expression, each for the model, and the value by them.

A planner calculates with exact arithmetic what the model should answer. `Rounding` rounds each
operation, `Fractions` works out numerator and denominator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Generic, NamedTuple, TypeVar

from calcgpt.errors import ExpressionError, ExpressionErrorKind
from calcgpt.inference.exact import equal, round_to
from calcgpt.inference.expression_stack import Reading
from calcgpt.inference.expression_tree import Expression, shorten, show
from calcgpt.inference.functions import CONSTANTS, FUNCTIONS
from calcgpt.inference.programs import Term, run
from calcgpt.inference.real import Real
from calcgpt.inference.spelling import (
    MAX_DIGITS,
    MAX_OPERATIONS,
    MAX_READINGS,
    MESSAGES,
    READINGS,
)
from datagen.arithmetic import MAX_PLACES, Number, Problem, answer
from datagen.operations import ADDITION, BY_SIGN, DIVISION, MULTIPLICATION, SUBTRACTION, Operation

_TOO_LARGE = 10 ** (2 * MAX_DIGITS)  # for a plan; rounded numbers may be larger than exact ones
_TOO_LARGE_OF_PROGRAM = 10**100  # no operand has so many digits
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
    """The nodes of an expression in the order of `postorder`, their texts and exact values, and the
    operations that the model knows, by the signs of nodes."""

    nodes: list[Expression]
    texts: list[str]
    values: list[Real]
    operations: dict[str, Operation]


class Planner(ABC, Generic[T]):
    """Makes the operations of an expression. T is how the value of a part is represented."""

    def __init__(self, parts: Parts, places: int, step_places: int) -> None:
        """`step_places` are the places of operations before the last."""
        self._nodes, self._texts, self._values, self._operations = parts
        self._places, self._step_places = places, step_places
        self.steps: list[Step] = []
        self.readings: list[Reading] = []
        self.path: tuple[str, ...] = ()
        self._index = 0  # of the part that is planned

    @property
    def _node(self) -> Expression:
        return self._nodes[self._index]

    @abstractmethod
    def number(self, value: Fraction) -> T:
        """Returns a number that was typed, or a whole one."""

    @abstractmethod
    def constant(self, value: Fraction, more_places: int = 3) -> T:
        """Returns a number that the planner has worked out, to the places of the operations and
        some more."""

    @abstractmethod
    def value(self, number: T) -> Fraction:
        """Returns the value of a number."""

    @abstractmethod
    def is_zero(self, value: Fraction) -> bool:
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
            for index, real in enumerate(self._values):
                self._index = index
                first = len(waiting) - len(self._node.operands)
                operands = waiting[first:]
                if self._node.sign in ("//", "mod"):
                    self._say_floor(*(operand.value for operand in operands))
                waiting[first:] = [Term(self.operation(self._node, operands, real), real.value)]
            return self._finish(waiting[0].number)
        except ArithmeticError:
            return None

    def operation(self, node: Expression, operands: Sequence[Term[T]], real: Real | None) -> T:
        """Plans a node, given its operands, and its exact value if it is known."""
        sign = node.sign
        if not sign:
            return self._typed(node)
        if sign in CONSTANTS:
            assert real
            return self.constant(real.value)
        if sign in FUNCTIONS and (sign != "^" or operands[1].value.denominator != 1):
            return run(self, sign, operands)
        a, exact = operands[0]
        if sign == "%":
            return self.apply(DIVISION, a, self.number(Fraction(100)))
        if sign == "||":
            return a if exact >= 0 else self.apply(SUBTRACTION, self.number(Fraction(0)), a)
        if sign == "!":
            return self._factorial(int(exact))
        b, exact_b = operands[1]
        if sign == "^":
            return self._power(a, int(exact_b))
        if sign in ("+%", "-%"):
            return self.apply(BY_SIGN[sign[0]], a, self.apply(MULTIPLICATION, b, a))
        if sign in ("//", "mod") and sign not in self._operations:
            quotient = self._floor(a, b, exact // exact_b)
            if sign == "//":
                return quotient
            return self.apply(SUBTRACTION, a, self.apply(MULTIPLICATION, quotient, b))
        return self.apply(self._operations[sign], a, b)

    def _typed(self, node: Expression) -> T:
        return self.number(Fraction(node.number.units, 10**node.number.places))

    def _power(self, base: T, exponent: int) -> T:
        """Plans a power by repeated squaring, from the highest binary digit of the exponent on."""
        if not exponent:
            return self.number(Fraction(1))
        power = base
        for digit in f"{abs(exponent):b}"[1:]:
            power = self.apply(MULTIPLICATION, power, power)
            if digit == "1":
                power = self.apply(MULTIPLICATION, power, base)
        if exponent < 0:
            return self.apply(DIVISION, self.number(Fraction(1)), power)
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

    def _say_floor(self, a: Fraction, b: Fraction) -> None:
        """Adds a reading where calculators differ: remainders with negative numbers."""
        if (a < 0) == (b < 0) or a % b == 0 or len(self.readings) >= MAX_READINGS:
            return
        left, right = (shorten(show(operand)) for operand in self._node.operands)
        read = READINGS[self._node.sign].format(a=left, b=right)
        text = READINGS["all"].format(typed=self._texts[self._index], read=read)
        self.readings.append(Reading(text, None))

    def _ask(self, a: Operand, op: Operation, b: Operand, places: int) -> Operand:
        """Adds an operation. Raises ArithmeticError and ExpressionError."""
        node = self._node
        if len(self.steps) == MAX_OPERATIONS:
            reason = MESSAGES["operations"]
            raise ExpressionError(ExpressionErrorKind.TOO_LONG, reason, node.start, node.end)
        step = Step(a, op, b, places, self._texts[self._index], node.start, node.end, self.path)
        self.steps.append(step)
        right = _right(step)
        if self.path and abs(right.units) >= _TOO_LARGE_OF_PROGRAM * 10**right.places:
            raise OverflowError
        return Operand(right, len(self.steps) - 1)


class Rounding(Planner[Operand]):
    """Rounds each operation to the places of the answer and some guard places."""

    def __init__(self, parts: Parts, places: int, guard_places: int) -> None:
        super().__init__(parts, places, places + guard_places)
        self.guard_places = guard_places

    def number(self, value: Fraction) -> Operand:
        return Operand(Number(int(value)))

    def _typed(self, node: Expression) -> Operand:
        return Operand(node.number)

    def constant(self, value: Fraction, more_places: int = 3) -> Operand:
        number = round_to(value, MAX_PLACES)
        if _value(number) != value:
            number = round_to(value, min(MAX_PLACES, self._step_places + more_places))
        return Operand(number)

    def value(self, number: Operand) -> Fraction:
        return _value(number.number)

    def is_zero(self, value: Fraction) -> bool:
        return 2 * abs(value) * 10**self._step_places < 1

    def rounded(self, a: Operand, places: int) -> Operand:
        if equal(a.number, round_to(_value(a.number), places)):
            return a
        return self._ask(a, ADDITION, Operand(Number(0)), places)

    def apply(self, op: Operation, a: Operand, b: Operand) -> Operand:
        return self._ask(a, op, b, self._step_places)

    def _nearest(self, a: Operand, b: Operand) -> tuple[Operand, int]:
        quotient = self._ask(a, DIVISION, b, 0)
        return quotient, quotient.number.units

    def _finish(self, value: Operand) -> Operand:
        number, index = value
        is_last = index == len(self.steps) - 1
        if is_last and self.steps[-1].places == self._step_places:
            last = self.steps[index] = self.steps[index]._replace(places=self._places)
            return Operand(_right(last), index)
        right = round_to(self._values[-1].value, self._places)
        if not equal(number, right) and (index is None or not is_last):
            return self._ask(value, ADDITION, Operand(Number(0)), self._places)
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
        return _value(number[0].number) / 10 ** number[1]

    def is_zero(self, value: Fraction) -> bool:
        return 2 * abs(value) * 10 ** (MAX_PLACES + self._scale) < 1

    def rounded(self, a: tuple[Operand, int], places: int) -> tuple[Operand, int]:
        return self._divided(a, places), 0

    def apply(
        self, op: Operation, a: tuple[Operand, int], b: tuple[Operand, int]
    ) -> tuple[Operand, int]:
        (x, x_scale), (y, y_scale) = a, b
        if op is MULTIPLICATION:
            scale = x_scale + y_scale
            product = self._ask(x, op, y, MAX_PLACES), scale
            return product if scale <= self._scale else (self._divided(product), self._scale)
        wanted = self._scale + y_scale if op is DIVISION else self._scale
        x = self._times(x, wanted - x_scale)
        y = y if op is DIVISION else self._times(y, wanted - y_scale)
        return self._ask(x, op, y, MAX_PLACES), self._scale

    def _times(self, a: Operand, zeros: int) -> Operand:
        """Returns a number times a power of ten. A constant is written so."""
        if not zeros:
            return a
        if a.step is None:
            return Operand(round_to(_value(a.number) * 10**zeros, MAX_PLACES))
        return self._ask(a, MULTIPLICATION, Operand(Number(10**zeros)), MAX_PLACES)

    def _divided(self, a: tuple[Operand, int], places: int = MAX_PLACES) -> Operand:
        """Returns a number divided by 10^scale, rounded."""
        number, scale = a
        if not scale and equal(number.number, round_to(_value(number.number), places)):
            return number
        if not scale:
            return self._ask(number, ADDITION, Operand(Number(0)), places)
        return self._ask(number, DIVISION, Operand(Number(10**self._scale)), places)

    def _nearest(
        self, a: tuple[Operand, int], b: tuple[Operand, int]
    ) -> tuple[tuple[Operand, int], int]:
        scale = max(a[1], b[1])
        x, y = (self._times(operand, scale - own) for operand, own in (a, b))
        quotient = self._ask(x, DIVISION, y, 0)
        return (quotient, 0), quotient.number.units

    def _finish(self, value: tuple[Operand, int]) -> Operand:
        return self._divided(value, self._places)


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
            return self._ask(n, op, m, self._places), d
        left, right = self._times(n, e) or n, self._times(m, d) or m
        return self._ask(left, op, right, self._places), self._times(d, e)

    def _nearest(
        self, a: tuple[Operand, Operand | None], b: tuple[Operand, Operand | None]
    ) -> tuple[tuple[Operand, Operand | None], int]:
        n, d = self.apply(DIVISION, a, b)
        assert d
        quotient = self._ask(n, DIVISION, d, 0)
        return (quotient, None), quotient.number.units

    def _finish(self, value: tuple[Operand, Operand | None]) -> Operand:
        n, d = value
        return self._ask(n, DIVISION, d, self._places) if d else n

    def _product(self, a: Operand, b: Operand) -> Operand:
        return self._ask(a, MULTIPLICATION, b, self._places)

    def _times(self, a: Operand | None, b: Operand | None) -> Operand | None:
        return self._product(a, b) if a and b else a or b


def _value(number: Number) -> Fraction:
    return Fraction(number.units, 10**number.places)


def _right(step: Step) -> Number:
    """Returns the right answer. Raises ArithmeticError."""
    value = answer(step.problem)
    if value is None:
        raise ZeroDivisionError
    if abs(value.units) >= _TOO_LARGE:
        raise OverflowError
    return value
