"""The forward pass of a decoder as one function in machine code, compiled by Numba.

All layers of all rows are one call, so that no time goes into calling operators, and other threads
of Python run meanwhile. Everything is float32, and nothing is allocated. A row of numbers whose
width is no multiple of 16 is padded to one; what the padding holds has no effect.

Matrices are stored in panels (`weights.panels`), and so are keys and values: the scores of a query
are the product of its row with a matrix whose columns are keys, and its output is the product of
its weights with the matrix of the values.

Only `machine_code.py` imports this module, to compile it.

Shapes: B sequences, T new tokens, R = T B rows, one for each token, all sequences' first tokens
first.
"""

from __future__ import annotations

import numpy as np

from calcgpt.inference.native.numba_types import (
    Float,
    Floats,
    Ints,
    compiled,
    offset,
    power_of_two,
    sqrt,
)
from calcgpt.inference.native.products import add_linear, add_product, linear
from calcgpt.inference.native.weights import (
    ACTIVATION,
    ATTENTION_NORM,
    BY_ROW,
    CHUNK,
    DOWN,
    FF_NORM,
    FF_WIDTH,
    FINAL_NORM,
    GELU_TANH,
    HAS_QK_NORM,
    HEAD,
    HEAD_DIM,
    IS_GATED,
    IS_LAYERNORM,
    K_NORM,
    KINDS,
    LAST_ID,
    LAST_PLACE,
    LAYER_SIZE,
    LAYERS,
    N_EMBD,
    N_HEAD,
    N_KV_HEAD,
    N_LAYER,
    N_LOGIT,
    NEXT_KINDS,
    OUT,
    PANEL,
    PLACES,
    POSITIONS,
    Q_NORM,
    QKV,
    RELU,
    ROTATION,
    ROWS,
    SIGMOID,
    SILU,
    SQUARED_RELU,
    UP,
)

F32 = np.float32


@compiled
def whole_panels(width: int) -> int:
    n_panel: int = (width + PANEL - 1) // PANEL
    return n_panel * PANEL


@compiled
def add_row(plan: Ints, w: Floats, row: int, s: Floats, x: int) -> None:
    """Adds a row of the embedding tables."""
    for i in range(plan[N_EMBD]):
        s[x + i] += w[row * plan[N_EMBD] + i]


@compiled
def embed(
    plan: Ints,
    w: Floats,
    row_of_token: Ints,
    kinds: Ints,
    tokens: Ints,
    position: int,
    s: Floats,
    x: int,
    step: int,
) -> None:
    """Writes the sum of the embeddings of a token: its own and those of where it is.

    `tokens` points to the first of its sequence. See `calcgpt.model.positions`.
    """
    for i in range(step):
        s[x + i] = F32(0)
    add_row(plan, w, tokens[position], s, x)
    if plan[POSITIONS]:
        add_row(plan, w, plan[POSITIONS] + position, s, x)
    if plan[PLACES]:
        mark = position  # the last token that starts a row
        while mark > 0 and row_of_token[min(tokens[mark], plan[LAST_ID])] == 0:
            mark -= 1
        row = row_of_token[min(tokens[mark], plan[LAST_ID])]
        add_row(plan, w, plan[PLACES] + min(position - mark, plan[LAST_PLACE]), s, x)
        add_row(plan, w, plan[ROWS] + row, s, x)
    if plan[KINDS]:
        add_row(plan, w, plan[KINDS] + kinds[0], s, x)
        add_row(plan, w, plan[NEXT_KINDS] + kinds[1], s, x)


@compiled
def exp(x: Float) -> Float:
    """e^x to float32's precision, in operations that LLVM can do on many numbers at once.

    x = n log 2 + r, and e^r is a polynomial (Cephes, expf). Beyond the limits of float32, the
    result is the smallest or nearly the largest number.
    """
    x = min(max(x, F32(-87)), F32(88))
    power = np.int32(x * F32(1.44269504) + (F32(0.5) if x > 0 else F32(-0.5)))
    n = F32(power)
    r = x - n * F32(0.693359375) + n * F32(2.12194440e-4)
    p = F32(1.9875691500e-4) * r + F32(1.3981999507e-3)
    p = (p * r + F32(8.3334519073e-3)) * r + F32(4.1665795894e-2)
    p = (p * r + F32(1.6666665459e-1)) * r + F32(5.0000001201e-1)
    return (p * r * r + r + F32(1)) * power_of_two(power)


