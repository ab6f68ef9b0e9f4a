"""Coordinates follow from the text so far, and point to what a rule reads."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from work_strategies import prompts

from datagen.coordinates import (
    COLUMN,
    KIND,
    N_COORDINATES,
    NEXT_KIND,
    QUERY_COLUMN,
    QUERY_ROW,
    ROW,
    coordinates,
)
from datagen.layout import layout, shape_of
from datagen.slots import (
    COPIES,
    FIELDS,
    MAX_SLOTS,
    MAX_SOURCES,
    NEAR,
    NOWHERE,
    Kind,
    Shape,
    ShapeCache,
)
from datagen.work import render
from datagen.work_errors import divisions, slot_groups

OWN, NEXT = [KIND, ROW, COLUMN], [NEXT_KIND, QUERY_ROW, QUERY_COLUMN]


@given(prompts(), st.data())
def test_coordinates_follow_from_the_text_so_far(prompt: str, data: st.DataObject) -> None:
    [line] = render([prompt.encode()])
    whole = coordinates(line)
    assert whole.shape == (len(line), N_COORDINATES)
    length = data.draw(st.integers(1, len(line)))
    part = coordinates(line[:length])
    assert np.array_equal(part[:, OWN], whole[:length, OWN])
    assert np.array_equal(part[:, NEXT], whole[:length, NEXT])
    start = data.draw(st.integers(0, length))
    assert np.array_equal(coordinates(line[:length], start), part[start:])


@pytest.mark.parametrize(
    "text", ["(0000000001", "$12345(0000000001", "x(0000000001", "$0000000001"]
)
def test_what_is_no_question_has_no_coordinates(text: str) -> None:
    assert not coordinates(text.encode()).any()


@given(prompts())
def test_a_character_knows_the_kind_of_the_next(prompt: str) -> None:
    [line] = render([prompt.encode()])
    kinds = coordinates(line)
    start = len(prompt) - 1
    assert np.array_equal(kinds[start:-1, NEXT_KIND], kinds[start + 1 :, KIND])
    assert kinds[-1, KIND] == Kind.END
    assert not kinds[:start, NEXT_KIND].any()


@given(prompts("*"))
def test_a_query_of_a_copy_is_the_column_of_its_source(prompt: str) -> None:
    plan = layout(shape_of(prompt))
    copies = [s for s in plan.slots if s.kind in (Kind.A_DIGIT, Kind.B_DIGIT, Kind.MULTIPLIER)]
    assert copies
    for slot in copies:
        source = plan.slots[slot.sources[0]]
        assert (slot.query_column, source.row) == (source.column, 0)


@given(prompts())
@example("$5(0.001000001/0000009999)=")  # digits that no row brings down
def test_a_rule_reads_few_characters_within_the_windows(prompt: str) -> None:
    slots = layout(shape_of(prompt)).slots
    for before, slot in itertools.pairwise(slots):
        center, center_row = slot.query_column or before.column, slot.query_row or before.row
        for position in slot.sources:
            source = slots[position]
            assert not source.row or (center_row and abs(source.row - center_row) <= 1)
            if position == NOWHERE or not source.column:
                continue
            is_near = center > 0 and abs(source.column - center) <= NEAR
            is_near &= (source.kind in FIELDS) == (slot.kind in COPIES)
            is_near |= source is before  # the character that a query is at sees itself
            assert is_near
        assert len(slot.sources) <= MAX_SOURCES


@given(st.binary(max_size=60) | st.text("$(0123456789+-*/.)=;|:n", max_size=80).map(str.encode))
def test_any_text_has_coordinates(line: bytes) -> None:
    whole = coordinates(line)
    assert whole.shape == (len(line), N_COORDINATES)
    for length in range(1, len(line)):
        assert np.array_equal(coordinates(line[:length])[:, OWN], whole[:length, OWN])


@given(prompts(), st.data())
def test_damaged_work_has_coordinates(prompt: str, data: st.DataObject) -> None:
    [line] = render([prompt.encode()])
    position = data.draw(st.integers(len(prompt), len(line) - 1))
    character = data.draw(st.sampled_from("0123456789+-=;|:n$"))
    damaged = line[:position] + character.encode() + line[position + 1 :] + b"00$"
    whole = coordinates(damaged)
    assert whole.shape == (len(damaged), N_COORDINATES)
    assert np.array_equal(whole[:position, OWN], coordinates(line)[:position, OWN])


def test_the_cache_of_shapes_is_bounded() -> None:
    """Clients of a service choose the shapes of questions, and so the size of the cache."""
    cache, kept = ShapeCache(lambda shape: [shape], n_slots=lambda result: MAX_SLOTS // 3), []
    for width in range(10, 20):
        shape = shape_of(f"$({1:0{width}}+{1:0{width}})=")
        assert shape
        result = cache(shape)
        assert cache(shape) is result
        kept.append(cache.currsize)
    third = MAX_SLOTS // 3
    assert kept == [third, 2 * third, 3 * third] * 3 + [third]


def test_a_full_cache_forgets_its_results() -> None:
    computed: list[Shape] = []

    def compute(shape: Shape) -> list[Shape]:
        computed.append(shape)
        return [shape]

    cache = ShapeCache(compute, n_slots=lambda result: MAX_SLOTS // 2 + 1)
    shapes = [shape_of(f"$({1:0{width}}+0000000001)=") for width in (10, 11)]
    for shape in (*shapes, *shapes):
        assert shape
        cache(shape)
    assert computed == [*shapes, *shapes]


def test_a_result_larger_than_the_cache_is_not_kept() -> None:
    cache = ShapeCache(
        lambda shape: [shape], n_slots=lambda result: MAX_SLOTS - 10 + result[0].a_width
    )
    small, large = (shape_of(f"$({1:0{width}}+0000000001)=") for width in (10, 11))
    assert small
    assert large
    kept = cache(small)
    assert cache(large) is not cache(large)
    assert cache(small) is kept


@pytest.mark.parametrize(("cache", "op"), [(layout, "*"), (slot_groups, "*"), (divisions, "/")])
def test_a_shape_counts_in_the_cache_by_its_size(cache: ShapeCache[Shape, Any], op: str) -> None:
    shapes = [shape_of(f"$7({number}{op}{number})=") for number in ("0000000111", "1" * 35)]
    small, large = (cache.n_slots(cache(shape)) for shape in shapes)
    assert 0 < small < large / 3
