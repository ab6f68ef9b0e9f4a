"""The parts of a layer other than products with matrices, compiled by Numba: norms, activations,
rotations, and attention over the cache of keys and values.

Keys and values are stored in panels, as matrices are: the scores of a query are the product of its
row with a matrix whose columns are keys, and its output is the product of its weights with the
matrix of the values. So queries that follow each other in a text are a product of several rows.
"""

from __future__ import annotations

import numpy as np

from calcgpt.inference.native.numba_types import (
    Float,
    Floats,
    Ints,
    Masks,
    Texts,
    Vector,
    add,
    at,
    compiled,
    divide,
    every,
    first,
    larger,
    largest_of,
    load,
    multiply,
    nearest,
    power_of_two,
    smaller,
    sqrt,
    store,
    subtract,
    sum_of,
    zeros,
)
from calcgpt.inference.native.products import product
from calcgpt.inference.native.weights import (
    ACTIVATION,
    BY_ROW,
    CENTER_COLUMN,
    CENTER_ROW,
    COLUMN_WINDOW,
    FF_WIDTH,
    FIELD_AXIS,
    HAS_QK_NORM,
    HEAD_DIM,
    IS_GATED,
    IS_LAYERNORM,
    K_NORM,
    N_EMBD,
    N_HEAD,
    N_KV_HEAD,
    OWN_COLUMN,
    OWN_KIND,
    OWN_ROW,
    PANEL,
    Q_NORM,
    RELU,
    ROTATION,
    ROW_WINDOW,
    SIGMOID,
    SILU,
    SQUARED_RELU,
    TILE,
    WHOLE_ROWS,
)

F32 = np.float32
HIDDEN, SKIPPED = F32(-1e30), F32(-2e30)  # added to a score


@compiled
def whole_panels(width: int) -> int:
    """Returns a width rounded up to whole panels."""
    n_panel: int = (width + PANEL - 1) // PANEL
    return n_panel * PANEL


@compiled
def exp(x: Vector) -> Vector:
    """e^x to float32's precision.

    x = n log 2 + r, and e^r is a polynomial (Cephes, expf). Beyond the limits of float32, the
    result is the smallest or nearly the largest number.
    """
    x = smaller(larger(x, every(F32(-87))), every(F32(88)))
    n = nearest(multiply(x, every(F32(1.44269504))))
    r = subtract(x, multiply(n, every(F32(0.693359375))))
    r = add(r, multiply(n, every(F32(2.12194440e-4))))
    p = add(multiply(every(F32(1.9875691500e-4)), r), every(F32(1.3981999507e-3)))
    p = add(multiply(p, r), every(F32(8.3334519073e-3)))
    p = add(multiply(p, r), every(F32(4.1665795894e-2)))
    p = add(multiply(p, r), every(F32(1.6666665459e-1)))
    p = add(multiply(p, r), every(F32(5.0000001201e-1)))
    p = add(multiply(multiply(p, r), r), add(r, every(F32(1))))
    return multiply(p, power_of_two(n))


@compiled
def sigmoid(x: Vector) -> Vector:
    """1 / (1 + e^-x)."""
    return divide(every(F32(1)), add(every(F32(1)), exp(subtract(zeros(), x))))


@compiled
def activated(kind: int, x: Vector) -> Vector:
    """The activation function of this kind (`weights.ACTIVATIONS`)."""
    if kind == RELU:
        return larger(x, zeros())
    if kind == SQUARED_RELU:
        return multiply(larger(x, zeros()), larger(x, zeros()))
    if kind == SILU:
        return multiply(x, sigmoid(x))
    if kind == SIGMOID:
        return sigmoid(x)
    # GELU_TANH: (1 + tanh(u)) / 2 = sigmoid(2 u)
    cubic = multiply(multiply(x, x), multiply(x, every(F32(0.044715))))
    return multiply(x, sigmoid(multiply(every(F32(1.5957691216)), add(x, cubic))))


@compiled
def activate(plan: Ints, hidden: Floats, step: int, n_row: int) -> None:
    """Applies the activation to the hidden layer; where it is gated, to the gates."""
    width, kind, is_gated = whole_panels(plan[FF_WIDTH]), plan[ACTIVATION], plan[IS_GATED]
    for r in range(n_row):
        for i in range(r * step, r * step + width, PANEL):
            value = activated(kind, load(hidden, i))
            store(hidden, i, multiply(value, load(hidden, i + width)) if is_gated else value)


