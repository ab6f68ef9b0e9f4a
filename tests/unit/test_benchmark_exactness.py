"""The sets of problems: pairs of whole numbers, and distributions at given places."""

import pytest

pytest.importorskip("matplotlib", reason="the extra `lab` installs it")
from benchmarks.exactness import problems_of, whole_number_pairs


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


@pytest.mark.parametrize(("name", "most"), [("wide-18@30", 30), ("wide-18@0", 9), ("blog@12", 2)])
def test_a_set_at_given_places(name: str, most: int) -> None:
    problems = problems_of(name, 400, seed=0).to_problems()
    assert len(set(problems)) == 400
    assert {problem.places for problem in problems} == {int(name.partition("@")[2])}
    assert max(problem.a.places for problem in problems) == most


def test_pairs_at_given_places() -> None:
    sample = problems_of("pairs-999", 50, seed=0)
    assert problems_of("pairs-999@0", 50, seed=0).to_problems() == sample.to_places(0).to_problems()
