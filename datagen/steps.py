"""Worked steps between question and answer, `$(A op B)=WORK=ANSWER$`, and their checker.

    (2.08-136.22)    x8020000y2263100a-68568999:41431000-2=...
                     (docs/NOTATION.md spells one out for each operation)

Numbers are in hundredths and have W digits, the lowest first, so that a digit follows from a few
earlier ones at fixed distances. A letter or a colon begins each row.

    + -   x A  y B  a± SUM                           : RESULT SIGN PLACES
    *     x A  y LENGTH B  (a b c ...) ROWS          : RESULT SIGN PLACES
    /     y LENGTH B  x LENGTH A  (... c b a) ROWS ± : RESULT SIGN PLACES

A product has a row for each digit of B, from the lowest that is not 0: the accumulator, shifted by
one place, plus A times the digit. A row of a quotient is ten times the last remainder, minus a
quotient digit times B. Each digit of a row except the lowest follows the carry into it, so that it
needs only its own column.

Quotient digits have a sign and need not be exact (SRT division, Robertson 1958): later digits can
correct any remainder whose magnitude is below B.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from datagen.arithmetic import USUAL_PLACES, Number, Operation, Problem
from datagen.errors import DataError, NotationError
from datagen.notation import ALPHABET, render_answer, render_prompt
from datagen.splits import problem_hash

ROWS = "abcdefghijkl"  # the letter of a row is the place of its digit in B or the quotient
A_MARK, B_MARK, RESULT_MARK = "x", "y", ":"
MARKS = "$(=" + A_MARK + B_MARK + RESULT_MARK + ROWS  # the characters that begin a row
STEPS_ALPHABET = "".join(sorted(set(ALPHABET + MARKS)))
GUARD = 3  # a quotient has the two places of the answer and a third for the rounding
MIN_DIGITS, MAX_DIGITS = 3, 9  # one digit and two places; as many as ROWS has letters for


class StepKind(StrEnum):
    """The purpose of a character of the work."""

    OPERAND = "operand rewriting"
    SUM = "sum digit"
    PRODUCT = "product row"
    QUOTIENT = "quotient digit"
    REMAINDER = "remainder digit"
    ROUNDING = "rounding"
    SIGN = "sign"
    LAYOUT = "layout"
    ANSWER = "answer"  # after the work


@dataclass(frozen=True, slots=True)
class Step:
    """Some characters of the work, of one kind."""

    kind: StepKind
    text: str


# (dividend, divisor) -> a quotient digit that leaves a remainder below the divisor
ChooseDigit = Callable[[int, int], int]


def nearest_digit(dividend: int, divisor: int) -> int:
    """Returns the digit, -9 to 9, with the smallest remainder. Ties go up."""
    return max(-9, min(9, (2 * dividend + divisor) // (2 * divisor)))


def loose_digits(problem: Problem) -> ChooseDigit:
    """Returns a function that makes a quarter of the quotient digits, by hash, the second nearest.

    From them a model learns to continue after any digit that is right. If the second nearest digit
    is beyond 9, the nearest stays.
    """
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
    """Returns the steps of a problem, in order. Each follows from those before it.

    Raises NotationError if an operand has more than two places or more than `digits` digits in
    hundredths, or the answer shall have other than two places, and DataError as `check_digits`.
    """
    check_digits(digits)
    if problem.places != USUAL_PLACES:
        raise NotationError("worked steps have answers of two places", 0)
    for operand in (problem.a, problem.b):
        if operand.places > USUAL_PLACES:
            raise NotationError("worked steps have operands of at most two places", 0)
        if abs(_hundredths(operand)) >= 10**digits:
            raise NotationError(f"an operand needs more than {digits} digits", 0)
    write = {Operation.MUL: _product, Operation.DIV: _quotient}.get(problem.op, _sum)
    return write(problem, digits, choose)


def check_digits(digits: int) -> None:
    """Raises DataError unless MIN_DIGITS <= digits <= MAX_DIGITS."""
    if not MIN_DIGITS <= digits <= MAX_DIGITS:
        raise DataError(f"digits must be from {MIN_DIGITS} to {MAX_DIGITS}, not {digits}")


def render_work(problem: Problem, digits: int, choose: ChooseDigit = nearest_digit) -> str:
    """Returns the WORK of a problem. Raises what `work_steps` raises."""
    return "".join(step.text for step in work_steps(problem, digits, choose))


def render(problem: Problem, digits: int, choose: ChooseDigit = nearest_digit) -> str:
    """Returns the line of a problem, `$(A op B)=WORK=ANSWER$`. The steps give the answer."""
    work = render_work(problem, digits, choose)
    return f"{render_prompt(problem)}{work}={render_answer(result(work))}$"


def result(work: str) -> Number | None:
    """Returns the result of a valid work; None means nan."""
    field = work.rpartition(RESULT_MARK)[2]
    if field == "n":
        return None
    digits, sign, places = field[:-2], field[-2], field[-1]
    magnitude = int(digits[::-1])
    hundredths = -magnitude if sign == "-" else magnitude
    return Number.from_units(hundredths, USUAL_PLACES, places != "0")


def quotient_digits(work: str) -> set[int]:
    """Returns the positions of the quotient digits in a work, even in an invalid one.

    They are the only characters that do not follow from those before them.
    """
    if not work.startswith(B_MARK):  # only the work of a quotient does
        return set()
    return {match.end() - 1 for match in re.finditer(rf"[{ROWS}][+-][0-9]", work)}


def reversed_digits(value: int, count: int) -> str:
    """Returns the last `count` digits, lowest first, of the ten's complement if negative."""
    return str(value % 10**count).zfill(count)[::-1]


