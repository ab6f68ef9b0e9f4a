"""The sizes that parameters are counted in, as numbers or as symbols.

Each part of a model says in a `count` how many parameters it has, once, as arithmetic over these
names. With numbers that is the count; with symbols it is the closed formula that stands behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sizes:
    """Numbers, or symbols of the same names."""

    V: Any  # vocabulary
    C: Any  # n_embd, the residual stream
    L: Any  # n_layer
    H: Any  # n_head, query heads
    G: Any  # n_kv_head, key/value heads
    D: Any  # width of a head
    F: Any  # hidden width of the feed-forward network
    N: Any  # positions: block_size, and what an attention scheme puts between the tokens
    P: Any  # n_place, coupled positions
    R: Any  # rows of coupled positions: row_marks and one for no row
    K: Any  # n_bucket, T5's buckets
    M: Any  # distances that have an embedding of their own, Shaw et al.
