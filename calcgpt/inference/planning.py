"""Plans: which operations the model is asked, so that the whole expression is rounded once.

Operations before the last keep guard places: the fewest with which the result is the value of the
expression, rounded to the places asked for. That value is known (`calcgpt.inference.exact`), and
the plan calculates what the model should answer, so it knows whether it ends there. If no number of
guard places is enough, as for 1/3*3+0.5 to 0 places, a plan works out the numerator and the
denominator of the value, and divides once.

The model sees only + - * and /. Comparisons and signs are decided here, but each digit of a result
is the model's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from calcgpt.errors import ExpressionError, ExpressionErrorKind
from calcgpt.inference.effort import EffortError
from calcgpt.inference.exact import equal, evaluate, plain_text, reason_of, round_to
from calcgpt.inference.expression_stack import Reading
from calcgpt.inference.expression_tree import Expression, postorder, shorten
from calcgpt.inference.functions import CONSTANTS, FUNCTIONS
from calcgpt.inference.limits import MAX_WORK, Limits, Refusal, refuse_work
from calcgpt.inference.planners import Fractions, Operand, Parts, Planner, Rounding, Step
from calcgpt.inference.real import Real, UndecidedError, is_whole
from calcgpt.inference.sensitivity import more_places
from calcgpt.inference.simplify import simplify
from calcgpt.inference.spelling import MAX_DIGITS, MESSAGES
from datagen.arithmetic import MAX_PLACES
from datagen.operations import BY_SIGN

# Guard places to try, of arithmetic and of functions. Between two, `_fewest` finds the fewest.
_GUARDS = (0, 1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 48)
_GUARDS_OF_FUNCTIONS = (3, 7, 15, 30, 60, 120, 240, 480)

Refused = tuple[Refusal, int, int]  # why a model is not asked, and the position of the part


@dataclass(frozen=True)
class Plan:
    """The operations of an expression, operands first, and its value by them.

    `guard_places` are the places that operations before the last keep beyond those of the result,
    or beyond what a function of it needs; None if numerator and denominator are worked out instead.
    """

    steps: tuple[Step, ...]
    result: Operand
    value: Real  # without rounding
    rounded: Fraction
    is_rounded: bool | None  # whether the two differ; None if that is undecided
    guard_places: int | None
    readings: tuple[Reading, ...] = ()

    def refusal(self, root: Expression, limits: Limits, work: int) -> Refused | None:
        """Returns why a model is not asked all operations, with the position of the part, or None.
        It may write `work` characters."""
        # As a fraction, a number may have any number of places. A model whose places are fixed
        # would be asked products and quotients where a person has typed a sum.
        are_fractions = self.guard_places is None and limits.most_places == MAX_PLACES
        typed = postorder(root) if self.steps and not are_fractions else []
        for node in typed:
            if not node.sign and (refusal := limits.refuse_operand(node.number)):
                return refusal, node.start, node.end
        total = 0
        for step in self.steps:
            for number, index in (step.a, step.b):
                if refusal := limits.refuse_operand(number):
                    source = step if index is None else self.steps[index]
                    reason = f"{source.text} needs {shorten(plain_text(number))}: {refusal.reason}"
                    return Refusal(refusal.kind, reason), source.start, source.end
            n_characters = limits.n_characters(step.problem)
            if refusal := limits.refuse_problem(step.problem, n_characters):
                reason = f"{step.text}: {refusal.reason}"
                return Refusal(refusal.kind, reason), step.start, step.end
            total += n_characters
        refusal = refuse_work(total, work)
        return refusal and (refusal, root.start, root.end)


def make_plan(root: Expression, places: int, limits: Limits, work: int = MAX_WORK) -> Plan:
    """Returns the plan of an expression whose result is rounded to `places`. The result of a model
    whose places are fixed may be off. The model may write `work` characters.

    Raises ExpressionError if the expression has no value, if its value is not decided, or if it is
    outside the limits.
    """
    try:
        plans = _Plans(root, places, limits)
        first = None
        for plan in plans.in_order():
            if not (refusal := plan.refusal(root, limits, work)):
                return plan
            first = first or refusal
    except (EffortError, ArithmeticError) as error:
        kind, reason = reason_of(error)
        raise ExpressionError(kind, reason, root.start, root.end) from None
    if not first and plans.error:
        raise plans.error
    if not first:
        kind, reason = ExpressionErrorKind.OUT_OF_RANGE, MESSAGES["no-plan"]
        raise ExpressionError(kind, reason, root.start, root.end)
    refused, start, end = first
    raise ExpressionError(refused.kind, refused.reason, start, end)


class _Plans:
    """The plans of an expression that are right, in the order in which they are to be tried."""

    def __init__(self, root: Expression, places: int, limits: Limits) -> None:
        self.error: ExpressionError | None = None
        values = evaluate(root)
        self._value, self._places, self._limits = values[-1].settle(), places, limits
        if self._value.size() > MAX_DIGITS:
            raise OverflowError
        self._rounded = self._value.rounded(places)
        self._is_rounded = _differ(self._value, self._rounded)
        self._right = round_to(self._rounded, places)
        if (simpler := simplify(root, values)) is not root:
            root, values = simpler, evaluate(simpler)
        nodes = postorder(root)
        self._approaches = _approaches(nodes, values)
        if self._approaches and limits.most_places < MAX_PLACES:
            reason = MESSAGES["direct"]
            kind = ExpressionErrorKind.OUT_OF_RANGE
            raise ExpressionError(kind, reason, root.start, root.end)
        more = more_places(nodes, values) if self._approaches else [0] * len(nodes)
        known = {BY_SIGN[sign].spellings[0]: BY_SIGN[sign] for sign in limits.operations}
        self._parts = Parts(nodes, values, more, known, self._right)

    def in_order(self) -> Iterator[Plan]:
        """Yields plans. All are right, except the last one of a model whose places are fixed."""
        most = self._limits.most_places - self._places
        guards = _GUARDS_OF_FUNCTIONS if self._approaches else _GUARDS
        too_few = -1
        for guard_places in (n for n in guards if n <= most):
            if plan := self._right_plan(guard_places):
                yield _fewest(self._right_plan, too_few + 1, plan)
                break
            too_few = guard_places
        by_fractions = None if self._approaches else Fractions(self._parts, self._places)
        if by_fractions and (plan := self._plan(by_fractions)):
            yield plan
        if most < MAX_PLACES - self._places and (plan := self._rounding_plan(0)):
            yield plan

    def _right_plan(self, guard_places: int) -> Plan | None:
        plan = self._rounding_plan(guard_places)
        return plan if plan and equal(plan.result.number, self._right) else None

    def _rounding_plan(self, guard_places: int) -> Plan | None:
        return self._plan(Rounding(self._parts, self._places, guard_places), guard_places)

    def _plan(self, planner: Planner[Any], guard_places: int | None = None) -> Plan | None:
        try:
            result = planner.plan()
        except ExpressionError as error:  # too many operations, perhaps because a series diverges
            self.error = self.error or error
            return None
        if result is None:
            return None
        steps, readings = tuple(planner.steps), tuple(planner.readings)
        values = self._value, self._rounded, self._is_rounded
        return Plan(steps, result, *values, guard_places, readings)


def _differ(value: Real, rounded: Fraction) -> bool | None:
    """Returns whether a value was changed by rounding; None if that is undecided."""
    try:
        return value.compare(rounded) != 0
    except UndecidedError:
        return None


def _fewest(make: Callable[[int], Plan | None], least: int, plan: Plan) -> Plan:
    """Returns the plan with the fewest guard places from `least` on, given one that is right."""
    assert plan.guard_places is not None
    while least < plan.guard_places:
        middle = (least + plan.guard_places) // 2
        if better := make(middle):
            plan = better
        else:
            least = middle + 1
        assert plan.guard_places is not None
    return plan


def _approaches(nodes: list[Expression], values: list[Real]) -> bool:
    """Returns whether a part has a program that only approaches its value."""
    value_of = dict(zip(nodes, values, strict=True))

    def approaches(node: Expression) -> bool:
        if node.sign == "^":
            return not is_whole(value_of[node.operands[1]])
        is_function = node.sign in FUNCTIONS and not FUNCTIONS[node.sign].is_exact
        return is_function or node.sign in CONSTANTS

    return any(map(approaches, nodes))
