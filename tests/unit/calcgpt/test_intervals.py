"""Intervals and tails are those of the formulas and the tables."""

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcgpt.intervals import binomial_cdf, wilson_interval


@given(st.integers(0, 40), st.integers(1, 40), st.floats(0.001, 0.999))
def test_the_tail_is_that_of_the_formula(wrong: int, n: int, share: float) -> None:
    terms = (comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(min(wrong, n) + 1))
    assert binomial_cdf(min(wrong, n), n, share) == pytest.approx(min(1.0, sum(terms)))


def test_the_bounds_of_an_interval_solve_wilsons_equation() -> None:
    for share, n in ((0.0, 5), (0.3, 10), (0.5, 4), (1.0, 1500)):
        for bound in wilson_interval(share, n):
            assert (share - bound) ** 2 == pytest.approx(1.96**2 * bound * (1 - bound) / n)
