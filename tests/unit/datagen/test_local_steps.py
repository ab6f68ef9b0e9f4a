"""The cases of the rules of worked steps."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from work_strategies import prompts

from datagen.layout import layout, shape_of
from datagen.line_cases import line_cases, quotient_choices
from datagen.local_steps import LOCAL_STEPS, N_CASES, OFFSETS
from datagen.slots import Kind
from datagen.work import render
from datagen.work_errors import first_error

STEPS = {step.name: step for step in LOCAL_STEPS}


@given(prompts())
def test_what_is_written_follows_from_the_case(prompt: str) -> None:
    [line] = render([prompt.encode()])
    [cases] = line_cases([line])
    written = line[len(prompt) :]
    assert len(cases) == len(written)
    for case, character in zip(cases.tolist(), written, strict=True):
        assert WRITTEN.setdefault(case, character) == character


WRITTEN: dict[int, int] = {}  # by case, of all examples


@settings(max_examples=10)  # the tables are large
@given(st.lists(prompts(), min_size=5, max_size=20))
def test_cases_that_occur_are_possible(texts: list[str]) -> None:
    occurs = np.zeros(N_CASES, bool)
    occurs[np.concatenate(line_cases(render([text.encode() for text in texts])))] = True
    for step in LOCAL_STEPS:
        part = occurs[OFFSETS[step.name] :][: step.size]
        possible = step.possible(part)
        assert not (part & ~possible).any()


def test_every_kind_has_one_step() -> None:
    kinds = [kind for step in LOCAL_STEPS for kind in step.kinds]
    question = [Kind.QUESTION, Kind.A_FIELD, Kind.B_FIELD]
    assert sorted([*kinds, *question]) == sorted(Kind)


def reachable(total: Callable[[int, int, int, int], int], most: int) -> dict[int, set[int]]:
    """Returns the carries that a factor can have, by trying all digits before them."""
    carries: dict[int, set[int]] = {factor: {0} for factor in range(10)}
    for factor, reached in carries.items():
        for _ in range(10):
            reached |= {
                abs(total(factor, digit, old, carry) // 10)
                for digit, old, carry in product(range(10), range(most + 1), set(reached))
            }
    return carries


@pytest.mark.parametrize(
    ("name", "kind", "fixed", "total", "old"),
    [
        ("digit of a product", Kind.PRODUCT_DIGIT, {}, lambda m, a, o, c: o + m * a + c, 9),
        ("carry of a product", Kind.FIRST_CARRY, {"old": "none"}, lambda m, a, o, c: m * a + c, 0),
        (
            "digit of a remainder",
            Kind.REMAINDER_DIGIT,
            {"sign": "+"},
            lambda q, b, o, c: o - q * b - c,
            9,
        ),
        (
            "carry of a remainder",
            Kind.REMAINDER_CARRY,
            {"sign": "-"},
            lambda q, b, o, c: o + q * b + c,
            9,
        ),
    ],
)
def test_carries_that_cannot_occur_are_not_possible(
    name: str,
    kind: Kind,
    fixed: dict[str, str],
    total: Callable[[int, int, int, int], int],
    old: int,
) -> None:
    step = STEPS[name]
    cases = np.flatnonzero(step.possible(np.ones(step.size, bool)))
    rows = [step.describe(int(case)) for case in cases]
    writes = kind.name.lower().replace("_", " ")
    wanted = {"writes": writes} | fixed
    rows = [row for row in rows if row.items() >= wanted.items() and row["carry"] != "none"]
    factor = "digit of B" if "digit of B" in step.axes[1].name else "quotient digit"
    actual = {
        (int(row[factor]), int(row["carry"])) for row in rows if fixed or row["old"] != "none"
    }
    expected = {(f, c) for f, carries in reachable(total, old).items() for c in carries}
    assert actual == expected


@settings(max_examples=30)
@given(prompts("/"))
def test_the_choices_of_a_quotient_digit_are_those_that_the_checker_accepts(prompt: str) -> None:
    [line] = render([prompt.encode()])
    work = line[len(prompt) :].rpartition(b"=")[0].decode()
    shape = shape_of(prompt)
    assert shape
    digits = [slot.kind is Kind.QUOTIENT_DIGIT for slot in layout(shape).slots]
    choices = quotient_choices(line)
    assert [position + len(prompt) for position, _ in choices] == np.flatnonzero(digits).tolist()
    for position, valid in choices[-2:]:
        for digit in range(10):
            error = first_error(prompt, f"{work[:position]}{digit}{work[position + 1 :]}")
            accepted = error is None or error.position > position
            assert valid[digit] == accepted
