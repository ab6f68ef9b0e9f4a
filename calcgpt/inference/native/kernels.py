"""The forward pass of a decoder and greedy decoding as one function, compiled by Numba.

One call computes all layers of all rows, and may write several tokens. This saves the cost of
calling operators from Python, and other Python threads run meanwhile. Everything is float32, and
nothing is allocated. Rows are padded to a multiple of PANEL numbers. The padding does not affect
results.

Only `machine_code.py` imports this module, to compile `decode`.

Shapes: B sequences, T tokens to read (`n_token`), R = B T rows, one per token, grouped by sequence.
"""

from __future__ import annotations

import numpy as np

from calcgpt.inference.native import entries as e
from calcgpt.inference.native.attention import (
    attend,
    attend_visible,
    softmax_numerators,
    store_kv,
    write_mask,
)
from calcgpt.inference.native.layers import (
    activate,
    norm_rows,
    padded_width,
    rotate_heads,
)
from calcgpt.inference.native.numba_types import (
    Cache,
    Floats,
    Ints,
    Masks,
    Model,
    at,
    compiled,
    load,
    store,
)
from calcgpt.inference.native.products import add_linear, linear
from calcgpt.inference.native.weights import CHUNK, PANEL, TILE

F32 = np.float32


@compiled
def add_row(plan: Ints, w: Floats, row: int, x: Floats) -> None:
    """Adds a row of the embedding tables to x, (C,)."""
    for i in range(plan[e.N_EMBD]):
        x[i] += w[row * plan[e.N_EMBD] + i]


@compiled
def embed(
    plan: Ints,
    w: Floats,
    row_of_token: Ints,
    features: Floats,
    capacity: int,
    tokens: Ints,
    position: int,
    x: Floats,
    stride: int,
) -> None:
    """Writes the sum of the token and positional embeddings of a token (`calcgpt.model.positions`).

    `tokens` and `features` are those of its slot.
    """
    for i in range(stride):
        x[i] = F32(0)
    add_row(plan, w, tokens[position], x)
    if plan[e.POSITIONS]:
        add_row(plan, w, plan[e.POSITIONS] + position, x)
    if plan[e.PLACES]:
        start = position  # of the row: the last token that starts one
        while start > 0 and row_of_token[min(tokens[start], plan[e.LAST_ID])] == 0:
            start -= 1
        row = row_of_token[min(tokens[start], plan[e.LAST_ID])]
        add_row(plan, w, plan[e.PLACES] + min(position - start, plan[e.LAST_PLACE]), x)
        add_row(plan, w, plan[e.ROWS] + row, x)
    if plan[e.KINDS]:
        add_row(plan, w, plan[e.KINDS] + int(features[e.TOKEN_KIND * capacity + position]), x)
        next_kind = int(features[e.NEXT_TOKEN_KIND * capacity + position])
        add_row(plan, w, plan[e.NEXT_KINDS] + next_kind, x)


