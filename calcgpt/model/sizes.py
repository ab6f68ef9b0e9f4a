"""The sizes that parameters are counted in, as numbers or as symbols.

Each part of a model says in a `count` how many parameters it has, once, as arithmetic over these
names. With numbers that is the count; with symbols it is the closed formula that stands behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, get_type_hints


@dataclass(frozen=True)
class Sizes:
    """Numbers, or symbols of the same names."""

    V: Annotated[Any, "vocabulary"]
    C: Annotated[Any, "n_embd, width of the residual stream"]
    L: Annotated[Any, "n_layer"]
    H: Annotated[Any, "n_head, query heads"]
    G: Annotated[Any, "n_kv_head, key/value heads"]
    D: Annotated[Any, "width of a head"]
    F: Annotated[Any, "hidden width of the feed-forward network"]
    N: Annotated[Any, "positions: block_size, and what attention puts between the tokens"]
    P: Annotated[Any, "n_place, places of coupled positions"]
    R: Annotated[Any, "rows of coupled positions: row_marks, and one for none"]
    K: Annotated[Any, "n_bucket, buckets of distances"]
    M: Annotated[Any, "distances that have an embedding of their own"]


def meanings() -> dict[str, str]:
    """Letter -> what it stands for."""
    hints = get_type_hints(Sizes, include_extras=True)
    return {letter: hint.__metadata__[0] for letter, hint in hints.items()}
