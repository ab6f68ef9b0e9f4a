"""The forward pass of a decoder as one function in machine code, compiled by Numba.

All layers of all rows are one call, so that no time goes into calling operators, and other threads
of Python run meanwhile. Everything is float32, and nothing is allocated. A row of numbers whose
width is no multiple of 16 is padded to one; what the padding holds has no effect.

Only `machine_code.py` imports this module, to compile it.

Shapes: B sequences, T new tokens, R = B T rows, one for each token, those of a sequence together.
"""

from __future__ import annotations

import numpy as np

from calcgpt.inference.native.attention import attend, remember
from calcgpt.inference.native.elementwise import activate, heads, norm, whole_panels
from calcgpt.inference.native.numba_types import Floats, Ints, compiled, load, offset, store
from calcgpt.inference.native.products import add_linear, linear
from calcgpt.inference.native.weights import (
    ATTENTION_NORM,
    CHUNK,
    DOWN,
    FF_NORM,
    FF_WIDTH,
    FINAL_NORM,
    HEAD,
    HEAD_DIM,
    IS_GATED,
    KIND_OF_NEXT,
    KINDS,
    LAST_ID,
    LAST_PLACE,
    LAYER_SIZE,
    LAYERS,
    MARKS,
    N_CONTEXT,
    N_EMBD,
    N_HEAD,
    N_KV_HEAD,
    N_LAYER,
    N_LOGIT,
    NEXT_KINDS,
    OUT,
    OWN_KIND,
    PANEL,
    PLACES,
    POSITIONS,
    QKV,
    ROWS,
    TILE,
    UP,
)

F32 = np.float32


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
    marks: Ints,
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
        add_row(plan, w, plan[KINDS] + marks[OWN_KIND], s, x)
        add_row(plan, w, plan[NEXT_KINDS] + marks[KIND_OF_NEXT], s, x)


@compiled
def attention(
    plan: Ints,
    marks: Ints,
    cache: Floats,
    slots: Ints,
    layer: int,
    n_slot: int,
    capacity: int,
    row: int,
    n_token: int,
    start: int,
    s: Floats,
    h: int,
    n_qkv: int,
    scores: int,
    a: int,
    a_step: int,
    rows: int,
) -> None:
    """Attention of rows from `row` on, those of a sequence by tiles."""
    r = 0
    while r < rows:
        sequence, token = (row + r) // n_token, (row + r) % n_token
        n_query = min(n_token - token, rows - r, TILE)
        attend(
            plan, offset(marks, MARKS * slots[sequence] * capacity), cache,
            layer * n_slot + slots[sequence], capacity, start + token + 1,
            s, h + r * n_qkv, n_qkv, scores, a + r * a_step, a_step, n_query
        )  # fmt: skip
        r += n_query


@compiled
def keep_last(s: Floats, x: int, step: int, first: int, n_token: int, n_kept: int) -> None:
    """Moves the last row of each sequence to the front: row `first`, and every n_token-th after."""
    for k in range(n_kept):
        for i in range(0, step, PANEL):
            store(s, x + k * step + i, load(s, x + (first + k * n_token) * step + i))


@compiled
def forward(
    plan: Ints,
    w: Floats,
    row_of_token: Ints,
    rotations: Floats,
    marks: Ints,
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
    last_only: int,
) -> None:
    """Writes the logits of all rows or of each sequence's last, and the keys and values of all.

    `tokens` (slots, capacity) are the texts, the new tokens included; sequence b has its text and
    its keys and values in slot `slots[b]`, `start` tokens of them from before. `rotations` (n, D),
    cosines before sines, has a row for each position or, if the text determines them, one for the
    query and one for the key of each place of each slot, as `marks` (slots, capacity, 4) has what
    the text says of it. `s` is scratch memory (`weights.scratch_size`), zeros at first.
    """
    step = whole_panels(plan[N_EMBD])
    n_qkv = whole_panels((plan[N_HEAD] + 2 * plan[N_KV_HEAD]) * plan[HEAD_DIM])
    n_up = whole_panels(plan[FF_WIDTH]) * (1 + plan[IS_GATED])
    room = CHUNK + TILE  # rows
    x = plan[N_CONTEXT]  # the residual stream, behind zeros
    a = x + room * step  # its normalised rows; what the heads found, of which the last may be long
    a_step = step + PANEL
    h = a + room * a_step  # queries, keys and values; the hidden layer
    scores = h + room * max(n_qkv, n_up)
    for first_row in range(0, batch * n_token, CHUNK):
        row, rows = first_row, min(CHUNK, batch * n_token - first_row)
        per_sequence, begin = n_token, start
        for r in range(rows):
            sequence, token = (row + r) // n_token, (row + r) % n_token
            text, to = offset(tokens, slots[sequence] * capacity), x + r * step
            of_token = offset(marks, MARKS * (slots[sequence] * capacity + start + token))
            embed(plan, w, row_of_token, of_token, text, start + token, s, to, step)
        for layer in range(plan[N_LAYER]):
            here = plan[LAYERS] + layer * plan[LAYER_SIZE]
            norm(plan, w, here + plan[ATTENTION_NORM], s, x, step, a, a_step, rows)
            linear(w, here + plan[QKV], s, a, a_step, s, h, n_qkv, plan[N_EMBD], n_qkv, rows)
            for r in range(rows):
                slot, position = slots[(row + r) // n_token], start + (row + r) % n_token
                place = slot * capacity + position
                heads(plan, w, here, rotations, place, position, s, h + r * n_qkv)
                slot += layer * n_slot
                remember(plan, s, h + r * n_qkv, cache, slot, capacity, position)
            if last_only and layer == plan[N_LAYER] - 1 and n_token > 1:
                # From here on, only rows whose logits are asked for. They are texts of one token.
                first_last = n_token - 1 - row % n_token
                row, per_sequence, begin = row // n_token, 1, start + n_token - 1
                rows = max(0, (rows - first_last + n_token - 1) // n_token)
                keep_last(s, x, step, first_last, n_token, rows)
                keep_last(s, h, n_qkv, first_last, n_token, rows)
            attention(
                plan, marks, cache, slots, layer, n_slot, capacity, row, per_sequence, begin,
                s, h, n_qkv, scores, a, a_step, rows
            )  # fmt: skip
            add_linear(w, here + plan[OUT], s, a, a_step, s, x, step, plan[N_EMBD], step, rows)
            norm(plan, w, here + plan[FF_NORM], s, x, step, a, a_step, rows)
            linear(w, here + plan[UP], s, a, a_step, s, h, n_up, plan[N_EMBD], n_up, rows)
            activate(plan, s, h, n_up, rows)
            add_linear(w, here + plan[DOWN], s, h, n_up, s, x, step, plan[FF_WIDTH], step, rows)
        norm(plan, w, plan[FINAL_NORM], s, x, step, a, a_step, rows)
        to, n_logit = row * plan[N_LOGIT], plan[N_LOGIT]
        linear(w, plan[HEAD], s, a, a_step, logits, to, n_logit, plan[N_EMBD], n_logit, rows)
