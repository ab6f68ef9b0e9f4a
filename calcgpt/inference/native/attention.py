"""Attention with a cache of keys and values, compiled by Numba.

Keys and values are stored in panels, as matrices are (`weights.pack_panels`). The scores of a query
are its product with a matrix whose columns are the keys. The output of attention is the product of
the softmax weights with the matrix of the values. The queries of consecutive tokens are the rows of
one product.

With windows, a query sees a few keys anywhere in the text. Then each key is stored as a row, and
only those that are seen are read.
"""

from __future__ import annotations

import numpy as np

from calcgpt.inference.native import entries as e
from calcgpt.inference.native.layers import exp, padded_width
from calcgpt.inference.native.numba_types import (
    Cache,
    Float,
    Floats,
    Ints,
    Vector,
    add,
    at,
    broadcast,
    compiled,
    fma,
    load,
    maximum,
    minimum,
    multiply,
    pair_1,
    pair_2,
    pair_4,
    pair_8,
    reduce_max,
    reduce_sum,
    select_first,
    sqrt,
    store,
    subtract,
    zeros,
)
from calcgpt.inference.native.products import product
from calcgpt.inference.native.weights import PANEL, TILE

F32 = np.float32
MASKED = F32(-1e30)  # added to scores: see `write_mask`


@compiled
def head_keys(plan: Ints, kv: Floats, layer_slot: int, kv_head: int, capacity: int) -> Floats:
    """Returns a pointer to the keys of a key/value head. The values follow the keys.

    `layer_slot` is layer * n_slot + slot.
    """
    index = layer_slot * plan[e.N_KV_HEAD] + kv_head
    return at(kv, 2 * index * padded_width(plan[e.HEAD_DIM]) * capacity)


