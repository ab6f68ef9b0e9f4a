"""Worked steps are exact, and their checker finds every changed character."""

import dataclasses
import re
from random import Random

import pytest
from datagen_strategies import decimal, digits_and_problem, problems_of
from hypothesis import example, given, settings
from hypothesis import strategies as st

from datagen import notation, steps
from datagen.arithmetic import Operation, Problem, answer
from datagen.errors import DataError, NotationError
from datagen.notation import number_from_text
from datagen.steps import (
    STEPS_ALPHABET,
    ChooseDigit,
    StepKind,
    WrongCharacter,
    first_error,
    first_error_of_completion,
    loose_digits,
    nearest_digit,
    render,
    render_work,
    result,
    work_steps,
)


def problem(text: str) -> Problem:
    a, op, b = text.split()
    return Problem(number_from_text(a), Operation(op), number_from_text(b))


@pytest.mark.parametrize(
    ("text", "work"),
    [
        ("753.78 + 910", "x8735700y0001900a+87366100:87366100+2"),
        ("2.08 - 136.22", "x8020000y2263100a-68568999:41431000-2"),
        ("-3 - -3.0", "x0030000y0030000a-00000000:00000000+1"),
        (
            "313.46 * 217",
            "x6431300y50071200c7242342901220000d1808021305000000e2022101806000000:280208600000+2",
        ),
        (  # 0.125, a tie
            "0.5 * 0.25",
            "x0500000y25200000a5005220000000000b2502110000000000:210000000000+2",
        ),
        ("2.5 * 40", "x0520000y40004000d4000201100000000:000010000000+1"),
        ("-12.5 * 0", "x0521000y00000000:000000000000+1"),
        (
            "400 / 344",
            "y50000443x50000004d+1000000006151000c+2000000002171819b-4000000006191020"
            "a+30000000082219190:611000000+2",
        ),
        (  # -0.125: -5 is a tie, from 13 to the even 12
            "-9 / 72",
            "y40000027x30000009c+1000000000081100b+3000000000041629a-5000000000001040-:210000000-2",
        ),
        ("0.05 / 1000", "y60000001x10000005:000000000+1"),
        ("5 / 0", "y00000000x30000005:n"),
    ],
)
def test_works_as_the_notation_spells_them_out(text: str, work: str) -> None:
    assert render_work(problem(text), 7) == work


@settings(max_examples=500)
@given(digits_and_problem)
@example((7, problem("1 / 8")))  # a tie, to even
@example((7, problem("3 / 8")))  # a tie, up to even
@example((7, problem("0.0 / 0.01")))
@example((7, problem("99999.99 / 10000.01")))  # the digit 9 leaves nearly the divisor
@example((9, problem("9999999.99 / 0.01")))  # as many quotient digits as can be
def test_the_steps_are_accepted_and_end_in_the_exact_answer(case: tuple[int, Problem]) -> None:
    digits, problem = case
    work = render_work(problem, digits)
    assert first_error(problem, work, digits) is None
    assert result(work) == answer(problem)
    assert set(work) <= set(STEPS_ALPHABET)


OPERANDS = "LAYOUT OPERAND LAYOUT OPERAND "
ROWS_OF = {
    Operation.ADD: "LAYOUT SIGN SUM ",
    Operation.SUB: "LAYOUT SIGN SUM ",
    Operation.MUL: "(LAYOUT PRODUCT )*",
    Operation.DIV: "(LAYOUT SIGN QUOTIENT REMAINDER )*(ROUNDING )?",
}
RESULT = "LAYOUT ROUNDING SIGN LAYOUT "


@given(digits_and_problem)
def test_a_step_is_of_the_kind_that_its_place_says(case: tuple[int, Problem]) -> None:
    digits, problem = case
    kinds = "".join(f"{step.kind.name} " for step in work_steps(problem, digits))
    if answer(problem) is None:
        assert kinds == OPERANDS + "LAYOUT "
    else:
        assert re.fullmatch(OPERANDS + ROWS_OF[problem.op] + RESULT, kinds)


@given(digits_and_problem)
def test_a_line_is_the_direct_one_with_the_work_between(case: tuple[int, Problem]) -> None:
    digits, problem = case
    prompt, work, field = render(problem, digits).split("=")
    assert f"{prompt}={field}" == notation.render(problem)
    assert first_error_of_completion(problem, f"{work}={field}", digits) is None


