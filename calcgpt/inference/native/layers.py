"""The parts of a layer other than its matrix products, compiled by Numba: norms, activations,
rotations, and attention with a cache of keys and values.

Keys and values are stored in panels, as matrices are (`weights.pack_panels`). The scores of a query
are its product with a matrix whose columns are the keys. The output of attention is the product of
the softmax weights with the matrix of the values. The queries of consecutive tokens are the rows of
one product.
"""

from __future__ import annotations

import numpy as np

from calcgpt.inference.native import entries as e
from calcgpt.inference.native.numba_types import (
    Cache,
    Float,
    Floats,
    Ints,
    Masks,
    Vector,
    add,
    at,
    broadcast,
    compiled,
    divide,
    load,
    maximum,
    minimum,
    multiply,
    power_of_two,
    reduce_max,
    reduce_sum,
    round_nearest,
    select_first,
    sqrt,
    store,
    subtract,
    zeros,
)
from calcgpt.inference.native.products import product
from calcgpt.inference.native.weights import PANEL, TILE

F32 = np.float32
MASKED, SKIPPED = F32(-1e30), F32(-2e30)  # added to scores: see `write_mask`


@compiled
def padded_width(width: int) -> int:
    """Returns a width rounded up to a multiple of PANEL."""
    n_panel: int = (width + PANEL - 1) // PANEL
    return n_panel * PANEL


@compiled
def exp(x: Vector) -> Vector:
    """Returns e^x to the precision of float32, for x clamped to -87 ... 88.

    x = n log 2 + r for an integer n, and a polynomial approximates e^r (Cephes, expf).
    """
    x = minimum(maximum(x, broadcast(F32(-87))), broadcast(F32(88)))
    n = round_nearest(multiply(x, broadcast(F32(1.44269504))))
    r = subtract(x, multiply(n, broadcast(F32(0.693359375))))
    r = add(r, multiply(n, broadcast(F32(2.12194440e-4))))
    p = add(multiply(broadcast(F32(1.9875691500e-4)), r), broadcast(F32(1.3981999507e-3)))
    p = add(multiply(p, r), broadcast(F32(8.3334519073e-3)))
    p = add(multiply(p, r), broadcast(F32(4.1665795894e-2)))
    p = add(multiply(p, r), broadcast(F32(1.6666665459e-1)))
    p = add(multiply(p, r), broadcast(F32(5.0000001201e-1)))
    p = add(multiply(multiply(p, r), r), add(r, broadcast(F32(1))))
    return multiply(p, power_of_two(n))


@compiled
def sigmoid(x: Vector) -> Vector:
    """Returns 1 / (1 + e^-x)."""
    return divide(broadcast(F32(1)), add(broadcast(F32(1)), exp(subtract(zeros(), x))))


@compiled
def activation(kind: int, x: Vector) -> Vector:
    """Returns the activation function `kind` of x. The kinds are those of `weights.ACTIVATIONS`."""
    if kind == e.RELU:
        return maximum(x, zeros())
    if kind == e.SQUARED_RELU:
        return multiply(maximum(x, zeros()), maximum(x, zeros()))
    if kind == e.SILU:
        return multiply(x, sigmoid(x))
    if kind == e.SIGMOID:
        return sigmoid(x)
    # e.GELU_TANH: (1 + tanh(u)) / 2 = sigmoid(2 u)
    cubic = multiply(multiply(x, x), multiply(x, broadcast(F32(0.044715))))
    return multiply(x, sigmoid(multiply(broadcast(F32(1.5957691216)), add(x, cubic))))


@compiled
def activate(plan: Ints, hidden: Floats, stride: int, n_row: int) -> None:
    """Applies the activation function to the hidden layer, in place.

    A gated layer has rows of gates and then values. The activated gates times the values replace
    the gates.
    """
    width, kind, is_gated = padded_width(plan[e.FF_WIDTH]), plan[e.ACTIVATION], plan[e.IS_GATED]
    for r in range(n_row):
        for i in range(r * stride, r * stride + width, PANEL):
            value = activation(kind, load(hidden, i))
            store(hidden, i, multiply(value, load(hidden, i + width)) if is_gated else value)


