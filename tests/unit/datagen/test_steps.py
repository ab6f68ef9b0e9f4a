"""Worked steps: accepted, exact, and no character of them can be changed unnoticed."""

import dataclasses
from random import Random

import pytest
from datagen_strategies import problems_of
from hypothesis import example, given, settings
from hypothesis import strategies as st

from datagen import notation, steps
from datagen.arithmetic import Number, Operation, Problem, answer
from datagen.errors import DatasetError, NotationError
from datagen.notation import number_from_text
from datagen.steps import STEPS_ALPHABET, StepKind, render, render_work, result, work_steps
from datagen.steps_checker import Fault, first_fault, first_fault_of_completion

digits_and_problem = st.integers(3, 9).flatmap(
    lambda digits: st.tuples(st.just(digits), problems_of(digits))
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
            "x6431300y50071200a000000000b000000000c722491200d188235000e202086000:280208600000+2",
        ),
        ("0.5 * 0.25", "x0500000y25200000a505200000b252100000:210000000000+2"),  # 0.125, a tie
        (
            "400 / 344",
            "y50000443x50000004d+100006500c+200002789b-400006900a+300008299:611000000+2",
        ),
        ("0.05 / 1000", "y60000001x10000005:000000000+1"),
        ("5 / 0", "y00000000x30000005:n"),
    ],
)
def test_works_as_the_notation_spells_them_out(text: str, work: str) -> None:
    assert render_work(problem(text), 7) == work


@settings(max_examples=1500)
@given(digits_and_problem)
@example((7, problem("1 / 8")))  # a tie, to even
@example((7, problem("3 / 8")))  # a tie, up to even
@example((7, problem("0.0 / 0.01")))
@example((7, problem("99999.99 / 10000.01")))  # the digit 9 leaves nearly the divisor
@example((9, problem("9999999.99 / 0.01")))  # as many quotient digits as can be
def test_the_steps_are_accepted_and_end_in_the_exact_answer(case: tuple[int, Problem]) -> None:
    digits, problem = case
    work = render_work(problem, digits)
    assert first_fault(problem, work, digits) is None
    assert result(work) == answer(problem)
    assert set(work) <= set(STEPS_ALPHABET)


@given(digits_and_problem)
def test_a_line_is_the_direct_one_with_the_work_between(case: tuple[int, Problem]) -> None:
    digits, problem = case
    prompt, work, field = render(problem, digits).split("=")
    assert f"{prompt}={field}" == notation.render(problem)
    assert first_fault_of_completion(problem, f"{work}={field}", digits) is None


@settings(max_examples=300)
@given(digits_and_problem, st.data())
def test_every_change_of_one_character_is_caught_where_it_is_or_by_the_next_step(
    case: tuple[int, Problem], data: st.DataObject
) -> None:
    digits, problem = case
    work = render_work(problem, digits)
    for at, right in enumerate(work):
        wrong = data.draw(st.sampled_from(STEPS_ALPHABET.replace(right, "")))
        fault = first_fault(problem, work[:at] + wrong + work[at + 1 :], digits)
        assert fault is not None
        assert at <= fault.position <= at + digits + 1  # a quotient digit: in its remainder
        if fault.position > at:
            assert fault.kind == StepKind.REMAINDER


@given(digits_and_problem, st.data())
def test_a_work_cut_short_or_continued_is_a_fault_where_it_ends(
    case: tuple[int, Problem], data: st.DataObject
) -> None:
    digits, problem = case
    work = render_work(problem, digits)
    cut = data.draw(st.integers(0, len(work) - 1))
    fault = first_fault(problem, work[:cut], digits)
    assert fault is not None
    assert (fault.position, fault.found, fault.expected) == (cut, "", work[cut])
    longer = first_fault(problem, work + "0", digits)
    assert longer == Fault(StepKind.LAYOUT, len(work), "", "0")


@given(digits_and_problem, st.text(STEPS_ALPHABET, max_size=200))
def test_any_text_is_judged(case: tuple[int, Problem], text: str) -> None:
    digits, problem = case
    fault = first_fault_of_completion(problem, text, digits)
    assert fault is not None or text == render(problem, digits).partition("=")[2]


@settings(max_examples=300)
@given(problems_of(7), st.randoms(use_true_random=False))
def test_any_quotient_digits_that_leave_less_than_the_divisor_do(
    problem: Problem, random: Random
) -> None:
    problem = dataclasses.replace(problem, op=Operation.DIV)

    def some_digit(dividend: int, divisor: int) -> int:
        sign = -1 if dividend < 0 else 1  # a digit has the sign of what is divided
        good = [d for d in range(10) if abs(dividend - sign * d * divisor) < divisor]
        return sign * random.choice(good)

    work = "".join(step.text for step in work_steps(problem, 7, some_digit))
    assert first_fault(problem, work, 7) is None
    assert result(work) == answer(problem)


@pytest.mark.parametrize(
    ("text", "at", "wrong", "kind"),
    [
        ("753.78 + 910", 1, "7", StepKind.OPERAND),
        ("753.78 + 910", 17, "-", StepKind.SIGN),
        ("753.78 + 910", 18, "7", StepKind.SUM),
        ("753.78 + 910", 28, "1", StepKind.ROUNDING),
        ("753.78 + 910", 36, "1", StepKind.LAYOUT),
        ("313.46 * 217", 40, "7", StepKind.PRODUCT),
        ("400 / 344", 18, "b", StepKind.LAYOUT),
        ("400 / 344", 20, "4", StepKind.QUOTIENT),  # leaves more than the divisor
        ("400 / 344", 22, "9", StepKind.REMAINDER),
    ],
)
def test_a_fault_is_named_by_the_kind_of_its_step(
    text: str, at: int, wrong: str, kind: StepKind
) -> None:
    work = render_work(problem(text), 7)
    fault = first_fault(problem(text), work[:at] + wrong + work[at + 1 :], 7)
    assert fault == Fault(kind, at, work[at], wrong)


@pytest.mark.parametrize(
    ("end", "position", "expected", "found"),
    [
        ("", 37, "=", ""),
        ("=", 38, "8", ""),
        ("=87.3661000", 48, "$", ""),
        ("=87.4661000$", 41, "3", "4"),
        ("=87.3661000$$", 49, "", "$"),
    ],
)
def test_a_wrong_answer_to_right_steps_is_a_fault_of_its_own(
    end: str, position: int, expected: str, found: str
) -> None:
    question = problem("753.78 + 910")
    fault = first_fault_of_completion(question, render_work(question, 7) + end, 7)
    kind = StepKind.ANSWER if end else StepKind.LAYOUT
    assert fault == Fault(kind, position, expected, found)


@pytest.mark.parametrize("digits", [-1, 2, 10])
def test_digits_beyond_what_rows_can_hold_are_refused(digits: int) -> None:
    with pytest.raises(DatasetError, match="from 3 to 9"):
        render_work(problem("1 + 1"), digits)


@pytest.mark.parametrize("text", ["100000 + 1", "1 / -100000"])
def test_an_operand_that_is_too_long_is_refused(text: str) -> None:
    with pytest.raises(NotationError, match="more than 7 digits"):
        work_steps(problem(text), 7)  # before the first step is asked for
    assert render_work(problem(text), 8)


def test_the_rows_have_letters_enough() -> None:
    assert len(steps.ROWS) == steps.MAX_DIGITS + steps.GUARD
    work = render_work(Problem(Number(10**9 - 1, True), Operation.DIV, Number(1, True)), 9)
    assert set(steps.ROWS) <= set(work)
