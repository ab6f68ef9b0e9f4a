"""The forward pass of a decoder and greedy decoding as one function in machine code, compiled by
Numba.

All layers of all rows are one call, and so are several tokens, so that no time goes into calling
operators, and other threads of Python run meanwhile. Everything is float32, and nothing is
allocated. A row of numbers whose width is no multiple of 16 is padded to one; what the padding
holds has no effect.

Only `machine_code.py` imports this module, to compile `decode`.

Shapes: B sequences, T new tokens, R = B T rows, one for each token, those of a sequence together.
"""

from __future__ import annotations

import numpy as np

from calcgpt.inference.native.layers import (
    activate,
    attend,
    hide,
    norm,
    remember,
    rotate_heads,
    soften,
    whole_panels,
)
from calcgpt.inference.native.numba_types import (
    Floats,
    Ints,
    Masks,
    Model,
    Texts,
    at,
    compiled,
    load,
    store,
)
from calcgpt.inference.native.products import add_linear, linear
from calcgpt.inference.native.weights import (
    ATTENTION_NORM,
    CHUNK,
    COLUMN_WINDOW,
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
    ROW_WINDOW,
    ROWS,
    TILE,
    UP,
    VOCAB_SIZE,
)

F32 = np.float32


@compiled
def add_row(plan: Ints, w: Floats, row: int, x: Floats) -> None:
    """Adds a row of the embedding tables."""
    for i in range(plan[N_EMBD]):
        x[i] += w[row * plan[N_EMBD] + i]


@compiled
def embed(
    plan: Ints,
    w: Floats,
    row_of_token: Ints,
    marks: Ints,
    capacity: int,
    tokens: Ints,
    position: int,
    x: Floats,
    step: int,
) -> None:
    """Writes the sum of the embeddings of a token: its own and those of where it is.

    `tokens` and `marks` point to the first of its sequence. See `calcgpt.model.positions`.
    """
    for i in range(step):
        x[i] = F32(0)
    add_row(plan, w, tokens[position], x)
    if plan[POSITIONS]:
        add_row(plan, w, plan[POSITIONS] + position, x)
    if plan[PLACES]:
        mark = position  # the last token that starts a row
        while mark > 0 and row_of_token[min(tokens[mark], plan[LAST_ID])] == 0:
            mark -= 1
        row = row_of_token[min(tokens[mark], plan[LAST_ID])]
        add_row(plan, w, plan[PLACES] + min(position - mark, plan[LAST_PLACE]), x)
        add_row(plan, w, plan[ROWS] + row, x)
    if plan[KINDS]:
        add_row(plan, w, plan[KINDS] + marks[OWN_KIND * capacity + position], x)
        add_row(plan, w, plan[NEXT_KINDS] + marks[KIND_OF_NEXT * capacity + position], x)