@compiled
def normalise(plan: Ints, gain: Floats, width: int, x: Floats, y: Floats) -> None:
    """Layer or root-mean-square normalisation of one row. The bias follows the gain; y may be x."""
    n, epsilon, mean = F32(width), F32(1e-6), zeros()
    if plan[IS_LAYERNORM]:
        epsilon, total = F32(1e-5), zeros()
        for i in range(0, width, PANEL):
            total = add(total, first(width - i, load(x, i), zeros()))
        mean = every(sum_of(total) / n)
    square = zeros()
    for i in range(0, width, PANEL):
        centred = first(width - i, subtract(load(x, i), mean), zeros())
        square = add(square, multiply(centred, centred))
    scale = every(F32(1) / sqrt(sum_of(square) / n + epsilon))
    for i in range(0, width, PANEL):
        before = load(x, i)
        value = multiply(multiply(subtract(before, mean), scale), load(gain, i))
        value = add(value, load(gain, width + i))
        store(y, i, first(width - i, value, before))


@compiled
def norm(
    plan: Ints, gain: Floats, x: Floats, x_step: int, y: Floats, y_step: int, n_row: int
) -> None:
    """y = norm(x), for rows of the model's width."""
    for r in range(n_row):
        normalise(plan, gain, plan[N_EMBD], at(x, r * x_step), at(y, r * y_step))


@compiled
def rotate_heads(
    plan: Ints, layer: Floats, rotations: Floats, cache_row: int, position: int, qkv: Floats
) -> None:
    """Normalises and rotates the queries and keys of a row, where the model does."""
    width, half = plan[HEAD_DIM], plan[HEAD_DIM] // 2
    for head in range(plan[N_HEAD] + plan[N_KV_HEAD]):
        is_key, x = head >= plan[N_HEAD], at(qkv, head * width)
        if plan[HAS_QK_NORM]:
            gain = plan[K_NORM] if is_key else plan[Q_NORM]
            normalise(plan, at(layer, gain), width, x, x)
        if plan[ROTATION]:
            angle = (2 * cache_row + is_key if plan[ROTATION] == BY_ROW else position) * width
            for i in range(half):
                cos, sin = rotations[angle + i], rotations[angle + half + i]
                left, right = x[i], x[half + i]
                x[i], x[half + i] = left * cos - right * sin, right * cos + left * sin


@compiled
def keys_of(plan: Ints, cache: Floats, slot: int, group: int, capacity: int) -> Floats:
    """Returns a pointer to the keys of a slot's head in the cache; its values follow them."""
    width = plan[HEAD_DIM]
    return at(cache, (slot * plan[N_KV_HEAD] + group) * (width + whole_panels(width)) * capacity)


