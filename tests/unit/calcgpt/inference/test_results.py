"""What the notes and the errors of an answer say, with a model of worked steps."""

from collections.abc import Callable

import pytest
from datagen_strategies import any_problems, problems
from fake_decoder import right_with_work, wrong_at
from hypothesis import given
from hypothesis import strategies as st

from calcgpt.inference.calculator import Computation, value_of
from calcgpt.inference.expression_tree import show
from calcgpt.inference.limits import ScratchpadLimits
from calcgpt.inference.results import (
    NOT_CONFIDENT,
    Calculation,
    Confidence,
    confidence,
    read_answer,
)
from datagen.arithmetic import Problem, answer
from datagen.notation import answer_text, render_answer
from datagen.operations import ADDITION
from datagen.work_errors import quotient_digits

PROMPT = "$(0000000006/0000000344)="


def calculate(
    typed: str, places: int = 8, completion: Callable[[str], str] = right_with_work
) -> Calculation:
    """Returns the answer of a model that completes prompts by `completion`, by default rightly."""
    limits = ScratchpadLimits(10**6)
    computation = Computation(typed, "wide", limits, places)
    while questions := computation.questions():
        for question in questions:
            output = completion(question.prompt)
            computation.answer(question.node, output, [1.0] * len(output))
    return computation.calculation()


@pytest.mark.parametrize(
    ("typed", "places", "notes"),
    [
        ("1/4+1/8", 8, []),
        ("1/3", 8, ["rounded to 8 places"]),
        ("1/3+1", 1, ["rounded to 1 place"]),
        ("10/3*6", 8, []),  # the steps are rounded, the whole is 20
        ("1/3*3+0.5", 0, ["rounded to 0 places"]),
        ("1/1000000000", 8, ["rounded to 8 places, nothing is left: 1/1000000000 is not 0"]),
        ("1e-9/7^40", 8, ["rounded to 8 places, nothing is left: the exact value is not 0"]),
        ("0.001*0.001-1e-6", 2, []),
        ("100-10%", 8, ["read as: 100-10% as 100-(10% of 100)"]),
        ("$2/3", 1, ["read as: $2/3 as 2/3", "rounded to 1 place"]),
        ("-7//2", 8, ["read as: -7//2 as -7/2 rounded down"]),
    ],
)
def test_notes_say_how_it_was_read_and_whether_it_is_rounded(
    typed: str, places: int, notes: list[str]
) -> None:
    calculation = calculate(typed, places)
    assert calculation.notes == notes
    assert calculation.rounded == any("rounded to" in note for note in notes)
    assert (calculation.verified, calculation.errors) == (True, [])


def test_a_wrong_answer_does_not_change_what_is_said_of_rounding() -> None:
    for typed, notes in {
        "(2+3)/9": ["rounded to 8 places"],
        "(3+6)/9": [],  # the exact value is 1
        "1/3*3+0": [],
    }.items():
        calculation = calculate(typed, completion=wrong_at(ADDITION, right_with_work))
        assert (calculation.rounded, calculation.verified) == (bool(notes), False)
        assert calculation.notes == notes
        assert calculation.errors[0].startswith("wrong: ")


def test_only_a_verified_answer_stands_for_its_fraction() -> None:
    """Of others, later expressions get what the model wrote."""
    texts = [
        show(value) for typed in ("1/3", "3", "1/7^99") if (value := value_of(calculate(typed)))
    ]
    assert texts == ["1/3", "3", "0"]
    wrong = calculate("1+1/3", completion=wrong_at(ADDITION, right_with_work))
    assert [show(value) for value in [value_of(wrong)] if value] == ["42"]


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("$(0000000782+0000000021)=3080000000$", "803"),
        ("$(0000000782+0000000021)=1+2=3080000000$", "803"),
        ("$(0000000001/0000000000)=nan0000000$", "nan"),
        ("$(0000002.08-0000136.22)=41.431-000$", "-134.14"),
        ("$(0000000782+0000000021)=3080000000", None),
        ("$(0000000782+0000000021)=308$", None),
        ("$(0000000782+0000000021)=321.000000$", None),  # three places
        ("$(0000000782+0000000021)=$", None),
        ("$(0000000782+0000000021)=", None),
        ("$(0000000782+0000000021)=30+0000000$", None),
        ("$(0000000782+0000000021)=000000000-$", None),
    ],
)
def test_an_answer_is_read_or_is_none(text: str, result: str | None) -> None:
    assert read_answer(text)[0] == result


@given(problems | any_problems)
def test_every_right_answer_is_read_back(problem: Problem) -> None:
    value = answer(problem)
    text = f"={render_answer(value)}$"
    assert read_answer(text, problem.places) == (answer_text(value), value)


def test_the_three_confidences_by_hand() -> None:
    assert confidence(PROMPT, "5$", [0.5, 0.5]) == Confidence(
        answer=0.25, weakest_step=1.0, whole=0.25
    )
    written, probabilities = "+1=5.0$", [0.5, 0.25, 0.8, 0.5, 1.0, 1.0, 0.5]
    assert confidence(PROMPT, written, probabilities) == Confidence(
        answer=0.25, weakest_step=0.25, whole=0.5 * 0.25 * 0.8 * 0.5 * 0.5
    )


def test_quotient_digits_are_left_out() -> None:
    output = right_with_work(PROMPT)
    probabilities = [1.0] * len(output)
    probabilities[1] = probabilities[-1] = 0.5
    [digit, *_] = sorted(quotient_digits(PROMPT, output))
    probabilities[digit] = 0.1
    expected = Confidence(answer=0.5, weakest_step=0.5, whole=0.25)
    assert confidence(PROMPT, output, probabilities) == expected
    other = PROMPT.replace("/", "+")
    assert confidence(other, output, probabilities).weakest_step == 0.1
    assert confidence(PROMPT, f"x{output[1:]}", probabilities).weakest_step == 0.1  # no work


@pytest.mark.parametrize("output", ["", "+1=", "+1=5.0", "$+"])
def test_an_output_without_an_end_has_no_confidence(output: str) -> None:
    assert confidence(PROMPT, output, [1.0] * len(output)) == NOT_CONFIDENT


@given(st.text("+0=", max_size=30), st.data())
def test_neither_answer_nor_step_is_less_probable_than_the_whole(
    work: str, data: st.DataObject
) -> None:
    output = work + "$"
    probabilities = data.draw(st.lists(st.floats(0, 1), min_size=len(output), max_size=len(output)))
    result = confidence(PROMPT, output, probabilities)
    assert 0 <= result.whole <= min(result.answer, result.weakest_step)
    assert max(result.answer, result.weakest_step) <= 1
