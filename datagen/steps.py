"""The worked steps between question and answer: `$(A op B)=WORK=ANSWER$`.

    (2.08-136.22)    x8020000y2263100a-68568999:41431000-2=...
                     (docs/NOTATION.md spells one out for each operation)

Every number is written least significant digit first, with W digits counted in hundredths, so that
a digit follows from a few earlier ones at fixed distances. A letter, or a colon, begins each row.

    + -   x A  y B  a± SUM                           : RESULT SIGN PLACES
    *     x A  y LENGTH B  (a b c ...) ROWS          : RESULT SIGN PLACES
    /     y LENGTH B  x LENGTH A  (... c b a) ROWS ± : RESULT SIGN PLACES

A product's row, one for each digit of B from its lowest that is not 0, is the accumulator so far, a
place further on, plus A times that digit. A quotient's row is what remains of ten times the last
remainder less a quotient digit times B. Before each digit of a row, the lowest apart, stands the
carry into it, so that no digit needs more than its own column.

Quotient digits are signed, so they need not be exact (SRT division; Robertson 1958): a remainder
below B in magnitude, of either sign, can still be made good by the digits after it.

Reading worked steps: which one is the first that is wrong.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from datagen.arithmetic import Number, Operation, Problem
from datagen.errors import DataError, NotationError
from datagen.notation import ALPHABET, render_answer, render_prompt
from datagen.splits import problem_hash

ROWS = "abcdefghijkl"  # a row's letter is the place of its digit: of B, or of the quotient
A_MARK, B_MARK, RESULT_MARK = "x", "y", ":"
MARKS = "$(=" + A_MARK + B_MARK + RESULT_MARK + ROWS  # what a row of any kind begins with
STEPS_ALPHABET = "".join(sorted(set(ALPHABET + MARKS)))
GUARD = 3  # a quotient has the answer's two places and a third, which decides the rounding
MIN_DIGITS, MAX_DIGITS = 3, 9  # a whole digit and two places; what the rows have letters for


class StepKind(StrEnum):
    """What a character of the work is there for."""

    OPERAND = "operand rewriting"
    SUM = "sum digit"
    PRODUCT = "product row"
    QUOTIENT = "quotient digit"
    REMAINDER = "remainder digit"
    ROUNDING = "rounding"
    SIGN = "sign"
    LAYOUT = "layout"
    ANSWER = "answer"  # not part of the work: the result, as the answer is written


@dataclass(frozen=True, slots=True)
class Step:
    """A piece of the work, and its kind."""

    kind: StepKind
    text: str


# (what is divided, divisor) -> a quotient digit that leaves less than the divisor
ChooseDigit = Callable[[int, int], int]


def nearest_digit(dividend: int, divisor: int) -> int:
    """The signed digit, -9 to 9, that leaves the least; halves go up."""
    return max(-9, min(9, (2 * dividend + divisor) // (2 * divisor)))


def loose_digits(problem: Problem) -> ChooseDigit:
    """A way to choose digits that a model can learn from to go on after any digit that will do:
    a quarter of them, by the problem's hash, are the second nearest. Where that leaves not less
    than the divisor, the nearest stays."""
    choices = problem_hash(problem)

    def choose(dividend: int, divisor: int) -> int:
        nonlocal choices
        choices, now = choices >> 2, choices & 3
        digit = nearest_digit(dividend, divisor)
        remainder = dividend - digit * divisor
        other = digit + (remainder > 0) - (remainder < 0)
        return other if now == 0 and abs(other) <= 9 else digit

    return choose


def work_steps(
    problem: Problem, digits: int, choose: ChooseDigit = nearest_digit
) -> Iterator[Step]:
    """The steps of a problem, in order, each made from those before it.

    NotationError, before the first step, if an operand has more than `digits` digits in hundredths;
    DataError for digits beyond MIN_DIGITS..MAX_DIGITS.
    """
    check_digits(digits)
    for operand in (problem.a, problem.b):
        if abs(operand.hundredths) >= 10**digits:
            raise NotationError(f"an operand needs more than {digits} digits", 0)
    write = {Operation.MUL: _product, Operation.DIV: _quotient}.get(problem.op, _sum)
    return write(problem, digits, choose)


def check_digits(digits: int) -> None:
    """DataError unless steps can be written with that many digits."""
    if not MIN_DIGITS <= digits <= MAX_DIGITS:
        raise DataError(f"digits must be from {MIN_DIGITS} to {MAX_DIGITS}, not {digits}")


def render_work(problem: Problem, digits: int, choose: ChooseDigit = nearest_digit) -> str:
    """The whole WORK of a problem; errors as `work_steps`."""
    return "".join(step.text for step in work_steps(problem, digits, choose))


def render(problem: Problem, digits: int, choose: ChooseDigit = nearest_digit) -> str:
    """The line of a problem, `$(A op B)=WORK=ANSWER$`, the answer read off the steps."""
    work = render_work(problem, digits, choose)
    return f"{render_prompt(problem)}{work}={render_answer(result(work))}$"


def result(work: str) -> Number | None:
    """The value that a well-formed work ends in; None is nan."""
    field = work.rpartition(RESULT_MARK)[2]
    if field == "n":
        return None
    figures, sign, places = field[:-2], field[-2], field[-1]
    magnitude = int(figures[::-1])
    return Number(-magnitude if sign == "-" else magnitude, places != "0")


def quotient_digits(work: str) -> set[int]:
    """The positions of the quotient digits in a work, well-formed or not: the only characters that
    do not follow from those before them."""
    if not work.startswith(B_MARK):  # only a quotient's does
        return set()
    return {match.end() - 1 for match in re.finditer(rf"[{ROWS}][+-][0-9]", work)}


def reversed_digits(value: int, count: int) -> str:
    """The last `count` digits, lowest first; a negative value as its ten's complement."""
    return str(value % 10**count).zfill(count)[::-1]