@compiled
def remember(
    plan: Ints, qkv: Floats, cache: Floats, slot: int, capacity: int, position: int
) -> None:
    """Stores the keys of a row as a column of their panels, its values as a row of theirs."""
    width = plan[HEAD_DIM]
    panel, column = position // PANEL, position % PANEL
    for group in range(plan[N_KV_HEAD]):
        key = at(qkv, (plan[N_HEAD] + group) * width)
        value = at(key, plan[N_KV_HEAD] * width)
        keys = keys_of(plan, cache, slot, group, capacity)
        values = at(keys, width * capacity)
        for i in range(width):
            keys[(panel * width + i) * PANEL + column] = key[i]
        for i in range(0, width, PANEL):
            part = first(width - i, load(value, i), zeros())
            store(values, (i // PANEL * capacity + position) * PANEL, part)


@compiled
def soften(scores: Floats, n: int, n_score: int, scale: Float) -> Float:
    """Replaces n scores by exp(scale (score - the largest)), those after them up to `n_score` by
    zeros. Returns their sum."""
    lowest, peak, total = every(F32(-3e38)), every(F32(-3e38)), zeros()
    for i in range(0, n, PANEL):
        peak = larger(first(n - i, load(scores, i), lowest), peak)
    peak, factor, least = every(largest_of(peak)), every(scale), every(F32(1e-30))
    for i in range(0, n_score, PANEL):
        weight = exp(multiply(subtract(load(scores, i), peak), factor))
        # What is hidden gets 0: products of the least numbers take a hundred times as long.
        weight = larger(subtract(weight, least), zeros())
        weight = first(n - i, weight, zeros())
        store(scores, i, weight)
        total = add(total, weight)
    return sum_of(total)


@compiled
def hide(
    plan: Ints, marks: Ints, capacity: int, n_seen: int, hidden: Floats, step: int, n_query: int
) -> None:
    """Writes what `attend` adds to the scores of a tile: 0 where the windows of a row show it a key
    that it may see, else HIDDEN. A panel of keys that no row sees begins with SKIPPED."""
    kinds, n_key = at(marks, OWN_KIND * capacity), whole_panels(n_seen + n_query - 1)
    rows, columns = at(marks, OWN_ROW * capacity), at(marks, OWN_COLUMN * capacity)
    row_window = plan[ROW_WINDOW] if plan[ROW_WINDOW] else 2 * FIELD_AXIS
    column_window = plan[COLUMN_WINDOW]
    for r in range(n_query):
        to, query = at(hidden, r * step), n_seen + r - 1
        row = marks[CENTER_ROW * capacity + query]
        column = marks[CENTER_COLUMN * capacity + query]
        whole_rows = marks[WHOLE_ROWS * capacity + query]
        for key in range(n_key):  # without branches, so that the compiler uses vectors
            is_in_row = (rows[key] == 0) | (abs(rows[key] - row) < row_window)
            is_in_column = (columns[key] == 0) | (abs(columns[key] - column) < column_window)
            is_in_column |= (whole_rows >> (kinds[key] & 63)) & 1 == 1
            is_in_column |= column_window == 0
            to[key] = F32(0) if is_in_row & is_in_column & (key <= query) else HIDDEN
    for key in range(0, n_key, PANEL):
        shown = load(hidden, key)
        for r in range(1, n_query):
            shown = larger(shown, load(hidden, r * step + key))
        if largest_of(shown) < F32(0):
            hidden[key] = SKIPPED


@compiled
def next_panel(hidden: Floats, key: int, n_key: int, is_skipped: int) -> int:
    """Returns the first panel from a key on that is skipped, or that is not; n_key for none."""
    while key < n_key and (hidden[key] == SKIPPED) != is_skipped:
        key += PANEL
    return key


@compiled
def attend(
    plan: Ints,
    texts: Texts,
    layer: int,
    slot: int,
    n_seen: int,
    masks: Masks,
    q: Floats,
    q_step: int,
    scores: Floats,
    y: Floats,
    y_step: int,
    n_query: int,
) -> None:
    """Attention of up to TILE rows that follow each other in a text. The first sees `n_seen` tokens
    of its slot, every other one more than the row before it.

    `masks` has zeros, as many as the context is long, and what `hide` wrote or, without windows,
    the same zeros, with a step of 0. `scores` has room for TILE rows of scores and for the sum of
    each. Those of skipped panels are left out.
    """
    _marks, _slots, _lengths, _tokens, cache, n_slot, capacity = texts
    blank, hidden, hidden_step = masks
    width, wide = plan[HEAD_DIM], whole_panels(plan[HEAD_DIM])
    per_group, n_last = plan[N_HEAD] // plan[N_KV_HEAD], n_seen + n_query - 1
    n_key, scale = whole_panels(n_last), F32(1) / sqrt(F32(width))
    sums = at(scores, TILE * capacity)
    for head in range(plan[N_HEAD]):
        keys = keys_of(plan, cache, layer * n_slot + slot, head // per_group, capacity)
        values = at(keys, width * capacity)
        q_head, y_head = at(q, head * width), at(y, head * width)
        k_step, v_step = width * PANEL, capacity * PANEL
        n_score, n_last_score, key = 0, 0, next_panel(hidden, 0, n_key, 0)
        while key < n_key:
            end = next_panel(hidden, key, n_key, 1)
            k, z, s = at(keys, key * width), at(hidden, key), at(scores, n_score)
            product(
                k, k_step, q_head, q_step, z, hidden_step, s, capacity, width, end - key, n_query
            )
            n_score, n_last_score = n_score + end - key, n_score + min(end, n_last) - key
            key = next_panel(hidden, end, n_key, 0)
        for r in range(n_query):
            n = min(n_seen + r, n_last_score)
            sums[r] = soften(at(scores, r * capacity), n, n_score, scale)
        n_score, key, z, z_step = 0, next_panel(hidden, 0, n_key, 0), blank, 0
        while key < n_key:
            end = next_panel(hidden, key, n_key, 1)
            v, s, n_value = at(values, key * PANEL), at(scores, n_score), min(end, n_last) - key
            # What is written beyond the head's width, the next head overwrites.
            product(v, v_step, s, capacity, z, z_step, y_head, y_step, n_value, wide, n_query)
            n_score, z, z_step = n_score + end - key, y_head, y_step
            key = next_panel(hidden, end, n_key, 0)
        for r in range(n_query):
            factor = every(F32(1) / sums[r])
            for i in range(r * y_step, r * y_step + wide, PANEL):
                store(y_head, i, multiply(load(y_head, i), factor))
