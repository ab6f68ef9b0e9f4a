"""Plans: which operations the model is asked, so that the whole expression is rounded once.

Operations before the last keep guard places: the fewest with which the result is the exact value of
the expression, rounded to the places asked for. The plan calculates with exact arithmetic what the
model should answer, so it knows. If no number of guard places is enough, as for 1/3*3+0.5 to 0
places, a plan works out the numerator and the denominator of the value, and divides once.

The model sees only + - * and /. Comparisons and signs are decided here, but each digit of a result
is the model's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Generic, NamedTuple, TypeVar

from calcgpt.errors import ExpressionError, ExpressionErrorKind
from calcgpt.inference.exact import evaluate, plain_text, round_to
from calcgpt.inference.expression_stack import Reading
from calcgpt.inference.expression_tree import Expression, postorder, shorten, show, texts
from calcgpt.inference.limits import Limits, Refusal
from calcgpt.inference.spelling import (
    MAX_DIGITS,
    MAX_OPERATIONS,
    MAX_READINGS,
    MESSAGES,
    READINGS,
)
from datagen.arithmetic import MAX_PLACES, Number, Problem, answer
from datagen.operations import ADDITION, BY_SIGN, DIVISION, MULTIPLICATION, SUBTRACTION, Operation

MAX_WORK = 400_000  # characters that a model writes for an expression
_TOO_LARGE = 10 ** (2 * MAX_DIGITS)  # for a plan; rounded numbers may be larger than exact ones
T = TypeVar("T")


class Operand(NamedTuple):
    """A number that was typed, or the result of an operation."""

    number: Number  # the right one
    step: int | None = None  # the index of the operation


class Step(NamedTuple):
    """An operation that the model is asked, and the part of the expression that it belongs to."""

    a: Operand
    op: Operation
    b: Operand
    places: int
    text: str
    start: int
    end: int

    @property
    def problem(self) -> Problem:
        """The problem with the right operands."""
        return Problem(self.a.number, self.op, self.b.number, self.places)


@dataclass(frozen=True)
class Plan:
    """The operations of an expression, operands first, and its value by them.

    `guard_places` are the places that operations before the last keep beyond those of the result;
    None if numerator and denominator are worked out instead. `in_tested_range` says whether
    the model was measured for all operations.
    """

    steps: tuple[Step, ...]
    result: Operand
    exact: Fraction  # the value without rounding
    guard_places: int | None
    readings: tuple[Reading, ...] = ()
    in_tested_range: bool = True

    def refusal(self, root: Expression, limits: Limits) -> tuple[Refusal, int, int] | None:
        """Returns why a model is not asked all operations, with the position of the part, or None.
        A reason that a user can allow is returned only if there is no other."""
        return min(
            self._refusals(root, limits), key=lambda it: _is_beyond_tested(it[0]), default=None
        )

    def _refusals(self, root: Expression, limits: Limits) -> Iterator[tuple[Refusal, int, int]]:
        typed = postorder(root) if self.steps and self.guard_places is not None else []
        for node in typed:
            if not node.sign and (refusal := limits.refuse_operand(node.number)):
                yield refusal, node.start, node.end
                if not _is_beyond_tested(refusal):
                    return
        for step in self.steps:
            for number, index in (step.a, step.b):
                if refusal := limits.refuse_operand(number):
                    source = step if index is None else self.steps[index]
                    reason = f"{source.text} needs {shorten(plain_text(number))}: {refusal.reason}"
                    yield Refusal(refusal.kind, reason), source.start, source.end
                    if not _is_beyond_tested(refusal):
                        return
            if refusal := limits.refuse_problem(step.problem):
                reason = f"{step.text}: {refusal.reason}"
                yield Refusal(refusal.kind, reason), step.start, step.end
        if self.n_characters(limits) > MAX_WORK:
            reason = f"the model would write more than {MAX_WORK:,} characters"
            yield Refusal(ExpressionErrorKind.TOO_LONG, reason), root.start, root.end

    def n_characters(self, limits: Limits) -> int:
        """Returns how many characters the model writes, if it makes no mistake."""
        return sum(limits.n_characters(step.problem) for step in self.steps)


def make_plan(root: Expression, places: int, limits: Limits, allows_beyond_tested: bool) -> Plan:
    """Returns the plan of an expression whose result is rounded to `places`. The result of a model
    whose places are fixed may be off.

    Raises ExpressionError if the expression has no value, or if it is outside the limits.
    """
    refusals = []
    allowed = None
    for plan in _plans(root, places, limits):
        refusal = plan.refusal(root, limits)
        if not refusal:
            return plan
        if allows_beyond_tested and _is_beyond_tested(refusal[0]):
            allowed = allowed or replace(plan, in_tested_range=False)
        refusals.append(refusal)
    if allowed:
        return allowed
    if not refusals:
        kind, reason = ExpressionErrorKind.OUT_OF_RANGE, MESSAGES["digits"]
        raise ExpressionError(kind, reason, root.start, root.end)
    refused, start, end = refusals[0]
    raise ExpressionError(refused.kind, refused.reason, start, end)


def _plans(root: Expression, places: int, limits: Limits) -> Iterator[Plan]:
    """Yields plans in the order in which they are to be tried. All are right, except those that no
    user can allow, and the last one of a model whose places are fixed."""
    known = {BY_SIGN[sign].spellings[0]: BY_SIGN[sign] for sign in limits.operations}
    parts = _Parts(postorder(root), texts(root), evaluate(root), known)
    right = round_to(parts.values[-1], places)
    first = None
    for guard_places in range(limits.most_places - places + 1):
        plan = _Rounding(parts, places, guard_places).plan()
        if not plan:
            continue
        is_outside = not first and _is_outside(plan.refusal(root, limits))
        first = first or plan
        if is_outside or _equal(plan.result.number, right):
            yield plan  # more guard places do not make numbers shorter
            break
    if by_fractions := _Fractions(parts, places).plan():
        yield by_fractions
    if limits.most_places < MAX_PLACES and first:
        yield first


class _Parts(NamedTuple):
    """The nodes of an expression in the order of `postorder`, their texts and exact values, and the
    operations that the model knows, by the signs of nodes."""

    nodes: list[Expression]
    texts: list[str]
    values: list[Fraction]
    operations: dict[str, Operation]


def _is_beyond_tested(refusal: Refusal) -> bool:
    return refusal.kind is ExpressionErrorKind.BEYOND_TESTED


def _is_outside(refused: tuple[Refusal, int, int] | None) -> bool:
    return refused is not None and not _is_beyond_tested(refused[0])


def _equal(a: Number, b: Number) -> bool:
    return plain_text(a) == plain_text(b)


class _Planner(ABC, Generic[T]):
    """Makes the plan of an expression. T is how the value of a part is represented."""

    guard_places: int | None = None

    def __init__(self, parts: _Parts, places: int, step_places: int) -> None:
        """`step_places` are the places of operations before the last."""
        self._nodes, self._texts, self._values, self._operations = parts
        self._places, self._step_places = places, step_places
        self._steps: list[Step] = []
        self._readings: list[Reading] = []
        self._index = 0  # of the part that is planned

    @property
    def _node(self) -> Expression:
        return self._nodes[self._index]

    @abstractmethod
    def _number(self, value: Fraction) -> T:
        """Returns a number that was typed."""

    @abstractmethod
    def _apply(self, op: Operation, a: T, b: T) -> T:
        """Returns the result of an operation."""

    @abstractmethod
    def _nearest(self, a: T, b: T) -> tuple[T, int]:
        """Returns the whole number nearest to a / b, also as an integer."""

    @abstractmethod
    def _finish(self, value: T) -> Operand:
        """Returns the result, rounded to the places of the answer."""

    def plan(self) -> Plan | None:
        """Returns the plan, or None if an operation divides by a number that is rounded to 0, or
        has a result that is too large.

        Raises ExpressionError for more than MAX_OPERATIONS.
        """
        waiting: list[tuple[T, Fraction]] = []
        try:
            for index, value in enumerate(self._values):
                self._index = index
                first = len(waiting) - len(self._node.operands)
                waiting[first:] = [(self._plan(waiting[first:], value), value)]
            result = self._finish(waiting[0][0])
        except ArithmeticError:
            return None
        value, readings = self._values[-1], tuple(self._readings)
        return Plan(tuple(self._steps), result, value, self.guard_places, readings)

    def _plan(self, operands: Sequence[tuple[T, Fraction]], value: Fraction) -> T:
        """Plans a node, given its operands with their exact values, and its exact value."""
        sign = self._node.sign
        if not sign:
            return self._number(value)
        a, exact = operands[0]
        if sign == "%":
            return self._apply(DIVISION, a, self._number(Fraction(100)))
        if sign == "||":
            return a if exact >= 0 else self._apply(SUBTRACTION, self._number(Fraction(0)), a)
        if sign == "!":
            return self._factorial(int(exact))
        b, exact_b = operands[1]
        if sign == "^":
            return self._power(a, int(exact_b))
        if sign in ("+%", "-%"):
            return self._apply(BY_SIGN[sign[0]], a, self._apply(MULTIPLICATION, b, a))
        if sign in ("//", "mod"):
            self._say_floor(exact, exact_b)
        if sign in ("//", "mod") and sign not in self._operations:
            quotient = self._floor(a, b, exact // exact_b)
            if sign == "//":
                return quotient
            return self._apply(SUBTRACTION, a, self._apply(MULTIPLICATION, quotient, b))
        return self._apply(self._operations[sign], a, b)

    def _power(self, base: T, exponent: int) -> T:
        """Plans a power by repeated squaring, from the highest binary digit of the exponent on."""
        if not exponent:
            return self._number(Fraction(1))
        power = base
        for digit in f"{abs(exponent):b}"[1:]:
            power = self._apply(MULTIPLICATION, power, power)
            if digit == "1":
                power = self._apply(MULTIPLICATION, power, base)
        if exponent < 0:
            return self._apply(DIVISION, self._number(Fraction(1)), power)
        return power

    def _factorial(self, n: int) -> T:
        product = self._number(Fraction(max(1, min(n, 2))))
        for factor in range(3, n + 1):
            product = self._apply(MULTIPLICATION, product, self._number(Fraction(factor)))
        return product

    def _floor(self, a: T, b: T, floor: int) -> T:
        """Plans a quotient rounded down: the nearest whole number, or one less."""
        quotient, nearest = self._nearest(a, b)
        if nearest == floor + 1:
            return self._apply(SUBTRACTION, quotient, self._number(Fraction(1)))
        return quotient

    def _say_floor(self, a: Fraction, b: Fraction) -> None:
        """Adds a reading where calculators differ: remainders with negative numbers."""
        if (a < 0) == (b < 0) or a % b == 0 or len(self._readings) >= MAX_READINGS:
            return
        left, right = (shorten(show(operand)) for operand in self._node.operands)
        read = READINGS[self._node.sign].format(a=left, b=right)
        text = READINGS["all"].format(typed=self._texts[self._index], read=read)
        self._readings.append(Reading(text, None))

    def _ask(self, a: Operand, op: Operation, b: Operand, places: int) -> Operand:
        """Adds an operation. Raises ArithmeticError and ExpressionError."""
        node = self._node
        if len(self._steps) == MAX_OPERATIONS:
            reason = MESSAGES["operations"]
            raise ExpressionError(ExpressionErrorKind.TOO_LONG, reason, node.start, node.end)
        step = Step(a, op, b, places, self._texts[self._index], node.start, node.end)
        self._steps.append(step)
        return Operand(_right(step), len(self._steps) - 1)


class _Rounding(_Planner[Operand]):
    """Rounds each operation to the places of the answer and some guard places."""

    def __init__(self, parts: _Parts, places: int, guard_places: int) -> None:
        super().__init__(parts, places, places + guard_places)
        self.guard_places = guard_places

    def _number(self, value: Fraction) -> Operand:
        node = self._node
        return Operand(Number(int(value)) if node.sign else node.number)

    def _apply(self, op: Operation, a: Operand, b: Operand) -> Operand:
        return self._ask(a, op, b, self._step_places)

    def _nearest(self, a: Operand, b: Operand) -> tuple[Operand, int]:
        quotient = self._ask(a, DIVISION, b, 0)
        return quotient, quotient.number.units

    def _finish(self, value: Operand) -> Operand:
        number, index = value
        if index is not None and self._steps[index].places == self._step_places:
            last = self._steps[index] = self._steps[index]._replace(places=self._places)
            return Operand(_right(last), index)
        if not _equal(number, round_to(self._values[-1], self._places)) and index is None:
            return self._ask(value, ADDITION, Operand(Number(0)), self._places)
        return value


class _Fractions(_Planner[tuple[Operand, Operand | None]]):
    """Works out numerator and denominator as whole numbers, and divides once. A denominator of
    None is 1."""

    def __init__(self, parts: _Parts, places: int) -> None:
        super().__init__(parts, places, places)

    def _number(self, value: Fraction) -> tuple[Operand, Operand | None]:
        numerator, denominator = value.as_integer_ratio()
        divisor = Operand(Number(denominator)) if denominator > 1 else None
        return Operand(Number(numerator)), divisor

    def _apply(
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
        n, d = self._apply(DIVISION, a, b)
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


def _right(step: Step) -> Number:
    """Returns the right answer. Raises ArithmeticError."""
    value = answer(step.problem)
    if value is None:
        raise ZeroDivisionError
    if abs(value.units) >= _TOO_LARGE:
        raise OverflowError
    return value