@settings(max_examples=300)
@given(digits_and_problem, st.integers(0, 2**32))
def test_every_change_of_one_character_is_caught_where_it_is_or_by_the_next_step(
    case: tuple[int, Problem], seed: int
) -> None:
    digits, problem = case
    random = Random(seed)
    work = render_work(problem, digits)
    for at, right in enumerate(work):
        wrong = random.choice(STEPS_ALPHABET.replace(right, ""))
        error = first_error(problem, work[:at] + wrong + work[at + 1 :], digits)
        assert error is not None
        assert at <= error.position <= at + 2 * digits + 1  # a quotient digit: in its row
        if error.position > at:
            assert error.kind == StepKind.REMAINDER


@given(digits_and_problem, st.data())
def test_a_work_that_is_too_short_or_too_long_is_wrong_where_it_ends(
    case: tuple[int, Problem], data: st.DataObject
) -> None:
    digits, problem = case
    work = render_work(problem, digits)
    cut = data.draw(st.integers(0, len(work) - 1))
    error = first_error(problem, work[:cut], digits)
    assert error is not None
    assert (error.position, error.actual, error.expected) == (cut, "", work[cut])
    longer = first_error(problem, work + "0", digits)
    assert longer == WrongCharacter(StepKind.LAYOUT, len(work), "", "0")


@given(digits_and_problem, st.text(STEPS_ALPHABET, max_size=200))
def test_the_checker_takes_any_text(case: tuple[int, Problem], text: str) -> None:
    digits, problem = case
    error = first_error_of_completion(problem, text, digits)
    assert error is not None or text == render(problem, digits).partition("=")[2]


@settings(max_examples=300)
@given(problems_of(7), st.randoms(use_true_random=False))
def test_any_quotient_digit_with_a_remainder_below_the_divisor_is_right(
    problem: Problem, random: Random
) -> None:
    problem = dataclasses.replace(problem, op=Operation.DIV)

    def some_digit(dividend: int, divisor: int) -> int:
        sign = -1 if dividend < 0 else 1  # a digit has the sign of what is divided
        good = [d for d in range(10) if abs(dividend - sign * d * divisor) < divisor]
        return sign * random.choice(good)

    work = render_work(problem, 7, some_digit)
    assert first_error(problem, work, 7) is None
    assert result(work) == answer(problem)


@settings(max_examples=500)
@given(digits_and_problem)
def test_loose_digits_lead_to_the_exact_answer(case: tuple[int, Problem]) -> None:
    digits, problem = case
    problem = dataclasses.replace(problem, op=Operation.DIV)
    work = render_work(problem, digits, loose_digits(problem))
    assert first_error(problem, work, digits) is None
    assert result(work) == answer(problem)
    assert render_work(problem, digits, loose_digits(problem)) == work  # it is not random


def test_about_a_quarter_of_loose_digits_are_the_second_nearest() -> None:
    random = Random(0)
    chosen: list[tuple[int, int]] = []  # with the nearest digit
    later: set[int] = set()  # magnitudes after the first row

    for _ in range(1000):
        a, b = (decimal(random.randrange(1, 10**7)) for _ in "ab")
        question = Problem(a, Operation.DIV, b)
        loose, before = loose_digits(question), len(chosen)

        def record(dividend: int, divisor: int, loose: ChooseDigit = loose) -> int:
            chosen.append((loose(dividend, divisor), nearest_digit(dividend, divisor)))
            return chosen[-1][0]

        render_work(question, 7, record)
        later |= {abs(digit) for digit, _ in chosen[before + 1 :]}
    others = sum(digit != nearest for digit, nearest in chosen)
    assert 0.22 < others / len(chosen) < 0.26
    assert later == set(range(10))  # so that each digit is learnt