@compiled
def norm_row(plan: Ints, gain: Floats, width: int, x: Floats, y: Floats) -> None:
    """Computes y = LayerNorm(x) or RMSNorm(x) for a row. The bias follows the gain. y may be x."""
    n, epsilon, mean = F32(width), F32(1e-6), zeros()
    if plan[e.IS_LAYERNORM]:
        epsilon, total = F32(1e-5), zeros()
        for i in range(0, width, PANEL):
            total = add(total, select_first(width - i, load(x, i), zeros()))
        mean = broadcast(reduce_sum(total) / n)
    square = zeros()
    for i in range(0, width, PANEL):
        centred = select_first(width - i, subtract(load(x, i), mean), zeros())
        square = add(square, multiply(centred, centred))
    scale = broadcast(F32(1) / sqrt(reduce_sum(square) / n + epsilon))
    for i in range(0, width, PANEL):
        x_i = load(x, i)
        value = multiply(multiply(subtract(x_i, mean), scale), load(gain, i))
        value = add(value, load(gain, width + i))
        store(y, i, select_first(width - i, value, x_i))


@compiled
def norm_rows(
    plan: Ints, gain: Floats, x: Floats, x_stride: int, y: Floats, y_stride: int, n_row: int
) -> None:
    """Computes y = norm(x) for rows of n_embd numbers."""
    for r in range(n_row):
        norm_row(plan, gain, plan[e.N_EMBD], at(x, r * x_stride), at(y, r * y_stride))


@compiled
def rotate_heads(
    plan: Ints, layer: Floats, rotations: Floats, cache_index: int, position: int, qkv: Floats
) -> None:
    """Normalises and rotates the queries and keys of a row, in place, if the model does so.

    `cache_index` is slot * capacity + position. `rotations` are those of `kernels.decode`.
    """
    head_dim, half = plan[e.HEAD_DIM], plan[e.HEAD_DIM] // 2
    for head in range(plan[e.N_HEAD] + plan[e.N_KV_HEAD]):
        is_key, x = head >= plan[e.N_HEAD], at(qkv, head * head_dim)
        if plan[e.HAS_QK_NORM]:
            gain = plan[e.K_NORM] if is_key else plan[e.Q_NORM]
            norm_row(plan, at(layer, gain), head_dim, x, x)
        if plan[e.ROTATION]:
            by_coordinates = plan[e.ROTATION] == e.ROTATE_BY_COORDINATES
            index = (2 * cache_index + is_key if by_coordinates else position) * head_dim
            for i in range(half):
                cos, sin = rotations[index + i], rotations[index + half + i]
                left, right = x[i], x[half + i]
                x[i], x[half + i] = left * cos - right * sin, right * cos + left * sin


@compiled
def head_keys(plan: Ints, kv: Floats, layer_slot: int, kv_head: int, capacity: int) -> Floats:
    """Returns a pointer to the keys of a key/value head. The values follow the keys.

    `layer_slot` is layer * n_slot + slot.
    """
    head_dim = plan[e.HEAD_DIM]
    index = layer_slot * plan[e.N_KV_HEAD] + kv_head
    return at(kv, index * (head_dim + padded_width(head_dim)) * capacity)


@compiled
def store_kv(
    plan: Ints, qkv: Floats, kv: Floats, layer_slot: int, capacity: int, position: int
) -> None:
    """Stores the keys and values of a row in the cache, for all key/value heads.

    With D = head_dim, the keys of a head are (capacity / PANEL, D, PANEL): a key is a column. The
    values are (padded D / PANEL, capacity, PANEL): a value is a row.
    """
    head_dim = plan[e.HEAD_DIM]
    panel, column = position // PANEL, position % PANEL
    for kv_head in range(plan[e.N_KV_HEAD]):
        key = at(qkv, (plan[e.N_HEAD] + kv_head) * head_dim)
        value = at(key, plan[e.N_KV_HEAD] * head_dim)
        keys = head_keys(plan, kv, layer_slot, kv_head, capacity)
        values = at(keys, head_dim * capacity)
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
def write_mask(
    plan: Ints, features: Ints, capacity: int, n_seen: int, mask: Floats, stride: int, n_query: int
) -> None:
    """Writes the mask that `attend` adds to the scores of a tile, (n_query, padded n_key).

    A number is 0 if the causal mask and the windows let the query see the key, else MASKED. If no
    query sees a key of a panel, the first number of the panel in the first row is SKIPPED.
    """
    n_key = padded_width(n_seen + n_query - 1)
    rows, columns = at(features, e.TOKEN_ROW * capacity), at(features, e.TOKEN_COLUMN * capacity)
    row_window = plan[e.ROW_WINDOW] if plan[e.ROW_WINDOW] else 2 * e.FIELD_OFFSET
    column_window = plan[e.COLUMN_WINDOW]
    for r in range(n_query):
        mask_r, query = at(mask, r * stride), n_seen + r - 1
        row = features[e.CENTER_ROW * capacity + query]
        column = features[e.CENTER_COLUMN * capacity + query]
        for key in range(n_key):  # without branches, so that LLVM vectorises the loop
            is_in_row = (rows[key] == 0) | (abs(rows[key] - row) < row_window)
            is_in_column = (columns[key] == 0) | (abs(columns[key] - column) < column_window)
            is_in_column |= column_window == 0
            mask_r[key] = F32(0) if is_in_row & is_in_column & (key <= query) else MASKED
    for key in range(0, n_key, PANEL):
        largest = load(mask, key)
        for r in range(1, n_query):
            largest = maximum(largest, load(mask, r * stride + key))
        if reduce_max(largest) < F32(0):
            mask[key] = SKIPPED