@compiled
def attention(
    plan: Ints,
    texts: Texts,
    layer: int,
    row: int,
    n_token: int,
    offset: int,
    masks: Masks,
    qkv: Floats,
    qkv_step: int,
    scores: Floats,
    y: Floats,
    y_step: int,
    n_row: int,
) -> None:
    """Attention of rows from `row` on, those of a sequence by tiles. For `offset` see `forward`,
    for `masks` see `attend`."""
    slots, lengths, r = texts[1], texts[2], 0
    blank, hidden, step = masks
    while r < n_row:
        slot, token = slots[(row + r) // n_token], (row + r) % n_token
        n_query = min(n_token - token, n_row - r, TILE)
        n_seen = lengths[slot] + offset + token + 1
        q, to = at(qkv, r * qkv_step), at(y, r * y_step)
        of_tile = (blank, at(hidden, r * step), step)
        attend(plan, texts, layer, slot, n_seen, of_tile, q, qkv_step, scores, to, y_step, n_query)
        r += n_query


@compiled
def hide_rows(
    plan: Ints, texts: Texts, row: int, n_token: int, offset: int, masks: Masks, n_row: int
) -> None:
    """Writes what the windows hide from rows from `row` on, by the tiles of `attention`."""
    marks, slots, lengths, _tokens, _cache, _n_slot, capacity = texts
    _blank, hidden, step = masks
    r = 0
    while r < n_row and step:
        slot, token = slots[(row + r) // n_token], (row + r) % n_token
        n_query = min(n_token - token, n_row - r, TILE)
        n_seen = lengths[slot] + offset + token + 1
        text, to = at(marks, MARKS * slot * capacity), at(hidden, r * step)
        hide(plan, text, capacity, n_seen, to, step, n_query)
        r += n_query


@compiled
def keep_last(x: Floats, step: int, first: int, n_token: int, n_kept: int) -> None:
    """Moves the last row of each sequence to the front: row `first`, and every n_token-th after."""
    for k in range(n_kept):
        for i in range(0, step, PANEL):
            store(x, k * step + i, load(x, (first + k * n_token) * step + i))


@compiled
def forward(
    model: Model,
    texts: Texts,
    scratch: Floats,
    logits: Floats,
    batch: int,
    n_token: int,
    last_only: int,
) -> None:
    """Writes the logits of all rows or of each sequence's last, and the keys and values of all. The
    arguments are those of `decode`.

    The first row of a sequence has the position `lengths[slot] + offset`. The offset is 0, or
    n_token - 1 where only the last row of each sequence is left.
    """
    plan, w, row_of_token, rotations = model
    marks, slots, lengths, tokens, cache, n_slot, capacity = texts
    step = whole_panels(plan[N_EMBD])
    n_qkv = whole_panels((plan[N_HEAD] + 2 * plan[N_KV_HEAD]) * plan[HEAD_DIM])
    n_up = whole_panels(plan[FF_WIDTH]) * (1 + plan[IS_GATED])
    room = CHUNK + TILE  # rows
    blank = scratch  # zeros
    x = at(scratch, plan[N_CONTEXT])  # the residual stream
    a = at(x, room * step)  # its normalised rows; then the heads' outputs: the last may be long
    a_step = step + PANEL
    h = at(a, room * a_step)  # queries, keys and values; the hidden layer
    scores = at(h, room * max(n_qkv, n_up))
    masks = (blank, blank, 0)
    if plan[ROW_WINDOW] or plan[COLUMN_WINDOW]:
        masks = (blank, at(scores, TILE * capacity + PANEL), capacity)
    for first_row in range(0, batch * n_token, CHUNK):
        row, n_row = first_row, min(CHUNK, batch * n_token - first_row)
        n_each, offset = n_token, 0  # rows of each sequence
        for r in range(n_row):
            slot = slots[(row + r) // n_token]
            position = lengths[slot] + (row + r) % n_token
            text, about = at(tokens, slot * capacity), at(marks, MARKS * slot * capacity)
            to = at(x, r * step)
            embed(plan, w, row_of_token, about, capacity, text, position, to, step)
        hide_rows(plan, texts, row, n_each, offset, masks, n_row)
        for layer in range(plan[N_LAYER]):
            here = at(w, plan[LAYERS] + layer * plan[LAYER_SIZE])
            norm(plan, at(here, plan[ATTENTION_NORM]), x, step, a, a_step, n_row)
            linear(at(here, plan[QKV]), a, a_step, h, plan[N_EMBD], n_qkv, n_row)
            for r in range(n_row):
                slot = slots[(row + r) // n_token]
                position = lengths[slot] + (row + r) % n_token
                qkv, cache_row = at(h, r * n_qkv), slot * capacity + position
                rotate_heads(plan, here, rotations, cache_row, position, qkv)
                remember(plan, qkv, cache, layer * n_slot + slot, capacity, position)
            if last_only and layer == plan[N_LAYER] - 1 and n_token > 1:
                # From here on, only rows whose logits are asked for. They are texts of one token.
                first_last = n_token - 1 - row % n_token
                row, n_each, offset = row // n_token, 1, n_token - 1
                n_row = max(0, (n_row - first_last + n_token - 1) // n_token)
                keep_last(x, step, first_last, n_token, n_row)
                keep_last(h, n_qkv, first_last, n_token, n_row)
                hide_rows(plan, texts, row, n_each, offset, masks, n_row)
            attention(
                plan, texts, layer, row, n_each, offset, masks, h, n_qkv, scores, a, a_step, n_row
            )
            add_linear(at(here, plan[OUT]), a, a_step, x, plan[N_EMBD], step, n_row)
            norm(plan, at(here, plan[FF_NORM]), x, step, a, a_step, n_row)
            linear(at(here, plan[UP]), a, a_step, h, plan[N_EMBD], n_up, n_row)
            activate(plan, h, n_up, n_row)
            add_linear(at(here, plan[DOWN]), h, n_up, x, plan[FF_WIDTH], step, n_row)
        norm(plan, at(w, plan[FINAL_NORM]), x, step, a, a_step, n_row)
        of_row, n_logit = at(logits, row * plan[N_LOGIT]), plan[N_LOGIT]
        linear(at(w, plan[HEAD]), a, a_step, of_row, plan[N_EMBD], n_logit, n_row)


@compiled
def choose(
    plan: Ints,
    logits: Floats,
    slots: Ints,
    written: Ints,
    probabilities: Floats,
    index: int,
    length: int,
    batch: int,
) -> None:
    """Writes the most probable token of each row, the first of equal ones, and its probability.

    A logit that is not a number is the largest, as for NumPy.
    """
    for b in range(batch):
        row, to, best = at(logits, b * plan[N_LOGIT]), slots[b] * length + index, 0
        for token in range(1, plan[VOCAB_SIZE]):
            if row[token] > row[best] or row[token] != row[token]:
                best = token
        zero = row[best] - row[best]  # or not a number
        total = soften(row, plan[VOCAB_SIZE], plan[N_LOGIT], F32(1))
        written[to] = best
        probabilities[to] = (row[best] + zero) / total


@compiled
def drop_ended(slots: Ints, written: Ints, index: int, length: int, stop: int, batch: int) -> int:
    """Keeps the slots of the rows that did not write `stop`. Returns their number."""
    n_open = 0
    for b in range(batch):
        if written[slots[b] * length + index] != stop:
            slots[n_open] = slots[b]
            n_open += 1
    return n_open


def decode(
    plan: Ints,
    w: Floats,
    row_of_token: Ints,
    rotations: Floats,
    marks: Ints,
    slots: Ints,
    lengths: Ints,
    tokens: Ints,
    cache: Floats,
    scratch: Floats,
    logits: Floats,
    written: Ints,
    probabilities: Floats,
    batch: int,
    n_token: int,
    n_slot: int,
    capacity: int,
    last_only: int,
    n_new: int,
    length: int,
    stop: int,
) -> int:
    """Reads tokens (`forward`). Then each row writes `n_new` tokens, or up to a `stop`.

    `tokens` (slots, capacity) are the texts, the new tokens included. Sequence b has its text and
    its keys and values in slot `slots[b]`, and `lengths[slots[b]]` tokens were read before. The
    tokens that are read are added to these lengths. `rotations` (n, D), cosines before sines, has a
    row for each position or, if the text determines them, one for the query and one for the key of
    each place of each slot, as `marks` (slots, 7, capacity) has what the text says of it. `scratch`
    is memory (`weights.scratch_size`), zeros at first.

    What a slot writes, and how probable that was, is put into its row of `written` and
    `probabilities`, (slots, length). Returns the number of rows that did not stop. Their slots are
    then the first of `slots`.
    """
    model = (plan, w, row_of_token, rotations)
    texts = (marks, slots, lengths, tokens, cache, n_slot, capacity)
    for index in range(max(1, n_new)):
        forward(model, texts, scratch, logits, batch, n_token, last_only)
        for b in range(batch):
            lengths[slots[b]] += n_token
        if n_new == 0:
            return batch
        n_token = 1
        choose(plan, logits, slots, written, probabilities, index, length, batch)
        batch = drop_ended(slots, written, index, length, stop, batch)
        if batch == 0 or index == n_new - 1:
            return batch
        for b in range(batch):
            slot = slots[b]
            tokens[slot * capacity + lengths[slot]] = written[slot * length + index]
    return batch