@compiled
def store_kv(
    plan: Ints, qkv: Floats, kv: Floats, layer_slot: int, capacity: int, position: int
) -> None:
    """Stores the keys and values of a row in the cache, for all key/value heads.

    With D = head_dim, the keys of a head are (capacity / PANEL, D, PANEL): a key is a column. With
    windows, they are (capacity, padded D): a key is a row. The values are (padded D / PANEL,
    capacity, PANEL): a value is a row.
    """
    head_dim, width = plan[e.HEAD_DIM], padded_width(plan[e.HEAD_DIM])
    panel, column = position // PANEL, position % PANEL
    has_windows = plan[e.ROW_WINDOW] + plan[e.COLUMN_WINDOW] > 0
    for kv_head in range(plan[e.N_KV_HEAD]):
        key = at(qkv, (plan[e.N_HEAD] + kv_head) * head_dim)
        value = at(key, plan[e.N_KV_HEAD] * head_dim)
        keys = head_keys(plan, kv, layer_slot, kv_head, capacity)
        values = at(keys, width * capacity)
        if has_windows:
            for i in range(0, head_dim, PANEL):
                part = select_first(head_dim - i, load(key, i), zeros())
                store(keys, position * width + i, part)
        else:
            for i in range(head_dim):
                keys[(panel * head_dim + i) * PANEL + column] = key[i]
        for i in range(0, head_dim, PANEL):
            part = select_first(head_dim - i, load(value, i), zeros())
            store(values, (i // PANEL * capacity + position) * PANEL, part)


@compiled
def softmax_numerators(scores: Floats, n: int, n_score: int, scale: Float) -> Float:
    """Replaces n scores by the numerators of their softmax, exp(scale (score - maximum)), and the
    scores after them, up to `n_score`, by zeros. Returns the denominator."""
    lowest, largest, total = broadcast(F32(-3e38)), broadcast(F32(-3e38)), zeros()
    for i in range(0, n, PANEL):
        largest = maximum(select_first(n - i, load(scores, i), lowest), largest)
    largest, factor, tiny = broadcast(reduce_max(largest)), broadcast(scale), broadcast(F32(1e-30))
    for i in range(0, n_score, PANEL):
        weight = exp(multiply(subtract(load(scores, i), largest), factor))
        # Masked scores get 0. Products of tiny numbers are subnormal, and take 100 times as long.
        weight = maximum(subtract(weight, tiny), zeros())
        weight = select_first(n - i, weight, zeros())
        store(scores, i, weight)
        total = add(total, weight)
    return reduce_sum(total)


@compiled
def absolute(x: Vector) -> Vector:
    """Returns |x|."""
    return maximum(x, subtract(zeros(), x))


@compiled
def write_mask(
    plan: Ints,
    features: Floats,
    capacity: int,
    n_seen: int,
    mask: Floats,
    visible: Floats,
    stride: int,
    n_query: int,
) -> None:
    """Writes which keys the queries of a tile see: in `visible`, their number and, from PANEL on,
    the indices of the keys that any of them sees, and in `mask` what `attend_visible` adds to their
    scores, (n_query, that number): 0, or MASKED if the causal mask and the windows hide the key.
    """
    n_key, everywhere = n_seen + n_query - 1, F32(4 * e.FIELD_OFFSET)
    rows, columns = at(features, e.TOKEN_ROW * capacity), at(features, e.TOKEN_COLUMN * capacity)
    row_window, column_window = plan[e.ROW_WINDOW], plan[e.COLUMN_WINDOW]
    row_reach = broadcast(F32(row_window - 1) if row_window else everywhere)
    column_reach = broadcast(F32(column_window - 1) if column_window else everywhere)
    for r in range(n_query):
        query = n_seen + r - 1
        row = broadcast(features[e.CENTER_ROW * capacity + query])
        column = broadcast(features[e.CENTER_COLUMN * capacity + query])
        for key in range(0, n_key, PANEL):
            # Whole numbers, above 0 if the key is in another row or column
            in_row, in_column = load(rows, key), load(columns, key)
            row_gap = subtract(absolute(subtract(in_row, row)), row_reach)
            column_gap = subtract(absolute(subtract(in_column, column)), column_reach)
            gap = maximum(
                minimum(absolute(in_row), row_gap), minimum(absolute(in_column), column_gap)
            )
            gap = select_first(query + 1 - key, gap, broadcast(F32(1)))
            gap = minimum(maximum(gap, zeros()), broadcast(F32(1)))
            store(mask, r * stride + key, multiply(gap, broadcast(MASKED)))
    n_visible, indices = 0, at(visible, PANEL)
    for start in range(0, n_key, PANEL):
        seen = load(mask, start)
        for r in range(1, n_query):
            seen = maximum(seen, load(mask, r * stride + start))
        if reduce_max(seen) == F32(0):
            for key in range(start, start + PANEL):
                is_seen = 0
                for r in range(n_query):
                    is_seen |= mask[r * stride + key] == F32(0)
                    mask[r * stride + n_visible] = mask[r * stride + key]
                indices[n_visible] = F32(key)
                n_visible += is_seen
    store(indices, n_visible, zeros())  # the padding of the last panel
    visible[0] = F32(n_visible)


@compiled
def partial_sums(q: Floats, keys: Floats, index: Float, width: int) -> Vector:
    """Returns a vector whose lanes add up to the product of a query and a key."""
    k = at(keys, int(index) * width)
    total = multiply(load(q, 0), load(k, 0))
    for i in range(PANEL, width, PANEL):
        total = add(multiply(load(q, i), load(k, i)), total)
    return total


@compiled
def two_sums(q: Floats, keys: Floats, indices: Floats, width: int) -> Vector:
    """Returns eight lanes that add up to the product with the first key, and eight of the ninth."""
    first = partial_sums(q, keys, indices[0], width)
    return pair_8(first, partial_sums(q, keys, indices[8], width))


@compiled
def four_sums(q: Floats, keys: Floats, indices: Floats, width: int) -> Vector:
    """Returns four lanes for each of the keys 0, 4, 8, 12."""
    first = two_sums(q, keys, indices, width)
    return pair_4(first, two_sums(q, keys, at(indices, 4), width))


@compiled
def eight_sums(q: Floats, keys: Floats, indices: Floats, width: int) -> Vector:
    """Returns two lanes for each of the keys 0, 2, ..., 14."""
    first = four_sums(q, keys, indices, width)
    return pair_2(first, four_sums(q, keys, at(indices, 2), width))


@compiled
def products_of_keys(q: Floats, keys: Floats, indices: Floats, width: int) -> Vector:
    """Returns the products of a query with the PANEL keys at these indices. To add up the lanes of
    all at once takes a third of the instructions."""
    first = eight_sums(q, keys, indices, width)
    return pair_1(first, eight_sums(q, keys, at(indices, 1), width))


@compiled
def attend_visible(
    plan: Ints,
    cache: Cache,
    layer: int,
    slot: int,
    mask: Floats,
    visible: Floats,
    stride: int,
    q: Floats,
    q_stride: int,
    scores: Floats,
    y: Floats,
    y_stride: int,
    n_query: int,
) -> None:
    """Computes what `attend` does from the keys that are visible. `mask` and `visible` are those of
    `write_mask`."""
    _features, _slots, _lengths, _tokens, kv, n_slot, capacity = cache
    head_dim, width = plan[e.HEAD_DIM], padded_width(plan[e.HEAD_DIM])
    group_size, scale = plan[e.N_HEAD] // plan[e.N_KV_HEAD], F32(1) / sqrt(F32(head_dim))
    n_visible, indices = int(visible[0]), at(visible, PANEL)
    n_score = padded_width(n_visible)
    for head in range(plan[e.N_HEAD]):
        keys = head_keys(plan, kv, layer * n_slot + slot, head // group_size, capacity)
        values = at(keys, width * capacity)
        for r in range(n_query):
            q_head = at(q, r * q_stride + head * head_dim)
            y_head = at(y, r * y_stride + head * head_dim)
            for j in range(0, n_score, PANEL):
                products = products_of_keys(q_head, keys, at(indices, j), width)
                store(scores, j, add(products, load(mask, r * stride + j)))
            factor = broadcast(F32(1) / softmax_numerators(scores, n_visible, n_score, scale))
            for i in range(0, width, PANEL):
                panel, even, odd = at(values, i * capacity), zeros(), zeros()
                for j in range(0, n_visible - 1, 2):
                    even = fma(scores[j], load(panel, int(indices[j]) * PANEL), even)
                    odd = fma(scores[j + 1], load(panel, int(indices[j + 1]) * PANEL), odd)
                if n_visible % 2:
                    last = n_visible - 1
                    even = fma(scores[last], load(panel, int(indices[last]) * PANEL), even)
                # This also writes the padding of a head. The next head overwrites it.
                store(y_head, i, multiply(add(even, odd), factor))


@compiled
def attend(
    plan: Ints,
    cache: Cache,
    layer: int,
    slot: int,
    n_seen: int,
    zero_row: Floats,
    q: Floats,
    q_stride: int,
    scores: Floats,
    y: Floats,
    y_stride: int,
    n_query: int,
) -> None:
    """Computes attention for up to TILE queries of consecutive tokens of a text, without the output
    matrix.

    The first query sees the `n_seen` first tokens of its slot, and each next query one token more.
    `zero_row` has e.N_ZERO zeros. `scores` has room for TILE rows of `capacity` scores and one sum
    per row.
    """
    _features, _slots, _lengths, _tokens, kv, n_slot, capacity = cache
    head_dim, width = plan[e.HEAD_DIM], padded_width(plan[e.HEAD_DIM])
    group_size, n_key = plan[e.N_HEAD] // plan[e.N_KV_HEAD], n_seen + n_query - 1
    n_score, scale = padded_width(n_key), F32(1) / sqrt(F32(head_dim))
    sums, k_stride, v_stride = at(scores, TILE * capacity), head_dim * PANEL, capacity * PANEL
    for head in range(plan[e.N_HEAD]):
        k = head_keys(plan, kv, layer * n_slot + slot, head // group_size, capacity)
        v = at(k, width * capacity)
        q_head, y_head = at(q, head * head_dim), at(y, head * head_dim)
        product(
            k, k_stride, q_head, q_stride, zero_row, 0, scores, capacity, head_dim, n_score, n_query
        )
        for r in range(n_query):
            sums[r] = softmax_numerators(at(scores, r * capacity), n_seen + r, n_score, scale)
        # The product also writes the padding of a head. The next head overwrites it.
        product(v, v_stride, scores, capacity, zero_row, 0, y_head, y_stride, n_key, width, n_query)
        for r in range(n_query):
            factor = broadcast(F32(1) / sums[r])
            for i in range(r * y_stride, r * y_stride + width, PANEL):
                store(y_head, i, multiply(load(y_head, i), factor))
