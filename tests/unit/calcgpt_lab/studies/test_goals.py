"""Goals for readers of the page: what is shipped is true, and what is found is as asked for."""

from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.calculator import Calculator
from calcgpt.registry import resolve
from calcgpt_lab.studies import goals


def test_each_shipped_goal_is_met_by_each_of_its_parts() -> None:
    checkpoint = Checkpoint.load(resolve("calculator"))
    assert checkpoint.switches
    assert len({goal.problem for goal in checkpoint.switches.goals}) == goals.MAX_GOALS
    for goal in checkpoint.switches.goals:
        assert len(goal.parts) <= goals.MOST_PARTS
        assert {*goal.parts} & {*checkpoint.switches.parts}  # what the page offers
        for part in goal.parts:
            calculation = Calculator(checkpoint.without([part])).calculate(goal.problem)
            assert calculation.result == goal.answer != calculation.exact


def test_a_goal_is_met_by_few_parts_alone() -> None:
    checkpoint = Checkpoint.load(resolve("calculator"))
    parts = ["1.1", "1.n9", "3.1"]
    found = goals.find_goals(checkpoint, parts, seed=0, progress=False)
    assert len({goal.problem for goal in found}) == len(found) == goals.MAX_GOALS
    wrong = {part: goals.answers(checkpoint, part) for part in parts}
    for goal in found:
        met = [part for part in parts if wrong[part].get(goal.problem) == goal.answer]
        assert met == goal.parts
