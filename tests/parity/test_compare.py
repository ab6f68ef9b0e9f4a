"""The tools of the parity tests: the comparison, its report, and the covering array."""

from itertools import combinations, product

import pytest
import torch
from parity.variants import APART, FACTORS, covering_array
from parity_report import ParityReport

ONES = torch.ones(3)


@pytest.mark.parametrize(
    ("actual", "expected", "message"),
    [
        (ONES + 2e-5, ONES, "this: relative error 2e-05, 1e-05 allowed"),
        (ONES * 0.01, ONES * 0.0101, "this: relative error 0.0001"),  # small numbers: absolute
        (ONES * 1000.1, ONES * 1000, "this: relative error 0.0001"),
        (ONES * torch.nan, ONES, "this: relative error nan"),
        (ONES * torch.inf, ONES, "this: relative error inf"),
        (ONES[:2], ONES, "this: .*2.*, not .*3"),
        (ONES[:0], ONES[:0], "this: nothing to compare"),
    ],
)
def test_a_difference_fails(actual: torch.Tensor, expected: torch.Tensor, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        ParityReport(None).compare(actual, expected, "this")


def test_a_small_difference_passes() -> None:
    report = ParityReport(None)
    report.compare(ONES.float() + 5e-6, ONES.double(), "this")
    report.compare(ONES * 1000.001, ONES * 1000, "this")
    report.compare(ONES + 2e-5, ONES, "this", rtol=1e-4)


@pytest.mark.parametrize("apart", [set(), APART], ids=["all", "apart"])
def test_the_covering_array_has_all_pairs(apart: set[tuple[str, str]]) -> None:
    rows = covering_array(FACTORS, apart)
    assert all(row.keys() == FACTORS.keys() for row in rows)
    for f, g in set(combinations(FACTORS, 2)) - apart:
        assert {(row[f], row[g]) for row in rows} == set(product(FACTORS[f], FACTORS[g]))
    assert len(rows) <= (44 if apart else 112)  # 14 positions by 8 feed-forward networks
    assert rows == covering_array(FACTORS, apart)
