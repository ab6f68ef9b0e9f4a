"""The check of layouts accepts what layouts are made, and nothing that differs in one place."""

import pytest
from datagen_strategies import any_problems
from hypothesis import given
from hypothesis import strategies as st

from datagen.arithmetic import Problem
from datagen.layout import new_layout, require_shape
from datagen.layout_check import LayoutError, check
from datagen.notation import render_prompt
from datagen.slots import MAX_SOURCES, NOWHERE, Kind, Layout, Shape


def planned(problem: Problem) -> tuple[Shape, Layout]:
    shape = require_shape(render_prompt(problem))
    return shape, new_layout(shape)


@given(st.lists(any_problems, min_size=1, max_size=5))
def test_layouts_are_right_one_by_one_and_together(problems: list[Problem]) -> None:
    planned_all = [planned(problem) for problem in problems]
    check(*zip(*planned_all, strict=True))
    for shape, plan in planned_all:
        check([shape], [plan])


@given(any_problems, st.data())
def test_a_slot_that_reads_another_character_is_found(
    problem: Problem, data: st.DataObject
) -> None:
    shape, plan = planned(problem)
    position = data.draw(st.integers(0, len(plan) - 1))
    index = data.draw(st.integers(0, MAX_SOURCES - 1))
    other = data.draw(st.integers(-1, len(plan) - 1))
    at = position * MAX_SOURCES + index
    if plan._sources[at] == other:
        return
    plan._sources[at] = other
    with pytest.raises(LayoutError):
        check([shape], [plan])


@given(any_problems, st.data())
def test_a_slot_of_another_kind_or_place_is_found(problem: Problem, data: st.DataObject) -> None:
    """Except in what nothing is read from: marks and the rest of the question."""
    shape, plan = planned(problem)
    unread = {Kind.QUESTION, Kind.A_FIELD, Kind.B_FIELD, Kind.RESULT_MARK, Kind.EXACT_MARK}
    unread |= {Kind.ROW_MARK, Kind.REMAINDER_MARK, Kind.EQUALS, Kind.NAN, Kind.SIGN, Kind.SUM_SIGN}
    places = [i for i, slot in enumerate(plan) if slot.kind not in unread and slot.column]
    if not places:
        return
    position, axis = data.draw(st.sampled_from(places)), data.draw(st.sampled_from((0, 1)))
    plan._places[2 * position + axis] += data.draw(st.sampled_from((-1, 1)))
    with pytest.raises(LayoutError):
        check([shape], [plan])


@given(any_problems, st.data())
def test_a_result_that_leaves_out_a_digit_or_turns_two_is_found(
    problem: Problem, data: st.DataObject
) -> None:
    shape, plan = planned(problem)
    if len(plan.result) < 2:
        return
    index = data.draw(st.integers(1, len(plan.result) - 1))
    if data.draw(st.booleans()):
        del plan.result[index]
    else:
        plan.result[index - 1 : index + 1] = reversed(plan.result[index - 1 : index + 1])
    with pytest.raises(LayoutError):
        check([shape], [plan])


@given(any_problems, st.data())
def test_a_sign_that_is_missing_is_found(problem: Problem, data: st.DataObject) -> None:
    shape, plan = planned(problem)
    if data.draw(st.booleans()):
        plan.sign = NOWHERE if plan.sign != NOWHERE else len(plan) - 2
    else:
        signs = {Kind.A_SIGN, Kind.B_SIGN, Kind.B_SIGN_OF_SUM}
        position = next(i for i, slot in enumerate(plan) if slot.kind in signs)
        plan._kinds[position] = Kind.EQUALS
    with pytest.raises(LayoutError):
        check([shape], [plan])