@settings(max_examples=500)
@given(digits_and_problem, st.sampled_from([Operation.MUL, Operation.DIV]), st.booleans())
def test_digits_and_carries_of_a_row_follow_from_its_columns(
    case: tuple[int, Problem], op: Operation, loose: bool
) -> None:
    digits, problem = case
    problem = dataclasses.replace(problem, op=op)
    choose = loose_digits(problem) if loose else nearest_digit
    work = render_work(problem, digits, choose)
    operands = {row[0]: [int(c) for c in row[1:]] for row in re.findall(r"[xy]\d+", work)}
    a, b = ([*operands[mark][-digits:], 0] for mark in "xy")
    multiplied = a if op == Operation.MUL else b
    old = [0] * len(a) if op == Operation.MUL else a
    rows = re.findall(rf"[a-l]([+-]?)(\d)(\d{{{2 * digits + 1}}})", work)
    for dividend_sign, digit, row in rows:
        written, carries = [int(c) for c in row[::2]], [0, *map(int, row[1::2])]
        sign = -1 if dividend_sign == "+" else 1  # of a positive dividend B is taken away
        for place in range(digits + 1):
            column = old[place] + sign * (int(digit) * multiplied[place] + carries[place])
            if place < digits:
                assert column == written[place] + sign * 10 * carries[place + 1]
            else:  # what is beyond the highest digit is dropped
                assert column % 10 == written[place]
        old = [*written[1:], 0] if op == Operation.MUL else [0, *written[:-1]]
    if op == Operation.MUL:
        factor = "".join(map(str, b)).rstrip("0")
        assert "".join(digit for _, digit, _ in rows) == factor.lstrip("0")


@pytest.mark.parametrize(
    ("text", "at", "wrong", "kind"),
    [
        ("753.78 + 910", 1, "7", StepKind.OPERAND),
        ("753.78 + 910", 17, "-", StepKind.SIGN),
        ("753.78 + 910", 18, "7", StepKind.SUM),
        ("753.78 + 910", 28, "1", StepKind.ROUNDING),
        ("753.78 + 910", 36, "1", StepKind.LAYOUT),
        ("313.46 * 217", 18, "8", StepKind.PRODUCT),  # B's digit
        ("313.46 * 217", 20, "7", StepKind.PRODUCT),  # a carry
        ("313.46 * 217", 21, "7", StepKind.PRODUCT),  # a digit
        ("400 / 344", 18, "b", StepKind.LAYOUT),
        ("400 / 344", 20, "4", StepKind.QUOTIENT),  # leaves more than the divisor
        ("400 / 344", 22, "9", StepKind.REMAINDER),  # a borrow
        ("400 / 344", 23, "9", StepKind.REMAINDER),
        ("400 / 344", 90, "+", StepKind.ROUNDING),  # what the digit of the thousandths adds
    ],
)
def test_an_error_has_the_kind_of_its_step(text: str, at: int, wrong: str, kind: StepKind) -> None:
    work = render_work(problem(text), 7)
    error = first_error(problem(text), work[:at] + wrong + work[at + 1 :], 7)
    assert error == WrongCharacter(kind, at, work[at], wrong)


@pytest.mark.parametrize(
    ("end", "position", "expected", "actual"),
    [
        ("", 37, "=", ""),
        ("=", 38, "8", ""),
        ("=87.3661000", 48, "$", ""),
        ("=87.4661000$", 41, "3", "4"),
        ("=87.3661000$$", 49, "", "$"),
    ],
)
def test_a_wrong_answer_after_right_steps_has_its_own_kind(
    end: str, position: int, expected: str, actual: str
) -> None:
    question = problem("753.78 + 910")
    error = first_error_of_completion(question, render_work(question, 7) + end, 7)
    kind = StepKind.ANSWER if end else StepKind.LAYOUT
    assert error == WrongCharacter(kind, position, expected, actual)


@pytest.mark.parametrize("digits", [-1, 2, 10])
def test_digits_beyond_what_rows_can_hold_are_refused(digits: int) -> None:
    with pytest.raises(DataError, match="from 3 to 9"):
        render_work(problem("1 + 1"), digits)


@pytest.mark.parametrize("text", ["100000 + 1", "1 / -100000"])
def test_an_operand_that_is_too_long_is_refused(text: str) -> None:
    with pytest.raises(NotationError, match="more than 7 digits"):
        work_steps(problem(text), 7)  # before the first step
    assert render_work(problem(text), 8)


def test_the_rows_have_enough_letters() -> None:
    assert len(steps.ROWS) == steps.MAX_DIGITS + steps.GUARD
    work = render_work(Problem(decimal(10**9 - 1), Operation.DIV, decimal(1)), 9)
    assert set(steps.ROWS) <= set(work)
