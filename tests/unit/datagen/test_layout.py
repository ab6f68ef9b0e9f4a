"""The layouts are those that the shipped models were trained with, slot by slot."""

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datagen.arithmetic import Number, Problem
from datagen.layout import any_shape_of, layout, shape_of, work_length
from datagen.notation import render_prompt
from datagen.operations import MULTIPLICATION, OPERATIONS, Operation
from datagen.slots import LAYOUT, MAX_SLOTS, Shape, ShapeCache
from datagen.work import render
from datagen.work_errors import divisions, slot_groups

# Problems whose layouts have all parts: rounding, zeros brought down, padding, few and many rows,
# results of zero, operands that fill their fields.
PROBLEMS = {
    "+": ["1+2", "999.5+0.25", "-12.345+7.0001", "1.0051+22.20", "-2.5+2.5"],
    "-": ["5-7", "0.001-1000000", "-3.14159--2.71828", "$8:0.000001-9", "1234567890-5"],
    "*": ["3*4", "12*0.25", "99.99*-99.99", "0.0001*0.0002", "1.234*5678", "$9:7.5*2.25", "-3*0"],
    "/": [
        "6/3",
        "1/3",
        "123456/7",
        "5/123456",
        "0.05/1000",
        "4/0",
        "7.25/0.0008",
        "$1:2/987654",
        "6.27251/96.5",
    ],
}
# The beginnings of SHA-256 hashes: of the slots, and of the lines. If one changes, no shipped model
# can be used any more.
HASHES = {
    "+": ("460d2b188a965150", "bdabc1e67245103b"),
    "-": ("0b4142a33c45afd5", "0be4312b22be5433"),
    "*": ("060267f5d79db00f", "4fd3f61dd2909ef7"),
    "/": ("87b20c0449670c0d", "36633cfae6156bb5"),
}


def prompt_of(problem: str, op: str) -> str:
    """Returns the prompt of a problem, such as `1/3`, or `$8:1/3` to 8 places."""
    places, _, problem = problem.rpartition(":")
    index = problem.index(op, 1)  # the first character may be a minus sign
    a, b = problem[:index], problem[index + 1 :]
    return f"${places[1:]}({a.rjust(10, '0')}{op}{b.rjust(10, '0')})="


@pytest.mark.parametrize("op", PROBLEMS)
def test_every_slot_and_every_line_is_what_it_was(op: str) -> None:
    prompts = [prompt_of(problem, op) for problem in PROBLEMS[op]]
    slots, lines = hashlib.sha256(), hashlib.sha256()
    for prompt in prompts:
        plan = layout(shape_of(prompt))
        for slot in plan:
            slots.update(repr((int(slot.kind), slot.sources)).encode())
        slots.update(repr((plan.result, plan.result_places, plan.sign)).encode())
    texts = [prompt.encode() for prompt in prompts]
    for words in (None, np.zeros(len(texts), np.uint64)):  # 0: loose digits where possible
        lines.update(b"".join(render(texts, words)))
    assert (slots.hexdigest()[:16], lines.hexdigest()[:16]) == HASHES[op]


operands = st.tuples(st.integers(1, 120), st.integers(0, 300)).map(
    lambda size: Number.from_units(10 ** size[0] - 1, size[1], size[1] > 0)
)


@settings(max_examples=50)
@given(operands, st.sampled_from(OPERATIONS), operands | st.just(Number(0)), st.integers(0, 300))
def test_the_length_of_a_layout_is_known_without_making_it(
    a: Number, op: Operation, b: Number, places: int
) -> None:
    shape = shape_of(render_prompt(Problem(a, op, b, places)))
    assert shape
    assert work_length(shape) == len(layout(shape))


def test_a_work_of_too_many_characters_has_no_layout() -> None:
    """A product of two operands of 10,000 digits would have some 200 million slots."""
    prompt = render_prompt(Problem(Number(10**10_000), MULTIPLICATION, Number(10**10_000)))
    assert shape_of(prompt) is None
    shape = any_shape_of(prompt)
    assert shape
    assert work_length(shape) > 200_000_000


def test_the_cache_of_shapes_is_bounded() -> None:
    """Clients of a service choose the shapes of questions, and so the size of the cache."""
    third = MAX_SLOTS // 3
    cache, kept = ShapeCache(lambda shape: [shape], n_slots=lambda result: third - LAYOUT), []
    shapes = [shape_of(f"$({1:0{width}}+{1:0{width}})=") for width in range(10, 20)]
    first = cache(shapes[0])
    for shape in shapes:
        result = cache(shape)
        assert cache(shape) is result
        kept.append(cache.currsize)
    assert kept == [third, 2 * third, 3 * third] * 3 + [third]
    assert cache(shapes[0]) is not first  # it was forgotten


def test_a_result_larger_than_the_cache_is_not_kept() -> None:
    cache = ShapeCache(
        lambda shape: [shape],
        n_slots=lambda result: MAX_SLOTS - LAYOUT - 10 + result[0].a_width,
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
