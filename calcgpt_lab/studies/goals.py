"""Goals for readers of the page: make a small problem come out wrong in one given way, by switching
off one part of the model.

Every part is tried on every problem of `PROBLEMS`. A goal is a wrong answer that a part gives, and
few others: so it can be met, and not by chance.
"""

import random
from collections.abc import Sequence

from calcgpt.base.progress import progress_bar
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.calculator import Calculator
from calcgpt.switches import Goal

DIGITS = range(2, 10)
PAIRS = [(a, b) for a in DIGITS for b in DIGITS if a <= b]
PROBLEMS = [
    *(f"{a}{sign}{b}" for sign in "+*" for a, b in PAIRS),
    *(f"{b}-{a}" for a, b in PAIRS if a < b),
    *(f"{a * b}/{a}" for a, b in PAIRS if a < b),
]
MOST_PARTS = 3  # that may meet a goal
MAX_LENGTH = 4  # characters of a wrong answer
MAX_GOALS = 30  # for as many days


def answers(checkpoint: Checkpoint, part: str) -> dict[str, str]:
    """Returns what the model answers to each problem without a part, if that is a number."""
    calculate = Calculator(checkpoint.without([part])).calculate
    found = ((problem, calculate(problem)) for problem in PROBLEMS)
    return {problem: it.result for problem, it in found if it.result and not it.verified}


def find_goals(
    checkpoint: Checkpoint, parts: Sequence[str], seed: int, progress: bool = True
) -> list[Goal]:
    """Returns goals in a random order, one for a problem. `parts` are all that the model has."""
    parts_of: dict[tuple[str, str], list[str]] = {}
    with progress_bar(len(parts), progress, unit="part", leave=False) as bar:
        for part in parts:
            for wrong in answers(checkpoint, part).items():
                parts_of.setdefault(wrong, []).append(part)
            bar.update(1)
    goals = [
        Goal(problem=problem, answer=answer, parts=solutions)
        for (problem, answer), solutions in parts_of.items()
        if len(solutions) <= MOST_PARTS and len(answer) <= MAX_LENGTH
    ]
    random.Random(seed).shuffle(goals)
    return list({goal.problem: goal for goal in goals}.values())[:MAX_GOALS]
