"""The frequencies of rotary coordinates."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


@lru_cache
def spread_frequencies(n: int, reach: int = 40, n_draw: int = 20_000) -> NDArray[np.float32]:
    """Returns n frequencies, (n,), by which positions up to `reach` apart are told apart.

    They are the best of `n_draw` random ones: the largest mean of cos(frequency * distance) over
    all distances is least. Powers of one base, as in RoPE, repeat at some distances.
    """
    words = np.random.Philox(1).random_raw(n_draw * n) >> 11
    draws = 0.15 + (np.pi - 0.15) * (words.reshape(n_draw, n) / 2.0**53)
    largest = np.full(n_draw, -1.0)
    for distance in range(1, reach + 1):
        np.maximum(largest, np.cos(distance * draws).mean(axis=1), out=largest)
    frequencies: NDArray[np.float32] = draws[largest.argmin()].astype(np.float32)
    return frequencies
