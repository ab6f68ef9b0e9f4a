"""Where worked steps first go wrong: what to change next."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from calcgpt.data.problems import Line
from calcgpt.evaluation.evaluate import Evaluation, answer_field
from datagen.errors import NotationError
from datagen.notation import parse_prompt
from datagen.steps import StepKind, WrongCharacter, first_error_of_completion

BEYOND = "beyond the notation"  # the steps have too few digits for the operands
ACCEPTED = "accepted, but wrong"  # cannot be, unless the file's own answer is wrong
HEADINGS = (*(kind.value for kind in StepKind), BEYOND, ACCEPTED)

Counts = dict[str, dict[str, int]]  # operation -> heading -> outputs


@dataclass(frozen=True)
class Finding:
    """What is wrong with an output: one of HEADINGS, and the first wrong character, if one is."""

    heading: str
    fault: WrongCharacter | None = None


def find_fault(line: Line, output: str, digits: int) -> Finding | None:
    """What is wrong with an output whose steps have `digits` digits; None where each step follows
    from those before it and the answer is the file's."""
    problem = parse_prompt(line.prompt)
    try:
        fault = first_error_of_completion(problem, output, digits)
    except NotationError:
        return Finding(BEYOND)
    if fault:
        return Finding(fault.kind.value, fault)
    return None if answer_field(line, output) == line.field else Finding(ACCEPTED)


def fault_record(evaluation: Evaluation, digits: int) -> dict[str, Counts]:
    """How many outputs of each operation have each finding, the most frequent first:
    `first_faults` of the wrong answers, every one of which has a finding, and
    `faults_of_right_answers`, which are right by luck, or by a way that is not the notation's."""
    wrong: dict[str, Counter[str]] = {}
    lucky: dict[str, Counter[str]] = {}
    columns = (evaluation.lines, evaluation.outputs, evaluation.right)
    for line, output, right in zip(*columns, strict=True):
        if finding := find_fault(line, output, digits):
            counts = lucky if right else wrong
            counts.setdefault(line.operation, Counter())[finding.heading] += 1
    return {"first_faults": _ordered(wrong), "faults_of_right_answers": _ordered(lucky)}


def _ordered(counts: dict[str, Counter[str]]) -> Counts:
    return {op: dict(counts[op].most_common()) for op in "+-*/" if op in counts}
