"""Greedy decoding without a return to Python between the tokens: the way into the machine code.

Only `machine_code.py` imports this module, to compile it.
"""

from __future__ import annotations

import numpy as np

from calcgpt.inference.native.attention import soften
from calcgpt.inference.native.kernels import forward
from calcgpt.inference.native.numba_types import Floats, Ints, compiled
from calcgpt.inference.native.weights import N_LOGIT, VOCAB_SIZE

F32 = np.float32


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
        x, to = b * plan[N_LOGIT], slots[b] * length + index
        best = 0
        for token in range(1, plan[VOCAB_SIZE]):
            if logits[x + token] > logits[x + best] or logits[x + token] != logits[x + token]:
                best = token
        zero = logits[x + best] - logits[x + best]  # or not a number
        total = soften(logits, x, plan[VOCAB_SIZE], plan[N_LOGIT], F32(1))
        written[to] = best
        probabilities[to] = (logits[x + best] + zero) / total


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
    tokens: Ints,
    cache: Floats,
    s: Floats,
    logits: Floats,
    written: Ints,
    probabilities: Floats,
    batch: int,
    n_token: int,
    start: int,
    n_slot: int,
    capacity: int,
    last_only: int,
    n_new: int,
    length: int,
    stop: int,
) -> int:
    """Reads tokens (`kernels.forward`). Then each row writes `n_new` tokens, or up to a `stop`.

    What a slot writes, and how probable that was, is put into its row of `written` and
    `probabilities`, (slots, length). Returns the number of rows that did not stop. Their slots are
    then the first of `slots`.
    """
    for index in range(max(1, n_new)):
        forward(
            plan, w, row_of_token, rotations, marks, slots, tokens, cache, s, logits,
            batch, n_token, start, n_slot, capacity, last_only
        )  # fmt: skip
        if n_new == 0:
            return batch
        start, n_token = start + n_token, 1
        choose(plan, logits, slots, written, probabilities, index, length, batch)
        batch = drop_ended(slots, written, index, length, stop, batch)
        if batch == 0 or index == n_new - 1:
            return batch
        for b in range(batch):
            tokens[slots[b] * capacity + start] = written[slots[b] * length + index]
    return batch