@compiled
def sigmoid(x: Float) -> Float:
    return F32(1) / (F32(1) + exp(-x))


@compiled
def activate(plan: Ints, s: Floats, h: int, step: int, rows: int) -> None:
    """Applies the activation to the hidden layer; where it is gated, to the gates."""
    width, kind, is_gated = plan[FF_WIDTH], plan[ACTIVATION], plan[IS_GATED]
    for r in range(rows):
        x = h + r * step
        if kind in (RELU, SQUARED_RELU):
            for i in range(width):
                s[x + i] = max(s[x + i], F32(0))
        if kind == SQUARED_RELU:
            for i in range(width):
                s[x + i] *= s[x + i]
        if kind == SILU:
            for i in range(width):
                s[x + i] *= sigmoid(s[x + i])
        if kind == SIGMOID:
            for i in range(width):
                s[x + i] = sigmoid(s[x + i])
        if kind == GELU_TANH:  # (1 + tanh(u)) / 2 = sigmoid(2 u)
            for i in range(width):
                v = s[x + i]
                s[x + i] = v * sigmoid(F32(1.5957691216) * (v + F32(0.044715) * v * v * v))
        if is_gated:
            for i in range(width):
                s[x + i] *= s[x + width + i]


@compiled
def normalise(plan: Ints, w: Floats, gain: int, width: int, s: Floats, x: int, y: int) -> None:
    """Layer or root-mean-square normalisation of one row; y may be x."""
    mean, epsilon = F32(0), F32(1e-6)
    if plan[IS_LAYERNORM]:
        epsilon = F32(1e-5)
        for i in range(width):
            mean += s[x + i]
        mean /= F32(width)
    square = F32(0)
    for i in range(width):
        square += (s[x + i] - mean) * (s[x + i] - mean)
    scale = F32(1) / sqrt(square / F32(width) + epsilon)
    for i in range(width):
        s[y + i] = (s[x + i] - mean) * scale * w[gain + i] + w[gain + width + i]


@compiled
def norm(
    plan: Ints,
    w: Floats,
    gain: int,
    s: Floats,
    x: int,
    x_step: int,
    y: int,
    y_step: int,
    rows: int,
) -> None:
    """y = norm(x), for rows of the model's width."""
    for r in range(rows):
        normalise(plan, w, gain, plan[N_EMBD], s, x + r * x_step, y + r * y_step)


