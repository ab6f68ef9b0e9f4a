"""The checker of worked steps finds every wrong character, and only those."""

from random import Random

import numpy as np
import pytest
from datagen_strategies import prompts
from hypothesis import given, settings
from hypothesis import strategies as st

from calcgpt.base.errors import NotationError
from datagen import notation
from datagen.arithmetic import Number, Problem
from datagen.layout import layout, shape_of
from datagen.notation import WORK_ALPHABET as ALPHABET
from datagen.operations import MULTIPLICATION, RULES
from datagen.slots import Kind, StepKind
from datagen.work import render
from datagen.work_errors import (
    WrongCharacter,
    first_error,
    first_error_of_completion,
    quotient_digits,
)

QUOTIENT = "$(0000000006/0000000344)="
QUOTIENT_WORK = "+6+4430;60000+000600000+221119190-3021511110:20+"


def completion(prompt: str, choices: int | None = None) -> str:
    """Returns what follows a prompt, with quotient digits that `choices` chooses."""
    words = None if choices is None else np.array([choices], np.uint64)
    [line] = render([prompt.encode()], words)
    return line.decode().removeprefix(prompt)


@given(prompts(), st.none() | st.integers(0, 2**64 - 1))
@settings(max_examples=200)
def test_a_right_line_has_no_error(prompt: str, choices: int | None) -> None:
    text = completion(prompt, choices)
    assert first_error_of_completion(prompt, text) is None
    assert first_error(prompt, text.partition("=")[0]) is None


@given(prompts(), st.none() | st.integers(0, 2**64 - 1), st.data())
@settings(max_examples=150)
def test_a_changed_character_is_found_where_it_is(
    prompt: str, choices: int | None, data: st.DataObject
) -> None:
    text = completion(prompt, choices)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from(sorted(set(ALPHABET + "x") - {text[at], "="})))
    damaged = text[:at] + other + text[at + 1 :]
    error = first_error_of_completion(prompt, damaged)
    if at in quotient_digits(prompt, text) and other.isdigit():
        # Another digit may be right, and then the remainder does not fit it.
        assert error
        assert at <= error.position <= at + 3
        return
    assert error
    assert (error.position, error.actual) == (at, other)
    assert (error.kind is StepKind.ANSWER) == (at > text.index("="))
    if at not in quotient_digits(prompt, text):
        assert error.expected == (text[at] if text[at] != "=" else "")


@given(prompts("/"), st.randoms(use_true_random=False))
@settings(max_examples=30, deadline=None)
def test_any_right_quotient_digits_lead_to_the_answer(prompt: str, random: Random) -> None:
    shape = shape_of(prompt)
    assert shape
    plan = layout(shape)
    text = np.zeros(len(plan) + 1, np.uint8)
    text[: len(prompt)] = list(prompt.encode())
    for position in range(len(prompt), len(plan)):
        slot = plan[position]
        text[position] = RULES[slot.kind](*(text[[source]] for source in slot.sources))[0]
        if slot.kind is Kind.QUOTIENT_DIGIT:
            before = bytes(text[len(prompt) : position]).decode()
            for digit in random.sample("0123456789", 10):
                error = first_error(prompt, before + digit)
                if error and error.position > len(before):
                    text[position] = ord(digit)
                    break
    work = bytes(text[len(prompt) : -2]).decode()
    field = completion(prompt).partition("=")[2]
    assert first_error_of_completion(prompt, f"{work}={field}") is None


def test_a_quotient_digit_is_right_if_it_leaves_less_than_the_divisor() -> None:
    wrong = {}
    at = QUOTIENT_WORK.index("+221") + 1  # 6000 by 3440 is 1 or 2, and 1 leaves 2560
    for digit in "0123456789":
        error = first_error(QUOTIENT, QUOTIENT_WORK[:at] + digit + QUOTIENT_WORK[at + 1 :])
        wrong[digit] = error is not None and error.position == at
    assert [digit for digit, is_wrong in wrong.items() if not is_wrong] == ["1", "2"]


@given(prompts(), st.data())
def test_a_work_that_ends_too_early_or_too_late(prompt: str, data: st.DataObject) -> None:
    work, _, field = completion(prompt).partition("=")
    end = data.draw(st.integers(0, len(work) - 1))
    error = first_error(prompt, work[:end])
    assert error
    assert (error.position, error.expected, error.actual) == (end, work[end], "")
    longer = WrongCharacter(StepKind.LAYOUT, len(work), "", "0")
    assert first_error(prompt, work + "0") == longer
    assert first_error_of_completion(prompt, f"{work}0={field}") == longer
    missing = WrongCharacter(StepKind.LAYOUT, len(work), "=", "")
    assert first_error_of_completion(prompt, work) == missing
    end = data.draw(st.integers(0, len(field) - 1))
    cut = first_error_of_completion(prompt, f"{work}={field[:end]}")
    assert cut == WrongCharacter(StepKind.ANSWER, len(work) + 1 + end, field[end], "")


@pytest.mark.parametrize(
    ("at", "wrong", "kind"),
    [
        (1, "7", StepKind.OPERAND),
        (7, "|", StepKind.LAYOUT),
        (8, "1", StepKind.REMAINDER),
        (13, "-", StepKind.SIGN),
        (14, "5", StepKind.QUOTIENT),
        (15, "1", StepKind.REMAINDER),
        (43, "-", StepKind.ROUNDING),
        (45, "1", StepKind.ROUNDING),
        (46, "1", StepKind.ROUNDING),
        (47, "-", StepKind.SIGN),
    ],
)
def test_an_error_has_the_kind_of_its_step(at: int, wrong: str, kind: StepKind) -> None:
    error = first_error(QUOTIENT, QUOTIENT_WORK[:at] + wrong + QUOTIENT_WORK[at + 1 :])
    assert error
    assert (error.kind, error.position) == (kind, at)


@given(st.text(max_size=120), prompts())
def test_any_text_is_checked(text: str, prompt: str) -> None:
    error = first_error_of_completion(prompt, text)
    assert error
    assert error.position <= len(text)


def test_what_is_no_prompt_is_refused() -> None:
    with pytest.raises(NotationError):
        first_error("$(1+1)=", "")
    assert quotient_digits("$(1/1)=", "+++") == set()


@given(prompts())
def test_quotient_digits_are_those_of_the_layout(prompt: str) -> None:
    shape = shape_of(prompt)
    assert shape
    plan = layout(shape)
    text = completion(prompt)
    positions = quotient_digits(prompt, text)
    slots = [*plan][plan.prompt_length :]
    assert positions == {i for i, slot in enumerate(slots) if slot.kind is Kind.QUOTIENT_DIGIT}
    assert quotient_digits(prompt, text[:20]) == {p for p in positions if p < 20}


def test_the_longest_operands_have_a_shape() -> None:
    longest = Number(10**notation.MAX_WIDTH - 1)
    prompt = notation.render_prompt(Problem(longest, MULTIPLICATION, Number(7)))
    assert first_error_of_completion(prompt, completion(prompt)) is None
