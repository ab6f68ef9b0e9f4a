"""Attention over the cache of keys and values, compiled by Numba.

Keys and values are stored in panels, as matrices are: the scores of a query are the product of its
row with a matrix whose columns are keys, and its output is the product of its weights with the
matrix of the values. So queries that follow each other in a text are a product of several rows.
"""

from __future__ import annotations

import numpy as np

from calcgpt.inference.native.elementwise import exp, whole_panels
from calcgpt.inference.native.numba_types import (
    Float,
    Floats,
    Ints,
    add,
    compiled,
    every,
    first,
    larger,
    largest_of,
    load,
    multiply,
    sqrt,
    store,
    subtract,
    sum_of,
    zeros,
)
from calcgpt.inference.native.products import product
from calcgpt.inference.native.weights import (
    CENTER,
    HEAD_DIM,
    MARKS,
    N_HEAD,
    N_KV_HEAD,
    OWN_ROW,
    PANEL,
    ROW_WINDOW,
    TILE,
)

F32 = np.float32


@compiled
def keys_at(plan: Ints, slot: int, group: int, capacity: int) -> int:
    """Returns where the cache has the keys of a slot's head; its values follow them."""
    width = plan[HEAD_DIM]
    start: int = (slot * plan[N_KV_HEAD] + group) * (width + whole_panels(width)) * capacity
    return start


@compiled
def remember(
    plan: Ints,
    s: Floats,
    qkv: int,
    cache: Floats,
    slot: int,
    capacity: int,
    position: int,
) -> None:
    """Stores the keys of a row as a column of their panels, its values as a row of theirs."""
    width = plan[HEAD_DIM]
    panel, column = position // PANEL, position % PANEL
    for group in range(plan[N_KV_HEAD]):
        key = qkv + (plan[N_HEAD] + group) * width
        value = key + plan[N_KV_HEAD] * width
        k0 = keys_at(plan, slot, group, capacity)
        v0 = k0 + width * capacity
        for i in range(width):
            cache[k0 + (panel * width + i) * PANEL + column] = s[key + i]
        for i in range(0, width, PANEL):
            to = v0 + (i // PANEL * capacity + position) * PANEL
            store(cache, to, first(width - i, load(s, value + i), zeros()))


@compiled
def soften(s: Floats, x: int, n: int, n_score: int, scale: Float) -> Float:
    """Replaces n scores by exp(scale (score - the largest)), those after them up to `n_score` by
    zeros. Returns their sum."""
    lowest, peak, total = every(F32(-3e38)), every(F32(-3e38)), zeros()
    for i in range(0, n, PANEL):
        peak = larger(first(n - i, load(s, x + i), lowest), peak)
    peak, factor = every(largest_of(peak)), every(scale)
    for i in range(0, n_score, PANEL):
        weight = exp(multiply(subtract(load(s, x + i), peak), factor))
        weight = first(n - i, weight, zeros())
        store(s, x + i, weight)
        total = add(total, weight)
    return sum_of(total)


@compiled
def hide(marks: Ints, s: Floats, x: int, n: int, query: int, window: int) -> None:
    """Takes from the n scores of a query those of the rows that are not within its window."""
    center = marks[MARKS * query + CENTER]
    for i in range(n):
        row = marks[MARKS * i + OWN_ROW]
        if row != 0 and (center == 0 or abs(row - center) >= window):
            s[x + i] = F32(-1e30)


@compiled
def attend(
    plan: Ints,
    marks: Ints,
    cache: Floats,
    slot: int,
    capacity: int,
    n_seen: int,
    s: Floats,
    q: int,
    q_step: int,
    scores: int,
    y: int,
    y_step: int,
    n_query: int,
) -> None:
    """Attention of up to TILE rows that follow each other in a text. The first sees `n_seen` tokens
    of its slot, every other one more than the row before it. With a window over rows, `marks`
    points to those of its text.

    `s` begins with zeros, and has room for TILE rows of scores and for the sum of each.
    """
    width, wide = plan[HEAD_DIM], whole_panels(plan[HEAD_DIM])
    per_group, n_last = plan[N_HEAD] // plan[N_KV_HEAD], n_seen + n_query - 1
    n_score, scale = whole_panels(n_last), F32(1) / sqrt(F32(width))
    sums = scores + TILE * capacity
    for head in range(plan[N_HEAD]):
        keys = keys_at(plan, slot, head // per_group, capacity)
        values = keys + width * capacity
        from_, to = q + head * width, y + head * width
        product(
            cache, keys, width * PANEL, s, from_, q_step, s, 0, 0, s, scores, capacity,
            width, n_score, n_query
        )  # fmt: skip
        for r in range(n_query):
            if plan[ROW_WINDOW]:
                n, query = n_seen + r, n_seen + r - 1
                hide(marks, s, scores + r * capacity, n, query, plan[ROW_WINDOW])
            s[sums + r] = soften(s, scores + r * capacity, n_seen + r, n_score, scale)
        # What is written beyond the head's width, the next head overwrites.
        product(
            cache, values, capacity * PANEL, s, scores, capacity, s, 0, 0, s, to, y_step,
            n_last, wide, n_query
        )  # fmt: skip
        for r in range(n_query):
            factor = every(F32(1) / s[sums + r])
            for i in range(to + r * y_step, to + r * y_step + wide, PANEL):
                store(s, i, multiply(load(s, i), factor))