@compiled
def heads(
    plan: Ints,
    w: Floats,
    layer: int,
    rotations: Floats,
    row: int,
    position: int,
    s: Floats,
    qkv: int,
) -> None:
    """Normalises and rotates the queries and keys of a row, where the model does."""
    width, half = plan[HEAD_DIM], plan[HEAD_DIM] // 2
    for head in range(plan[N_HEAD] + plan[N_KV_HEAD]):
        is_key = head >= plan[N_HEAD]
        x = qkv + head * width
        if plan[HAS_QK_NORM]:
            gain = layer + (plan[K_NORM] if is_key else plan[Q_NORM])
            normalise(plan, w, gain, width, s, x, x)
        if plan[ROTATION]:
            angle = (2 * row + is_key if plan[ROTATION] == BY_ROW else position) * width
            for i in range(half):
                cos, sin = rotations[angle + i], rotations[angle + half + i]
                left, right = s[x + i], s[x + half + i]
                s[x + i] = left * cos - right * sin
                s[x + half + i] = right * cos + left * sin


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
            cache[v0 + (i // PANEL * capacity + position) * PANEL + i % PANEL] = s[value + i]


@compiled
def soften(s: Floats, x: int, n: int, scale: Float) -> Float:
    """Replaces scores by exp(scale (score - the largest)). Returns their sum."""
    largest = s[x]
    for i in range(1, n):
        largest = max(largest, s[x + i])
    total = F32(0)
    for i in range(n):
        s[x + i] = exp((s[x + i] - largest) * scale)
        total += s[x + i]
    return total


@compiled
def attend(
    plan: Ints,
    cache: Floats,
    slot: int,
    capacity: int,
    n_seen: int,
    s: Floats,
    q: int,
    scores: int,
    y: int,
) -> None:
    """Attention of one row over the first `n_seen` tokens of its slot."""
    width, wide = plan[HEAD_DIM], whole_panels(plan[HEAD_DIM])
    per_group, n_score = plan[N_HEAD] // plan[N_KV_HEAD], whole_panels(n_seen)
    scale = F32(1) / sqrt(F32(width))
    for head in range(plan[N_HEAD]):
        keys = keys_at(plan, slot, head // per_group, capacity)
        values = keys + width * capacity
        for i in range(n_score):
            s[scores + i] = F32(0)
        add_product(
            cache, keys, width * PANEL, s, q + head * width, 0, s, scores, 0, width, n_score, 1
        )  # fmt: skip
        total = soften(s, scores, n_seen, scale)
        to = y + head * width  # what is written beyond the head's width, the next head overwrites
        for i in range(wide):
            s[to + i] = F32(0)
        add_product(
            cache, values, capacity * PANEL, s, scores, 0, s, to, 0, n_seen, wide, 1
        )  # fmt: skip
        for i in range(width):
            s[to + i] /= total


def forward(
    plan: Ints,
    w: Floats,
    row_of_token: Ints,
    rotations: Floats,
    kinds: Ints,
    slots: Ints,
    tokens: Ints,
    cache: Floats,
    s: Floats,
    logits: Floats,
    batch: int,
    n_token: int,
    start: int,
    n_slot: int,
    capacity: int,
    first: int,
) -> None:
    """Writes the logits of rows from `first` on, and the keys and values of all rows.

    `tokens` (slots, capacity) are the texts, the new tokens included; sequence b has its text and
    its keys and values in slot `slots[b]`, `start` tokens of them from before. `rotations` (n, D),
    cosines before sines, has a row for each position or, if the text determines them, one for the
    query and one for the key of each token, as `kinds` (R, 2) has its kind and that of the next.
    `s` is scratch memory (`weights.scratch_size`).
    """
    step = whole_panels(plan[N_EMBD])
    n_qkv = whole_panels((plan[N_HEAD] + 2 * plan[N_KV_HEAD]) * plan[HEAD_DIM])
    n_up = whole_panels(plan[FF_WIDTH] * (1 + plan[IS_GATED]))
    x = 0  # the residual stream
    a = x + CHUNK * step  # its normalised rows; what the heads found, of which the last may be long
    a_step = step + PANEL
    h = a + CHUNK * a_step  # queries, keys and values; the hidden layer
    scores = h + CHUNK * max(n_qkv, n_up)
    for row in range(0, batch * n_token, CHUNK):
        rows = min(CHUNK, batch * n_token - row)
        for r in range(rows):
            position = start + (row + r) // batch
            text = offset(tokens, slots[(row + r) % batch] * capacity)
            embed(
                plan,
                w,
                row_of_token,
                offset(kinds, 2 * (row + r)),
                text,
                position,
                s,
                x + r * step,
                step,
            )
        for layer in range(plan[N_LAYER]):
            here = plan[LAYERS] + layer * plan[LAYER_SIZE]
            norm(plan, w, here + plan[ATTENTION_NORM], s, x, step, a, a_step, rows)
            linear(w, here + plan[QKV], s, a, a_step, s, h, n_qkv, plan[N_EMBD], n_qkv, rows)
            for r in range(rows):
                slot = layer * n_slot + slots[(row + r) % batch]
                position = start + (row + r) // batch
                heads(plan, w, here, rotations, row + r, position, s, h + r * n_qkv)
                remember(plan, s, h + r * n_qkv, cache, slot, capacity, position)
            for r in range(rows):
                slot = layer * n_slot + slots[(row + r) % batch]
                n_seen = start + (row + r) // batch + 1
                attend(
                    plan, cache, slot, capacity, n_seen, s, h + r * n_qkv, scores, a + r * a_step
                )
            add_linear(w, here + plan[OUT], s, a, a_step, s, x, step, plan[N_EMBD], step, rows)
            norm(plan, w, here + plan[FF_NORM], s, x, step, a, a_step, rows)
            linear(w, here + plan[UP], s, a, a_step, s, h, n_up, plan[N_EMBD], n_up, rows)
            activate(plan, s, h, n_up, rows)
            add_linear(w, here + plan[DOWN], s, h, n_up, s, x, step, plan[FF_WIDTH], step, rows)
        skipped = max(0, first - row)
        if skipped < rows:
            rest, n_logit = rows - skipped, plan[N_LOGIT]
            norm(plan, w, plan[FINAL_NORM], s, x + skipped * step, step, a, a_step, rest)
            to = (row + skipped - first) * n_logit
            linear(
                w, plan[HEAD], s, a, a_step, logits, to, n_logit, plan[N_EMBD], n_logit, rest
            )  # fmt: skip