@compiled
def next_panel(mask: Floats, key: int, n_key: int, is_skipped: int) -> int:
    """Returns the first key of the next panel, from `key` on, that is skipped or, if `is_skipped`
    is 0, that is not skipped. Returns n_key if there is none."""
    while key < n_key and (mask[key] == SKIPPED) != is_skipped:
        key += PANEL
    return key


@compiled
def attend(
    plan: Ints,
    cache: Cache,
    layer: int,
    slot: int,
    n_seen: int,
    masks: Masks,
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
    `masks` is (zero_row, mask, mask_stride). `zero_row` has e.N_ZERO zeros. `mask` is the result
    of `write_mask` or, without windows, `zero_row` with a stride of 0. `scores` has room for TILE
    rows of `capacity` scores and one sum per row. The scores of skipped panels are left out, so the
    other scores of a row are contiguous.
    """
    _features, _slots, _lengths, _tokens, kv, n_slot, capacity = cache
    zero_row, mask, mask_stride = masks
    head_dim, width = plan[e.HEAD_DIM], padded_width(plan[e.HEAD_DIM])
    group_size, n_key = plan[e.N_HEAD] // plan[e.N_KV_HEAD], n_seen + n_query - 1
    n_padded, scale = padded_width(n_key), F32(1) / sqrt(F32(head_dim))
    sums = at(scores, TILE * capacity)
    for head in range(plan[e.N_HEAD]):
        keys = head_keys(plan, kv, layer * n_slot + slot, head // group_size, capacity)
        values = at(keys, head_dim * capacity)
        q_head, y_head = at(q, head * head_dim), at(y, head * head_dim)
        k_stride, v_stride = head_dim * PANEL, capacity * PANEL
        n_score, n_valid, key = 0, 0, next_panel(mask, 0, n_padded, 0)
        while key < n_padded:
            stop = next_panel(mask, key, n_padded, 1)
            k, z, s = at(keys, key * head_dim), at(mask, key), at(scores, n_score)
            n_run = stop - key
            product(
                k, k_stride, q_head, q_stride, z, mask_stride, s, capacity, head_dim, n_run, n_query
            )
            n_score, n_valid = n_score + stop - key, n_score + min(stop, n_key) - key
            key = next_panel(mask, stop, n_padded, 0)
        for r in range(n_query):
            n = min(n_seen + r, n_valid)
            sums[r] = softmax_numerators(at(scores, r * capacity), n, n_score, scale)
        n_score, key, z, z_stride = 0, next_panel(mask, 0, n_padded, 0), zero_row, 0
        while key < n_padded:
            stop = next_panel(mask, key, n_padded, 1)
            v, s, n_value = at(values, key * PANEL), at(scores, n_score), min(stop, n_key) - key
            # The product also writes the padding of a head. The next head overwrites it.
            product(
                v, v_stride, s, capacity, z, z_stride, y_head, y_stride, n_value, width, n_query
            )
            n_score, z, z_stride = n_score + stop - key, y_head, y_stride
            key = next_panel(mask, stop, n_padded, 0)
        for r in range(n_query):
            factor = broadcast(F32(1) / sums[r])
            for i in range(r * y_stride, r * y_stride + width, PANEL):
                store(y_head, i, multiply(load(y_head, i), factor))