def _row(old: int, digit: int, number: int, digits: int) -> str:
    """Returns old + digit * number like `reversed_digits`, with the carry before each digit.

    The lowest digit has no carry. If `digit` is negative, the carries are borrows.
    """
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
    a, b = _hundredths(problem.a), _hundredths(problem.b)
    if problem.op == Operation.SUB:
        b = -b
    yield Step(StepKind.LAYOUT, A_MARK)
    yield Step(StepKind.OPERAND, reversed_digits(abs(a), digits))
    yield Step(StepKind.LAYOUT, B_MARK)
    yield Step(StepKind.OPERAND, reversed_digits(abs(b), digits))
    yield Step(StepKind.LAYOUT, ROWS[0])
    # Zero counts as positive.
    same_sign = (a < 0) == (b < 0)
    yield Step(StepKind.SIGN, "+" if same_sign else "-")
    total = abs(a) + abs(b) if same_sign else abs(a) - abs(b)
    yield Step(StepKind.SUM, reversed_digits(total, digits + 1))
    yield from _result(problem, abs(total), (total < 0) != (a < 0), digits + 1)


def _product(problem: Problem, digits: int, choose: ChooseDigit) -> Iterator[Step]:
    a, b = abs(_hundredths(problem.a)), abs(_hundredths(problem.b))
    yield Step(StepKind.LAYOUT, A_MARK)
    yield Step(StepKind.OPERAND, reversed_digits(a, digits))
    yield Step(StepKind.LAYOUT, B_MARK)
    yield Step(StepKind.OPERAND, str(n_digits(b)) + reversed_digits(b, digits))
    product, accumulator = 0, 0
    for place in range(trailing_zeros(b), n_digits(b)):
        digit = b // 10**place % 10
        row = _row(accumulator // 10, digit, a, digits + 1)
        accumulator = accumulator // 10 + digit * a
        product += (accumulator % 10) * 10**place
        yield Step(StepKind.LAYOUT, ROWS[place])
        yield Step(StepKind.PRODUCT, str(digit) + row)
    product += accumulator // 10 * 10 ** n_digits(b)
    rounded, below = divmod(product, 100)
    rounded += below > 50 or (below == 50 and rounded % 2)
    yield from _result(problem, rounded, _signs_differ(problem), 2 * digits - 2)


def _quotient(problem: Problem, digits: int, choose: ChooseDigit) -> Iterator[Step]:
    a, b = abs(_hundredths(problem.a)), abs(_hundredths(problem.b))
    divisor, remainder = _aligned(b, digits), _aligned(a, digits)
    yield Step(StepKind.LAYOUT, B_MARK)
    yield Step(StepKind.OPERAND, str(n_digits(b)) + reversed_digits(divisor, digits))
    yield Step(StepKind.LAYOUT, A_MARK)
    yield Step(StepKind.OPERAND, str(n_digits(a)) + reversed_digits(remainder, digits))
    if b == 0:
        yield Step(StepKind.LAYOUT, RESULT_MARK + "n")
        return
    quotient, last, first = 0, 0, n_digits(a) - n_digits(b) + GUARD
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
    """Returns what the last digit, -9 to 9, and its remainder add to the next: -1, 0 or 1.

    Ties go to even, so they depend on `rounded`.
    """
    distance = (abs(last), remainder if last > 0 else -remainder)  # from 0
    if distance > (5, 0) or (distance == (5, 0) and rounded % 2):
        return 1 if last > 0 else -1
    return 0


def _result(problem: Problem, magnitude: int, negative: bool, digits: int) -> Iterator[Step]:
    """Yields the last row, which all operations share. The answer is a copy of it."""
    yield Step(StepKind.LAYOUT, RESULT_MARK)
    yield Step(StepKind.ROUNDING, reversed_digits(magnitude, digits))
    yield Step(StepKind.SIGN, "-" if negative and magnitude else "+")
    whole = not (problem.a.point or problem.b.point or problem.op == Operation.DIV)
    yield Step(StepKind.LAYOUT, "0" if whole else "2" if magnitude % 10 else "1")


def _hundredths(number: Number) -> int:
    return number.scaled(USUAL_PLACES)


def _signs_differ(problem: Problem) -> bool:
    return (_hundredths(problem.a) < 0) != (_hundredths(problem.b) < 0)


def n_digits(value: int) -> int:
    """Returns the number of digits of a magnitude; 0 has none."""
    return len(str(value)) if value else 0


def trailing_zeros(value: int) -> int:
    """Returns the number of zeros at the end of a magnitude; 0 has none."""
    return len(str(value)) - len(str(value).rstrip("0")) if value else 0


def _aligned(value: int, digits: int) -> int:
    """Returns the magnitude, shifted so that it has `digits` digits."""
    return int(value * 10 ** (digits - n_digits(value)))


@dataclass(frozen=True, slots=True)
class WrongCharacter:
    """The first wrong character of a work, or of the answer after it."""

    kind: StepKind
    position: int  # in the text that was checked
    expected: str  # "" if the text should end
    actual: str  # "" if the text ends too early


def first_error(problem: Problem, work: str, digits: int) -> WrongCharacter | None:
    """Returns the first wrong character of a WORK, or None if there is none.

    Each step must follow from those before it. A quotient digit is right if it leaves a remainder
    below the divisor, because later digits can correct it. A work without an error always ends in
    the exact answer. Raises what `work_steps` raises.
    """
    position = 0

    def written_digit(dividend: int, divisor: int) -> int:
        character = work[position : position + 1]
        if character in set("0123456789"):
            digit = -int(character) if dividend < 0 else int(character)
            if abs(dividend - digit * divisor) < divisor:
                return digit
        return nearest_digit(dividend, divisor)

    for step in work_steps(problem, digits, written_digit):
        for expected in step.text:
            actual = work[position : position + 1]
            if actual != expected:
                return WrongCharacter(step.kind, position, expected, actual)
            position += 1
    if position < len(work):
        return WrongCharacter(StepKind.LAYOUT, position, "", work[position])
    return None


def first_error_of_completion(problem: Problem, text: str, digits: int) -> WrongCharacter | None:
    """Does what `first_error` does for `WORK=ANSWER$`, the text after a prompt."""
    work, equals, field = text.partition("=")
    if error := first_error(problem, work, digits):
        return error
    if not equals:
        return WrongCharacter(StepKind.LAYOUT, len(work), "=", "")
    true_field = render_answer(result(work)) + "$"
    for i in range(max(len(true_field), len(field))):
        expected, actual = true_field[i : i + 1], field[i : i + 1]
        if expected != actual:
            return WrongCharacter(StepKind.ANSWER, len(work) + 1 + i, expected, actual)
    return None