@compiled
def embed_rows(
    model: Model, cache: Cache, row: int, n_token: int, x: Floats, stride: int, n_row: int
) -> None:
    """Writes the embeddings of `n_row` rows from `row` on, (n_row, stride)."""
    plan, w, row_of_token, _rotations = model
    features, slots, lengths, tokens, _kv, _n_slot, capacity = cache
    for r in range(n_row):
        slot = slots[(row + r) // n_token]
        position = lengths[slot] + (row + r) % n_token
        slot_tokens = at(tokens, slot * capacity)
        slot_features = at(features, e.N_FEATURES * slot * capacity)
        x_r = at(x, r * stride)
        embed(plan, w, row_of_token, slot_features, capacity, slot_tokens, position, x_r, stride)


@compiled
def store_rows(
    model: Model,
    cache: Cache,
    layer: int,
    row: int,
    n_token: int,
    qkv: Floats,
    stride: int,
    n_row: int,
) -> None:
    """Rotates the queries and keys of `n_row` rows from `row` on, (n_row, stride), and stores their
    keys and values."""
    plan, w, _row_of_token, rotations = model
    _features, slots, lengths, _tokens, kv, n_slot, capacity = cache
    layer_w = at(w, plan[e.LAYERS] + layer * plan[e.LAYER_SIZE])
    for r in range(n_row):
        slot = slots[(row + r) // n_token]
        position = lengths[slot] + (row + r) % n_token
        qkv_r, cache_index = at(qkv, r * stride), slot * capacity + position
        rotate_heads(plan, layer_w, rotations, cache_index, position, qkv_r)
        store_kv(plan, qkv_r, kv, layer * n_slot + slot, capacity, position)


@compiled
def attention(
    plan: Ints,
    cache: Cache,
    layer: int,
    row: int,
    n_token: int,
    offset: int,
    masks: Masks,
    zero_row: Floats,
    qkv: Floats,
    qkv_stride: int,
    scores: Floats,
    y: Floats,
    y_stride: int,
    n_row: int,
) -> None:
    """Computes attention for `n_row` rows from `row` on, by tiles of one sequence each. See
    `forward` for `offset` and `memory_of_masks` for `masks`."""
    slots, lengths, r = cache[1], cache[2], 0
    mask, visible, stride = masks
    while r < n_row:
        slot, token = slots[(row + r) // n_token], (row + r) % n_token
        n_query = min(n_token - token, n_row - r, TILE)
        n_seen = lengths[slot] + offset + token + 1
        q, y_r = at(qkv, r * qkv_stride), at(y, r * y_stride)
        if stride:
            tile, keys = at(mask, r * stride), at(visible, r * stride)
            attend_visible(
                *(plan, cache, layer, slot, tile, keys, stride),
                *(q, qkv_stride, scores, y_r, y_stride, n_query),
            )
        else:
            attend(
                *(plan, cache, layer, slot, n_seen, zero_row),
                *(q, qkv_stride, scores, y_r, y_stride, n_query),
            )
        r += n_query


@compiled
def memory_of_masks(plan: Ints, memory: Floats, capacity: int) -> Masks:
    """Returns `mask` and `visible` of `write_mask` for all rows, and their stride, which is 0 if
    the model has no windows."""
    has_windows = plan[e.ROW_WINDOW] + plan[e.COLUMN_WINDOW] > 0
    stride = capacity + 2 * PANEL if has_windows else 0
    return memory, at(memory, (CHUNK + TILE) * stride), stride


@compiled
def write_masks(
    plan: Ints, cache: Cache, row: int, n_token: int, offset: int, masks: Masks, n_row: int
) -> None:
    """Writes the masks of the windows for the tiles of `attention`."""
    features, slots, lengths, _tokens, _kv, _n_slot, capacity = cache
    mask, visible, stride = masks
    r = 0
    while r < n_row and stride:
        slot, token = slots[(row + r) // n_token], (row + r) % n_token
        n_query = min(n_token - token, n_row - r, TILE)
        n_seen = lengths[slot] + offset + token + 1
        slot_features = at(features, e.N_FEATURES * slot * capacity)
        tile, keys = at(mask, r * stride), at(visible, r * stride)
        write_mask(plan, slot_features, capacity, n_seen, tile, keys, stride, n_query)
        r += n_query


@compiled
def keep_last(x: Floats, stride: int, first: int, n_token: int, n_kept: int) -> None:
    """Moves the last row of each sequence to the front: row `first` and every n_token-th row after
    it, `n_kept` in total."""
    for k in range(n_kept):
        for i in range(0, stride, PANEL):
            store(x, k * stride + i, load(x, (first + k * n_token) * stride + i))


@compiled
def forward(
    model: Model,
    cache: Cache,
    scratch: Floats,
    logits: Floats,
    batch: int,
    n_token: int,
    last_only: int,
) -> None:
    """Writes the logits of all rows, or with `last_only` of the last row of each sequence, and
    stores the keys and values of all rows. The arguments are those of `decode`.

    The first row of a sequence has position `lengths[slot] + offset`. `offset` is 0, or after all
    rows but the last of each sequence were removed, n_token - 1.
    """
    plan, w, _row_of_token, _rotations = model
    capacity = cache[-1]
    stride = padded_width(plan[e.N_EMBD])
    n_qkv = padded_width((plan[e.N_HEAD] + 2 * plan[e.N_KV_HEAD]) * plan[e.HEAD_DIM])
    n_up = padded_width(plan[e.FF_WIDTH]) * (1 + plan[e.IS_GATED])
    max_rows = CHUNK + TILE
    zero_row = scratch  # (e.N_ZERO,)
    x = at(scratch, plan[e.N_ZERO])  # the residual stream, (max_rows, stride)
    # The normalised rows of x, then the outputs of the heads. The last head also writes padding.
    a = at(x, max_rows * stride)  # (max_rows, a_stride)
    a_stride = stride + PANEL
    # Queries, keys and values, then the hidden layer of the feed-forward network.
    h = at(a, max_rows * a_stride)  # (max_rows, n_qkv or n_up)
    scores = at(h, max_rows * max(n_qkv, n_up))
    masks = memory_of_masks(plan, at(scores, TILE * capacity + PANEL), capacity)
    for first_row in range(0, batch * n_token, CHUNK):
        row, n_row = first_row, min(CHUNK, batch * n_token - first_row)
        n_each, offset = n_token, 0  # n_each: rows per sequence
        embed_rows(model, cache, row, n_token, x, stride, n_row)
        write_masks(plan, cache, row, n_each, offset, masks, n_row)
        for layer in range(plan[e.N_LAYER]):
            layer_w = at(w, plan[e.LAYERS] + layer * plan[e.LAYER_SIZE])
            norm_rows(plan, at(layer_w, plan[e.ATTENTION_NORM]), x, stride, a, a_stride, n_row)
            linear(at(layer_w, plan[e.QKV]), a, a_stride, h, plan[e.N_EMBD], n_qkv, n_row)
            store_rows(model, cache, layer, row, n_token, h, n_qkv, n_row)
            if last_only and layer == plan[e.N_LAYER] - 1 and n_token > 1:
                # The rest is computed only for the last row of each sequence.
                first_kept = n_token - 1 - row % n_token
                row, n_each, offset = row // n_token, 1, n_token - 1
                n_row = max(0, (n_row - first_kept + n_token - 1) // n_token)
                keep_last(x, stride, first_kept, n_token, n_row)
                keep_last(h, n_qkv, first_kept, n_token, n_row)
                write_masks(plan, cache, row, n_each, offset, masks, n_row)
            attention(
                *(plan, cache, layer, row, n_each, offset, masks, zero_row),
                *(h, n_qkv, scores, a, a_stride, n_row),
            )
            add_linear(at(layer_w, plan[e.OUT]), a, a_stride, x, plan[e.N_EMBD], stride, n_row)
            norm_rows(plan, at(layer_w, plan[e.FF_NORM]), x, stride, a, a_stride, n_row)
            linear(at(layer_w, plan[e.UP]), a, a_stride, h, plan[e.N_EMBD], n_up, n_row)
            activate(plan, h, n_up, n_row)
            add_linear(at(layer_w, plan[e.DOWN]), h, n_up, x, plan[e.FF_WIDTH], stride, n_row)
        norm_rows(plan, at(w, plan[e.FINAL_NORM]), x, stride, a, a_stride, n_row)
        row_logits, n_logit = at(logits, row * plan[e.N_LOGIT]), plan[e.N_LOGIT]
        linear(at(w, plan[e.HEAD]), a, a_stride, row_logits, plan[e.N_EMBD], n_logit, n_row)


@compiled
def choose_greedily(
    plan: Ints,
    logits: Floats,
    slots: Ints,
    output_tokens: Ints,
    probabilities: Floats,
    index: int,
    length: int,
    batch: int,
) -> None:
    """Writes the most probable token of each sequence and its probability, in column `index` of the
    row of its slot. Of equal logits, the first is the largest. A NaN is larger than any number.
    """
    for b in range(batch):
        row, output_index, best = at(logits, b * plan[e.N_LOGIT]), slots[b] * length + index, 0
        for token in range(1, plan[e.VOCAB_SIZE]):
            if row[token] > row[best] or row[token] != row[token]:
                best = token
        zero = row[best] - row[best]  # NaN if the logit is not finite
        total = softmax_numerators(row, plan[e.VOCAB_SIZE], plan[e.N_LOGIT], F32(1))
        output_tokens[output_index] = best
        probabilities[output_index] = (row[best] + zero) / total


@compiled
def drop_ended(
    slots: Ints, output_tokens: Ints, index: int, length: int, stop_token: int, batch: int
) -> int:
    """Moves the slots of the sequences that did not end with `stop_token` to the front. Returns
    their number."""
    n_open = 0
    for b in range(batch):
        if output_tokens[slots[b] * length + index] != stop_token:
            slots[n_open] = slots[b]
            n_open += 1
    return n_open


def decode(
    plan: Ints,
    w: Floats,
    row_of_token: Ints,
    rotations: Floats,
    features: Floats,
    slots: Ints,
    lengths: Ints,
    tokens: Ints,
    kv: Floats,
    scratch: Floats,
    logits: Floats,
    output_tokens: Ints,
    probabilities: Floats,
    batch: int,
    n_token: int,
    n_slot: int,
    capacity: int,
    last_only: int,
    n_new: int,
    length: int,
    stop_token: int,
) -> int:
    """Reads `n_token` tokens of each sequence, then writes up to `n_new` tokens of each greedily.

    A sequence ends with `stop_token`. Returns the number of sequences that did not end, and moves
    their slots to the front of `slots`. If `n_new` is 0, no tokens are written, and `logits` has
    those of all tokens that are read or, with `last_only`, of the last token of each sequence.

    The model is `plan`, `w` (`weights`), `row_of_token` (`positions.row_table`) and `rotations`,
    (n, D), cosines before sines. `rotations` has a row for each position or, for coordinates, one
    for the query and one for the key of each position of each slot.

    The cache has `n_slot` slots. Sequence b is in slot `slots[b]`. `tokens`, (n_slot, capacity),
    has the texts, including the tokens to read. `lengths`, (n_slot,), has the number of tokens that
    were read before, and is updated. `features` is (n_slot, 6, capacity); only coordinates need it.
    `kv` has the keys and values (`attention.store_kv`).

    `scratch` is memory (`weights.scratch_size`), all zeros before the first call. `logits`,
    (rows + TILE, e.N_LOGIT), is overwritten. The results for each slot are in its row of
    `output_tokens` and `probabilities`, both (n_slot, length).
    """
    model = (plan, w, row_of_token, rotations)
    cache = (features, slots, lengths, tokens, kv, n_slot, capacity)
    for index in range(max(1, n_new)):
        forward(model, cache, scratch, logits, batch, n_token, last_only)
        for b in range(batch):
            lengths[slots[b]] += n_token
        if n_new == 0:
            return batch
        n_token = 1
        choose_greedily(plan, logits, slots, output_tokens, probabilities, index, length, batch)
        batch = drop_ended(slots, output_tokens, index, length, stop_token, batch)
        if batch == 0 or index == n_new - 1:
            return batch
        for b in range(batch):
            slot = slots[b]
            tokens[slot * capacity + lengths[slot]] = output_tokens[slot * length + index]
    return batch
