"""Reading worked steps: which one is the first that is wrong."""

from dataclasses import dataclass

from datagen.arithmetic import Problem
from datagen.notation import render_answer
from datagen.steps import StepKind, nearest_digit, result, work_steps


@dataclass(frozen=True, slots=True)
class Fault:
    """The first wrong character of a work, or of the answer after it."""

    kind: StepKind
    position: int  # in the text that was checked
    expected: str  # the character that follows from what stands before; "" where the text ends
    found: str  # "" where the text ends too early


def first_fault(problem: Problem, work: str, digits: int) -> Fault | None:
    """The first wrong step of a WORK; None if all follow one from another.

    Each step is judged by those before it. A quotient digit is right if it leaves a remainder
    below the divisor: the digits after it can then make it good, so that a work without a fault
    always ends in the exact answer. Errors as `work_steps`.
    """
    at = 0

    def written_digit(dividend: int, divisor: int) -> int:
        found = work[at : at + 1]
        if found in set("0123456789"):
            digit = -int(found) if dividend < 0 else int(found)
            if abs(dividend - digit * divisor) < divisor:
                return digit
        return nearest_digit(dividend, divisor)

    for step in work_steps(problem, digits, written_digit):
        for expected in step.text:
            found = work[at : at + 1]
            if found != expected:
                return Fault(step.kind, at, expected, found)
            at += 1
    return Fault(StepKind.LAYOUT, at, "", work[at]) if at < len(work) else None


def first_fault_of_completion(problem: Problem, text: str, digits: int) -> Fault | None:
    """The same for all that stands after a prompt, `WORK=ANSWER$`."""
    work, equals, field = text.partition("=")
    fault = first_fault(problem, work, digits)
    if fault:
        return fault
    if not equals:
        return Fault(StepKind.LAYOUT, len(work), "=", "")
    expected = render_answer(result(work)) + "$"
    for place, character in enumerate(expected):
        if field[place : place + 1] != character:
            found = field[place : place + 1]
            return Fault(StepKind.ANSWER, len(work) + 1 + place, character, found)
    if len(field) > len(expected):
        place = len(expected)
        return Fault(StepKind.ANSWER, len(work) + 1 + place, "", field[place])
    return None