def _row(old: int, digit: int, number: int, digits: int) -> str:
    """old + digit * number, lowest digit first, each but the lowest with the carry into it before
    it; of a negative result, the ten's complement. `old` may be negative, too; where `digit` is,
    what is carried is borrowed."""
    new = reversed_digits(old + digit * number, digits)
    sign = 1 if digit >= 0 else -1
    carry, text = 0, new[0]
    for place in range(1, digits):
        column = 10 ** (place - 1)
        total = old // column % 10 + sign * (abs(digit) * (number // column % 10) + carry)
        carry = sign * (total // 10)
        text += str(carry) + new[place]
    return text


def _sum(problem: Problem, digits: int, choose: ChooseDigit) -> Iterator[Step]:
    a, b = problem.a.hundredths, problem.b.hundredths
    if problem.op == Operation.SUB:
        b = -b
    yield Step(StepKind.LAYOUT, A_MARK)
    yield Step(StepKind.OPERAND, reversed_digits(abs(a), digits))
    yield Step(StepKind.LAYOUT, B_MARK)
    yield Step(StepKind.OPERAND, reversed_digits(abs(b), digits))
    yield Step(StepKind.LAYOUT, ROWS[0])
    # A negative operand of magnitude 0 is none, so 0 agrees in sign with everything positive.
    alike = (a < 0) == (b < 0)
    yield Step(StepKind.SIGN, "+" if alike else "-")
    total = abs(a) + abs(b) if alike else abs(a) - abs(b)
    yield Step(StepKind.SUM, reversed_digits(total, digits + 1))
    yield from _result(problem, abs(total), (total < 0) != (a < 0), digits + 1)


def _product(problem: Problem, digits: int, choose: ChooseDigit) -> Iterator[Step]:
    a, b = abs(problem.a.hundredths), abs(problem.b.hundredths)
    yield Step(StepKind.LAYOUT, A_MARK)
    yield Step(StepKind.OPERAND, reversed_digits(a, digits))
    yield Step(StepKind.LAYOUT, B_MARK)
    yield Step(StepKind.OPERAND, str(length(b)) + reversed_digits(b, digits))
    product, accumulator = 0, 0
    for place in range(trailing_zeros(b), length(b)):
        digit = b // 10**place % 10
        row = _row(accumulator // 10, digit, a, digits + 1)
        accumulator = accumulator // 10 + digit * a
        product += (accumulator % 10) * 10**place
        yield Step(StepKind.LAYOUT, ROWS[place])
        yield Step(StepKind.PRODUCT, str(digit) + row)
    product += accumulator // 10 * 10 ** length(b)
    rounded, below = divmod(product, 100)
    rounded += below > 50 or (below == 50 and rounded % 2)
    yield from _result(problem, rounded, _signs_differ(problem), 2 * digits - 2)


def _quotient(problem: Problem, digits: int, choose: ChooseDigit) -> Iterator[Step]:
    a, b = abs(problem.a.hundredths), abs(problem.b.hundredths)
    divisor, remainder = _aligned(b, digits), _aligned(a, digits)
    yield Step(StepKind.LAYOUT, B_MARK)
    yield Step(StepKind.OPERAND, str(length(b)) + reversed_digits(divisor, digits))
    yield Step(StepKind.LAYOUT, A_MARK)
    yield Step(StepKind.OPERAND, str(length(a)) + reversed_digits(remainder, digits))
    if b == 0:
        yield Step(StepKind.LAYOUT, RESULT_MARK + "n")
        return
    quotient, last, first = 0, 0, length(a) - length(b) + GUARD
    for place in range(first, -1, -1):
        dividend = remainder if place == first else 10 * remainder
        yield Step(StepKind.LAYOUT, ROWS[place])
        yield Step(StepKind.SIGN, "-" if dividend < 0 else "+")
        digit = choose(dividend, divisor)
        yield Step(StepKind.QUOTIENT, str(abs(digit)))
        yield Step(StepKind.REMAINDER, _row(dividend, -digit, divisor, digits + 1))
        last, remainder = digit, dividend - digit * divisor
        quotient += digit * 10**place
    rounded = 0
    if first >= 0:
        rounded = (quotient - last) // 10  # without the digit of the thousandths
        carry = _rounding(last, remainder, rounded)
        yield Step(StepKind.ROUNDING, "-0+"[carry + 1])
        rounded += carry
    yield from _result(problem, rounded, _signs_differ(problem), digits + 2)


def _rounding(last: int, remainder: int, rounded: int) -> int:
    """What the last digit, -9 to 9, and the remainder below it add to the next one: -1, 0 or 1.
    Half goes to the even neighbour of `rounded`."""
    distance = (abs(last), remainder if last > 0 else -remainder)  # from 0, in magnitude
    if distance > (5, 0) or (distance == (5, 0) and rounded % 2):
        return 1 if last > 0 else -1
    return 0


def _result(problem: Problem, magnitude: int, negative: bool, digits: int) -> Iterator[Step]:
    """The part that all operations share, from which the answer is read off."""
    yield Step(StepKind.LAYOUT, RESULT_MARK)
    yield Step(StepKind.ROUNDING, reversed_digits(magnitude, digits))
    yield Step(StepKind.SIGN, "-" if negative and magnitude else "+")
    whole = not (problem.a.point or problem.b.point or problem.op == Operation.DIV)
    yield Step(StepKind.LAYOUT, "0" if whole else "2" if magnitude % 10 else "1")


def _signs_differ(problem: Problem) -> bool:
    return (problem.a.hundredths < 0) != (problem.b.hundredths < 0)


def length(value: int) -> int:
    """How many digits a magnitude has; 0 has none."""
    return len(str(value)) if value else 0


def trailing_zeros(value: int) -> int:
    """How many zeros a magnitude ends with; 0 ends with none."""
    return len(str(value)) - len(str(value).rstrip("0")) if value else 0


def _aligned(value: int, digits: int) -> int:
    """The magnitude shifted so that its first digit is the first of `digits`."""
    return int(value * 10 ** (digits - length(value)))


@dataclass(frozen=True, slots=True)
class WrongCharacter:
    """The first wrong character of a work, or of the answer after it."""

    kind: StepKind
    position: int  # in the text that was checked
    expected: str  # the character that follows from what stands before; "" where the text ends
    found: str  # "" where the text ends too early


def first_error(problem: Problem, work: str, digits: int) -> WrongCharacter | None:
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
                return WrongCharacter(step.kind, at, expected, found)
            at += 1
    return WrongCharacter(StepKind.LAYOUT, at, "", work[at]) if at < len(work) else None


def first_error_of_completion(problem: Problem, text: str, digits: int) -> WrongCharacter | None:
    """The same for all that stands after a prompt, `WORK=ANSWER$`."""
    work, equals, field = text.partition("=")
    fault = first_error(problem, work, digits)
    if fault:
        return fault
    if not equals:
        return WrongCharacter(StepKind.LAYOUT, len(work), "=", "")
    expected = render_answer(result(work)) + "$"
    for place, character in enumerate(expected):
        if field[place : place + 1] != character:
            found = field[place : place + 1]
            return WrongCharacter(StepKind.ANSWER, len(work) + 1 + place, character, found)
    if len(field) > len(expected):
        place = len(expected)
        return WrongCharacter(StepKind.ANSWER, len(work) + 1 + place, "", field[place])
    return None
