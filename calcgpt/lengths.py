"""Where, by the length of the operands, answers are right."""

from __future__ import annotations

from typing import Any

from calcgpt.evaluate import Evaluation
from datagen.notation import parse_prompt
from datagen.steps import length


def by_length(evaluation: Evaluation) -> dict[str, dict[str, Any]]:
    """For each operation two tables of counts: `n` problems, and the `right` ones among them.

    Row i, column j holds those with i digits in A and j in B, counted in the magnitude's hundredths
    (0 has no digits). The tables are square and of one size, that of the longest operand.
    """
    rows = []
    for line, right in zip(evaluation.lines, evaluation.right, strict=True):
        problem = parse_prompt(line.prompt)
        a, b = (length(abs(number.hundredths)) for number in (problem.a, problem.b))
        rows.append((line.operation, a, b, right))
    size = 1 + max(max(a, b) for _, a, b, _ in rows)
    tables = {
        op: {name: [[0] * size for _ in range(size)] for name in ("n", "right")}
        for op in evaluation.scores["by_operation"]
    }
    for op, a, b, right in rows:
        tables[op]["n"][a][b] += 1
        tables[op]["right"][a][b] += right
    return tables
