"""What the notes and the errors of an answer say, with a model of worked steps."""

from collections.abc import Callable

import pytest
from fake_decoder import right_with_work, wrong_at

from calcgpt.inference.calculator import Computation, value_of
from calcgpt.inference.expression_tree import show
from calcgpt.inference.limits import ScratchpadLimits
from calcgpt.inference.results import Calculation
from datagen.operations import ADDITION


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
