"""The pairs of whole numbers: all of them, or a sample of them."""

import pytest

pytest.importorskip("matplotlib", reason="the extra `lab` installs it")
from benchmarks.exactness import whole_number_pairs


def test_all_pairs_are_there_once() -> None:
    problems = list(whole_number_pairs(12, 2, 10**9, seed=0).to_problems())
    assert len(set(problems)) == len(problems) == 4 * 12**2
    assert {problem.a.units for problem in problems} == set(range(12))
    assert {problem.places for problem in problems} == {2}


def test_a_sample_has_no_repetition_and_follows_from_the_seed() -> None:
    sample = list(whole_number_pairs(12, 8, 100, seed=0).to_problems())
    assert len(set(sample)) == 100
    assert {problem.places for problem in sample} == {8}
    assert {str(problem.op) for problem in sample} == set("+-*/")
    assert sample == list(whole_number_pairs(12, 8, 100, seed=0).to_problems())
    assert sample != list(whole_number_pairs(12, 8, 100, seed=1).to_problems())
