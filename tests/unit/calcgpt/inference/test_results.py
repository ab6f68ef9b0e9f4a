"""What the notes of an answer say about rounding, with a model of worked steps."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

import pytest
from expressions import expressions
from fake_decoder import right_with_work, wrong_at
from hypothesis import given, settings
from hypothesis import strategies as st

from calcgpt.config import Domain
from calcgpt.errors import ExpressionError
from calcgpt.inference.calculator import Computation
from calcgpt.inference.limits import ScratchpadLimits
from calcgpt.inference.results import Calculation
from datagen.arithmetic import Operation

STEPS = "each step is rounded to 8 places"
TOO_LARGE = f"1/(1/3*3-1+{'(' * 11}0.1^2{')^2' * 11})"  # 10^4096, which Python cannot write
LONG = "+".join([f"({'+'.join(['1%'] * 30)})"] * 3)  # 1/100+1/100+... is too long an expression


def calculate(
    typed: str, places: int = 8, completion: Callable[[str], str] = right_with_work
) -> Calculation:
    """Returns the answer of a model that completes prompts by `completion`, by default rightly."""
    computation = Computation(
        typed, "wide", ScratchpadLimits(Domain(digits=100, places=9), 10**6), places
    )
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
        ("10/3*6", 2, []),  # 19.99999998 to two places is the value, 20
        ("1/3-1/3", 8, []),
        ("10/3*6", 8, [f"{STEPS}; without rounding, it is 20"]),
        ("-(2/3)*3", 8, [f"{STEPS}; without rounding, it is -2"]),
        ("1000000*1.035^10", 8, [f"{STEPS}; without rounding, it is 1410598.760621122183"]),
        ("3/7*100000", 2, ["rounded to 2 places"]),
        (
            "3/7*10000000",
            2,
            [f"{STEPS}, the last to 2; without rounding, it is 4285714.285714285714"],
        ),
        ("10/3*6", 9, ["each step is rounded to 9 places; without rounding, it is 20"]),
        ("1/(1/3*3-1)", 8, [f"{STEPS}; without rounding, it divides by zero"]),
        (f"{'(' * 15}0.1^2{')^2' * 15}", 8, [f"{STEPS}, so the result may be off"]),  # 0.1^65536
        (TOO_LARGE, 8, [f"{STEPS}, so the result may be off"]),
        (f"{LONG}/7", 8, [f"{STEPS}, so the result may be off"]),
    ],
)
def test_notes_say_how_far_rounding_has_gone(typed: str, places: int, notes: list[str]) -> None:
    assert calculate(typed, places).notes == notes


NUMBER = re.compile(r"(?<![\d^])[\d.]+")  # no exponent


@settings(max_examples=100)
@given(expressions(), st.integers(1, 9))
def test_an_answer_is_said_to_be_rounded_only_if_its_value_rounds_to_it(
    typed: str, places: int
) -> None:
    try:
        calculation = calculate(typed, places)
    except ExpressionError:  # division by zero
        return
    [note], result = calculation.notes or [None], Fraction(calculation.exact)
    text = NUMBER.sub(lambda number: f"Fraction('{number[0]}')", typed.strip())
    try:
        value = eval(text.replace("^", "**"))  # Python is the second implementation
    except ZeroDivisionError:
        assert note
        assert note.endswith("it divides by zero")
        return
    if note is None:
        assert value == result
    elif note.startswith("rounded to"):
        assert Fraction(round(value * 10**places), 10**places) == result != value
    else:
        shown = Fraction(note.rpartition(" ")[2])
        assert abs(shown - value) <= Fraction(1, 2 * 10**12)
        assert abs(result - value) >= Fraction(1, 2 * 10**places)


def test_a_wrong_answer_does_not_change_what_is_said_of_rounding() -> None:
    for typed, notes in {
        "(2+3)/9": ["rounded to 8 places"],
        "(3+6)/9": [],  # the exact value is 1
        "1/3*3+0": [f"{STEPS}; without rounding, it is 1"],
    }.items():
        calculation = calculate(typed, completion=wrong_at(Operation.ADD, right_with_work))
        assert (calculation.rounded, calculation.verified) == (True, False)
        assert calculation.notes == notes
        assert calculation.errors[0].startswith("wrong: ")
