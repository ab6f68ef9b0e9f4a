"""Worked steps are exact for all quotient digits, one line at a time and many at once."""

from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from work_strategies import number_text, prompts

from datagen.answer_layout import answer_field
from datagen.layout import layout, shape_of
from datagen.notation import WORK_ALPHABET as ALPHABET
from datagen.operations import RULES
from datagen.slots import Kind, Layout, Shape
from datagen.work import render, second_digits

EXACT = Context(prec=200, rounding=ROUND_HALF_EVEN)


def operand_texts(prompt: str) -> tuple[str, str, str]:
    """Returns A, the operation and B of a prompt, without padding."""
    text = prompt[prompt.index("(") + 1 : -2]
    op = next(i for i in range(10, len(text)) if text[i] in "+-*/")
    a, b = (field.lstrip("0") for field in (text[:op], text[op + 1 :]))
    return ("0" + a if a[:1] in (".", "") else a), text[op], ("0" + b if b[:1] in (".", "") else b)


def expected_answer(prompt: str) -> str:
    """Computes the answer field by fractions and decimals."""
    a, op, b = operand_texts(prompt)
    x, y = Fraction(a), Fraction(b)
    places = int(prompt[1 : prompt.index("(")] or 2)
    if op == "/" and y == 0:
        return "nan0000000$"
    exact = {"+": x + y, "-": x - y, "*": x * y}[op] if op != "/" else x / y
    if op != "/" and "." not in a + b:
        text = str(exact)
    else:
        shifted = Decimal(exact.numerator * 10**places)
        units = int(EXACT.to_integral_exact(EXACT.divide(shifted, Decimal(exact.denominator))))
        text = number_text(round(exact * 10**places), places)
        # Python's round of a fraction agrees with the decimal module wherever 200 digits suffice.
        assert units == round(exact * 10**places)
    return text.rjust(10, "0")[::-1] + "$"


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
    a_text = number_text(a, places + 1 + b_places + further)
    b_text = number_text(divisor, b_places)
    prompt = f"${places if places != 2 else ''}({a_text.rjust(10, '0')}/{b_text.rjust(10, '0')})="
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


def remainders(plan: Layout, line: bytes) -> list[tuple[int, int]]:
    """Returns remainder and divisor after each quotient digit."""
    rows: dict[int, str] = {}
    divisor = ""
    for slot, code in zip(plan, line, strict=False):
        if slot.kind is Kind.REMAINDER_DIGIT:
            rows[slot.row] = chr(code) + rows.get(slot.row, "")
        elif slot.kind in (Kind.B_DIGIT, Kind.B_ZERO):
            divisor = chr(code) + divisor
    values = [int(text) - (10 ** len(text) if text[0] == "9" else 0) for text in rows.values()]
    return [(remainder, int(divisor)) for remainder in values]


@given(prompts("/"), st.integers(0, 2**64 - 1))
def test_every_remainder_is_below_the_divisor(prompt: str, choices: int) -> None:
    plan = layout(shape_of(prompt))
    [line] = render([prompt.encode()], np.array([choices], np.uint64))
    if all(slot.kind is not Kind.QUOTIENT_DIGIT for slot in plan):
        return
    assert all(abs(remainder) < divisor for remainder, divisor in remainders(plan, line))


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
