"""Intervals and probabilities of counts. Needs only NumPy."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def wilson_interval(share: float, n: int) -> tuple[float, float]:
    """Returns the 95% confidence interval of a share observed in n trials (Wilson 1927)."""
    z = 1.96
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(centre - half, 0.0), min(centre + half, 1.0)  # exact ends despite rounding


@lru_cache(maxsize=4)
def _log_factorials(n: int) -> Floats:
    """Returns the logarithms of the factorials of 0 to n, (n + 1,)."""
    return np.concatenate(([0.0], np.log(np.arange(1, n + 1)).cumsum()))


def binomial_cdf(n_success: int, n: int, p: float) -> float:
    """Returns the probability of at most `n_success` successes in n trials of probability p."""
    if p <= 0:
        return 1.0
    if p >= 1:
        return float(n_success >= n)
    k, log_factorials = np.arange(n_success + 1), _log_factorials(n)
    logs = log_factorials[n] - log_factorials[k] - log_factorials[n - k]
    logs += k * math.log(p) + (n - k) * math.log1p(-p)
    return float(min(1.0, np.exp(logs).sum()))
