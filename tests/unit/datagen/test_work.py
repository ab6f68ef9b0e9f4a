"""Worked steps are exact for all quotient digits, one line at a time and many at once."""

import numpy as np
import pytest
from datagen_strategies import prompts
from hypothesis import example, given, settings
from hypothesis import strategies as st

from datagen import notation
from datagen.answer_layout import answer_field
from datagen.arithmetic import Number, Problem
from datagen.layout import layout, shape_of
from datagen.notation import WORK_ALPHABET as ALPHABET
from datagen.operations import DIVISION, RULES
from datagen.slots import Kind, Layout, Shape
from datagen.work import render, second_digits


def expected_answer(prompt: str) -> str:
    return notation.render(notation.parse_prompt(prompt)).removeprefix(prompt)


@given(prompts(), st.integers(0, 2**64 - 1))
@example("$9(9999999999*9999999999)=", 0)
@example("$(0000000000/0000000.05)=", 0)
@settings(max_examples=200)
def test_answers_are_exact_with_any_quotient_digits(prompt: str, choices: int) -> None:
    expected = expected_answer(prompt)
    for words in (None, np.array([choices], np.uint64), np.array([0], np.uint64)):
        [line] = render([prompt.encode()], words)
        assert line.decode().rpartition("=")[2] == expected
        assert set(line.decode()) <= set(ALPHABET)


@given(
    result=st.integers(0, 10**4),
    divisor=st.integers(1, 10**4 - 1),
    b_places=st.integers(0, 2),
    places=st.integers(1, 4),
    further=st.integers(0, 2),
    difference=st.integers(-1, 1),
)
@settings(max_examples=50)
def test_quotients_beside_a_tie_are_rounded_by_the_last_digit_of_the_dividend(
    result: int, divisor: int, b_places: int, places: int, further: int, difference: int
) -> None:
    """With `further`, no row brings down the digit that is different."""
    a = (2 * result + 1) * 5 * divisor * 10**further + difference
    dividend = Number.from_units(a, places + 1 + b_places + further, True)
    problem = Problem(
        dividend, DIVISION, Number.from_units(divisor, b_places, b_places > 0), places
    )
    prompt = notation.render_prompt(problem)
    [line] = render([prompt.encode()])
    assert line.decode().rpartition("=")[2] == expected_answer(prompt)


@given(prompts())
@settings(max_examples=50)
def test_a_line_is_what_its_rules_write_slot_by_slot(prompt: str) -> None:
    slots = layout(shape_of(prompt))
    text = bytearray(prompt.encode().ljust(len(slots) + 1, b"\0"))  # NOWHERE reads the last one
    for position in range(len(prompt), len(slots)):
        slot = slots[position]
        sources = np.array([[text[source]] for source in slot.sources], np.uint8)
        text[position] = RULES[slot.kind](*sources)[0]
    field = "".join(character for _, character in answer_field(slots, bytes(text)))
    assert render([prompt.encode()]) == [bytes(text[:-1]) + field.encode()]


def quotient_digits(plan: Layout, line: bytes) -> list[int]:
    slots = zip(plan, line, strict=False)
    return [int(chr(code)) for slot, code in slots if slot.kind is Kind.QUOTIENT_DIGIT]


@given(prompts("/"), st.integers(0, 2**64 - 1))
@example("$(0000000992/0000116.95)=", 0)
def test_no_row_of_a_quotient_has_a_large_digit(prompt: str, choices: int) -> None:
    plan = layout(shape_of(prompt))
    [nearest] = render([prompt.encode()])
    [loose] = render([prompt.encode()], np.array([choices], np.uint64))
    first, *others = quotient_digits(plan, nearest) or [0]
    assert first <= 1
    assert max(others, default=0) <= 6
    assert max(quotient_digits(plan, loose), default=0) <= 8


def test_a_quarter_of_the_quotient_digits_are_chosen() -> None:
    second = second_digits(np.random.Philox(1).random_raw(2_000), 80)
    share = second.mean(axis=0)  # of each digit, also beyond the 32 of one word
    assert share.min() > 0.21
    assert share.max() < 0.29
    assert not np.array_equal(second[:, :32], second[:, 32:64])


def test_the_choice_of_a_quotient_digit_tells_nothing_of_the_next() -> None:
    second = second_digits(np.random.Philox(1).random_raw(20_000), 34)
    both = (second[:, :-1] & second[:, 1:]).mean(axis=0)
    assert both == pytest.approx(np.full(33, 1 / 16), abs=0.01)


@pytest.mark.parametrize(
    "text",
    ["", "$", "$(1+1)=", "$2(0000000001+0000000001)=", "$010(0000000001+0000000001)=", "x" * 26],
)
def test_what_is_no_prompt_has_no_shape(text: str) -> None:
    assert shape_of(text) is None
    with pytest.raises(ValueError, match="not a prompt"):
        render([text.encode()])


def test_a_layout_depends_on_lengths_only() -> None:
    shape = shape_of("$(0000000123*0000000.45)=")
    assert shape == shape_of("$(0000000999*0000000.11)=")
    assert shape == Shape("*", 3, 0, 2, 2, 2, 10, 10)
