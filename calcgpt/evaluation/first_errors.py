"""The first error in wrong worked steps: it shows which kind of step a model has not learnt."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from calcgpt.data.problems import Line
from calcgpt.evaluation.evaluate import Evaluation, answer_field
from calcgpt.metrics import OPERATIONS
from datagen.errors import NotationError
from datagen.notation import parse_prompt
from datagen.steps import StepKind, WrongCharacter, first_error_of_completion

BEYOND = "beyond the notation"  # the steps have too few digits for the operands
ACCEPTED = "accepted, but wrong"  # only if the answer in the file is wrong
KINDS = (*(kind.value for kind in StepKind), BEYOND, ACCEPTED)

Counts = dict[str, dict[str, int]]  # outputs, by operation and kind


@dataclass(frozen=True)
class FirstError:
    """The first error in an output: its kind, one of KINDS, and the wrong character, if any."""

    kind: str
    character: WrongCharacter | None = None


def first_error(line: Line, output: str, digits: int) -> FirstError | None:
    """Returns the first error in an output whose steps have `digits` digits.

    Returns None if every step follows from those before it and the answer is that of the file.
    """
    problem = parse_prompt(line.prompt)
    try:
        character = first_error_of_completion(problem, output, digits)
    except NotationError:
        return FirstError(BEYOND)
    if character:
        return FirstError(character.kind.value, character)
    return None if answer_field(line, output) == line.field else FirstError(ACCEPTED)


def first_error_record(evaluation: Evaluation, digits: int) -> dict[str, Counts]:
    """Returns the number of outputs by operation and kind of their first error, most frequent
    first.

    `first_faults` counts wrong answers; each has an error. `faults_of_right_answers` counts right
    answers with an error in their steps: they are right by luck, or by another way than that of
    the notation.
    """
    counters: dict[bool, dict[str, Counter[str]]] = {False: {}, True: {}}
    columns = (evaluation.lines, evaluation.outputs, evaluation.right)
    for line, output, right in zip(*columns, strict=True):
        if error := first_error(line, output, digits):
            counters[right].setdefault(line.operation, Counter())[error.kind] += 1
    ordered = {
        right: {str(op): dict(counts[op].most_common()) for op in OPERATIONS if op in counts}
        for right, counts in counters.items()
    }
    return {"first_faults": ordered[False], "faults_of_right_answers": ordered[True]}
