"""Plans: which operations the model is asked, so that the whole expression is rounded once.

Operations before the last keep guard places: the fewest with which the result is the exact value of
the expression, rounded to the places asked for. The plan calculates with exact arithmetic what the
model should answer, so it knows. If no number of guard places is enough, as for 1/3*3+0.5 to 0
places, a plan works out the numerator and the denominator of the value, and divides once.

The model sees only + - * and /. Comparisons and signs are decided here, but each digit of a result
is the model's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from calcgpt.errors import ExpressionError, ExpressionErrorKind
from calcgpt.inference.exact import equal, evaluate, plain_text, round_to
from calcgpt.inference.expression_stack import Reading
from calcgpt.inference.expression_tree import Expression, postorder, shorten, texts
from calcgpt.inference.functions import CONSTANTS, FUNCTIONS
from calcgpt.inference.limits import Limits, Refusal, refuse_work
from calcgpt.inference.number_planners import Fractions, Rounding, Scaled
from calcgpt.inference.planners import Operand, Parts, Planner, Step
from calcgpt.inference.spelling import MAX_DIGITS, MESSAGES
from datagen.arithmetic import MAX_ASKED_PLACES, MAX_PLACES
from datagen.operations import BY_SIGN

MAX_SCALE = 24  # decimal places beyond those of a number, where a function needs them

Refused = tuple[Refusal, int, int]  # why a model is not asked, and the position of the part


@dataclass(frozen=True)
class Plan:
    """The operations of an expression, operands first, and its value by them.

    `guard_places` are the places that operations before the last keep beyond those of the result;
    None if numerator and denominator are worked out instead.
    """

    steps: tuple[Step, ...]
    result: Operand
    exact: Fraction  # the value without rounding
    guard_places: int | None
    readings: tuple[Reading, ...] = ()

    def refusal(self, root: Expression, limits: Limits, work: int) -> Refused | None:
        """Returns why a model is not asked all operations, with the position of the part, or
        None."""
        # As a fraction, a number may have any number of places. A model whose places are fixed
        # would be asked products and quotients where a person has typed a sum.
        are_fractions = self.guard_places is None and limits.most_places == MAX_PLACES
        typed = postorder(root) if self.steps and not are_fractions else []
        for node in typed:
            if not node.sign and (refusal := limits.refuse_operand(node.number)):
                return refusal, node.start, node.end
        for step in self.steps:
            for number, index in (step.a, step.b):
                if refusal := limits.refuse_operand(number):
                    source = step if index is None else self.steps[index]
                    reason = f"{source.text} needs {shorten(plain_text(number))}: {refusal.reason}"
                    return Refusal(refusal.kind, reason), source.start, source.end
            if refusal := limits.refuse_problem(step.problem):
                reason = f"{step.text}: {refusal.reason}"
                return Refusal(refusal.kind, reason), step.start, step.end
        refusal = refuse_work(self.n_characters(limits), work)
        return refusal and (refusal, root.start, root.end)

    def n_characters(self, limits: Limits) -> int:
        """Returns how many characters the model writes, if it makes no mistake."""
        return sum(limits.n_characters(step.problem) for step in self.steps)


def make_plan(root: Expression, places: int, limits: Limits, work: int) -> Plan:
    """Returns the plan of an expression whose result is rounded to `places`. The result of a model
    whose places are fixed may be off. `work` is the most characters that the model may write.

    Raises ExpressionError if the expression has no value, or if it is outside the limits.
    """
    refusals = []
    for plan in _plans(root, places, limits):
        refusal = plan.refusal(root, limits, work)
        if not refusal:
            return plan
        refusals.append(refusal)
    if not refusals:
        kind = ExpressionErrorKind.OUT_OF_RANGE
        reason = MESSAGES["work"].format(places=MAX_ASKED_PLACES, digits=f"{MAX_DIGITS:,}")
        raise ExpressionError(kind, reason, root.start, root.end)
    refused, start, end = refusals[0]
    raise ExpressionError(refused.kind, refused.reason, start, end)


def _plans(root: Expression, places: int, limits: Limits) -> Iterator[Plan]:
    """Yields plans in the order in which they are to be tried. All plans are right, except the last
    one of a model whose places are fixed."""
    known = {BY_SIGN[sign].spellings[0]: BY_SIGN[sign] for sign in limits.operations}
    parts = Parts(postorder(root), texts(root), evaluate(root), known)
    exact, approaches = parts.values[-1].value, _approaches(parts)
    right = round_to(exact, places)
    if approaches and limits.most_places < MAX_PLACES:
        kind, reason = ExpressionErrorKind.OUT_OF_RANGE, MESSAGES["direct"]
        raise ExpressionError(kind, reason, root.start, root.end)
    first = None
    most = min(limits.most_places, MAX_ASKED_PLACES) - places
    # Fewer attempts for functions, whose plans take longer to make.
    few = sorted({*range(2, most, 3), max(most - 1, 0), most})
    for guard_places in few if approaches else range(most + 1):
        plan = _plan(Rounding(parts, places, guard_places), exact, guard_places)
        if not plan:
            continue
        first = first or plan
        if equal(plan.result.number, right):
            yield plan  # more guard places do not make numbers shorter
            break
    else:
        for scale in range(4, MAX_SCALE + 1, 4) if approaches else ():
            plan = _plan(Scaled(parts, places, scale), exact, MAX_ASKED_PLACES + scale - places)
            if plan and equal(plan.result.number, right):
                yield plan
                break
    if not approaches and (by_fractions := _plan(Fractions(parts, places), exact)):
        yield by_fractions
    if limits.most_places < MAX_PLACES and first:
        yield first


def _plan(planner: Planner[Any], exact: Fraction, guard_places: int | None = None) -> Plan | None:
    result = planner.plan()
    if result is None:
        return None
    return Plan(tuple(planner.steps), result, exact, guard_places, tuple(planner.readings))


def _approaches(parts: Parts) -> bool:
    """Returns whether a part has a program that only approaches its value."""
    values = {id(node): real.value for node, real in zip(parts.nodes, parts.values, strict=True)}

    def approaches(node: Expression) -> bool:
        if node.sign == "^":
            return values[id(node.operands[1])].denominator != 1
        is_function = node.sign in FUNCTIONS and not FUNCTIONS[node.sign].is_exact
        return is_function or node.sign in CONSTANTS

    return any(map(approaches, parts.nodes))
