"""The cases of the rules: all that lines have, and enough for the right answer."""

from functools import cache

import numpy as np
from datagen_strategies import any_problems
from hypothesis import given, settings
from hypothesis import strategies as st

from calcgpt_lab.model.sources import next_cases
from datagen.answer_layout import answer_shape, answer_slots
from datagen.arithmetic import Problem
from datagen.cases import LEAST, LIMIT, all_cases
from datagen.layout import layout, require_shape
from datagen.notation import WORK_ALPHABET, render, render_prompt
from datagen.operations.quotients import estimate
from datagen.slots import MAX_SOURCES, NOWHERE, Kind, Slot


@cache
def right_characters() -> dict[bytes, bytes]:
    """Kind and sources -> the characters that are right."""
    kinds, sources, right = all_cases()
    keys = np.hstack((kinds[:, None], sources))
    return {key.tobytes(): both.tobytes() for key, both in zip(keys, right, strict=True)}


def case_of(slot: Slot, text: bytes) -> bytes:
    read = bytes(0 if source == NOWHERE else text[source] for source in slot.sources)
    return bytes([slot.kind]) + read.ljust(MAX_SOURCES, b"\0")


def written(problem: Problem, choices: st.DataObject) -> str:
    """A line in which each character is one that is right in its case: any of them."""
    text = bytearray(render_prompt(problem).encode())
    plan = layout(require_shape(text.decode()))
    for slot in [*plan][plan.prompt_length :]:
        right = right_characters()[case_of(slot, text)]
        text.append(right[0] if right[0] == right[1] else choices.draw(st.sampled_from(right)))
    for slot in answer_slots(plan, answer_shape(plan, bytes(text))):
        (character,) = set(right_characters()[case_of(slot, text)])
        text.append(character)
    return text.decode()


@settings(deadline=None)
@given(any_problems, st.data())
def test_whatever_is_right_leads_from_case_to_case_and_to_the_answer(
    problem: Problem, choices: st.DataObject
) -> None:
    line = written(problem, choices)
    expected = render(problem)
    assert line[: line.index("=") + 1] + line.rpartition("=")[2] == expected


def test_cases_are_sorted_and_different() -> None:
    kinds, sources, right = all_cases()
    assert (np.diff(kinds.astype(int)) >= 0).all()
    assert len(right_characters()) == len(kinds) == len(sources) == len(right)
    known = {0, *WORK_ALPHABET.encode()}
    assert {*np.unique(sources).tolist(), *np.unique(right).tolist()} <= known
    others = {Kind.QUESTION, Kind.A_FIELD, Kind.B_FIELD}
    assert {Kind(kind) for kind in kinds.tolist()} == set(Kind) - others


@given(st.integers(-999, 998), st.integers(LEAST, LIMIT - 1), st.data())
def test_a_right_quotient_digit_leaves_less_than_any_divisor(
    leading: int, divisor: int, data: st.DataObject
) -> None:
    codes = f"{leading % LIMIT:03}"[::-1] + ("9" if leading < 0 else "0") + f"{divisor}"[::-1]
    right = right_characters().get(bytes([Kind.QUOTIENT_DIGIT]) + codes.encode())
    if right is None:  # never reached
        return
    n_more = data.draw(st.integers(0, 30))  # digits that are not read
    unit = 10**n_more
    b = divisor * unit + data.draw(st.integers(0, unit - 1))
    r = leading * unit + data.draw(st.integers(0, unit - 1))
    if abs(r) >= b:
        return
    x = 10 * r + data.draw(st.integers(0, 9))
    for character in right:
        q = (character - ord("0")) * (-1 if leading < 0 else 1)
        assert abs(x - q * b) < b
        nearest = estimate(*np.frombuffer(codes.encode(), np.uint8)[:, None])[0]
        assert abs(q - nearest) < 1


def test_next_cases_are_those_of_the_slots() -> None:
    line = b"$(0000012.50/000000-4.0)="
    plan = layout(require_shape(line.decode()))
    slots = [*plan][len(line) :]
    rest, answer = b"0" * len(slots), b"000.000000$"
    cases = next_cases(line + rest)
    for position, slot in enumerate(slots, start=len(line) - 1):
        assert cases[position].tobytes() == case_of(slot, line + rest)
    assert not cases[: len(line) - 1].any()
    whole = line + rest + answer
    everything = next_cases(whole)
    assert (everything[: len(cases) - 1] == cases[:-1]).all()
    for position, slot in enumerate(answer_slots(plan, answer_shape(plan, whole))):
        assert everything[len(plan) - 1 + position].tobytes() == case_of(slot, whole)
    for start in range(len(whole) + 1):
        assert (next_cases(whole, start) == everything[start:]).all()
        assert (next_cases(whole[: start + 1], start) == everything[start : start + 1]).all()
    assert not next_cases(line[:-1]).any()
    assert not next_cases(line[:3] + b"x" + line[4:]).any()
