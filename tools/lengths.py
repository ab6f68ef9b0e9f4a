"""How exact a checkpoint is by the lengths of both operands, also beyond those it was trained on.

    python -m tools.lengths [--checkpoint NAME] [--engine NAME] [--n N] [--json FILE]
        [--plots OUT] [--name NAME] [--operations +-*/] [DIGITS ...]

Operands are whole numbers of exactly DIGITS digits, answers have two places, and decoding is
greedy (`calcgpt_lab.evaluation.evaluate`). The seed is 0.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from benchmarks.measure import environment, parser, positive, run, write
from calcgpt.base.progress import progress_bar
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.decoding import Decoder
from calcgpt.registry import resolve
from calcgpt_lab.data.problems import split_line
from calcgpt_lab.evaluation.evaluate import Evaluation, evaluate
from calcgpt_lab.evaluation.scoring import load_for_scoring
from calcgpt_lab.plots import new_figure, save_figures
from calcgpt_lab.records import wilson_interval
from calcgpt_lab.tables import text_table
from datagen import work
from datagen.arithmetic import Number, Problem, ProblemArray
from datagen.layout import layout, shape_of
from datagen.operations import OPERATIONS
from datagen.slots import LOWEST
from datagen.work_errors import first_error_of_completion
from tools.exactness import name_of

SHOWN = 10  # kinds of first wrong characters that are printed
DIGITS = [4, 8, 12, 15, 18, 20]


def problems_of(operation: int, a_digits: int, b_digits: int, n: int) -> list[Problem]:
    """Returns n random problems with operands of these lengths."""
    rng = np.random.Generator(np.random.PCG64([operation, a_digits, b_digits]))

    def operand(digits: int) -> Number:
        rest = "".join(str(digit) for digit in rng.integers(10, size=digits - 1))
        return Number(int(f"{rng.integers(1, 10)}{rest}"))

    return [Problem(operand(a_digits), OPERATIONS[operation], operand(b_digits)) for _ in range(n)]


def draw(tables: dict[str, list[list[float]]], digits: list[int]) -> Figure:
    """Draws one heat map per operation."""
    figure = new_figure(9, 8)
    for axes, (operation, table) in zip(figure.subplots(2, 2).flat, tables.items(), strict=False):
        axes.imshow(table, vmin=0, vmax=1, cmap="RdYlGn", origin="lower")
        for row, shares in enumerate(table):
            for column, share in enumerate(shares):
                axes.text(column, row, f"{share:.2f}", ha="center", va="center", fontsize=8)
        axes.set(title=operation, xlabel="digits of B", ylabel="digits of A")
        axes.set_xticks(range(len(digits)), digits)
        axes.set_yticks(range(len(digits)), digits)
    return figure


def first_errors(evaluation: Evaluation) -> dict[str, int]:
    """Returns the first wrong characters of wrong answers: how many there are of each kind, row and
    column, such as "product digit, row 9, column 0", the most frequent first."""
    counts: Counter[str] = Counter()
    columns = (evaluation.lines, evaluation.outputs, evaluation.right)
    for line, output, right in zip(*columns, strict=True):
        if right:
            continue
        error, shape = first_error_of_completion(line.prompt, output), shape_of(line.prompt)
        plan = layout(shape) if shape else ()
        position = len(line.prompt) + error.position if error else len(plan)
        if position < len(plan):
            slot = plan[position]
            row = f", row {slot.row}" if slot.row else ""
            column = f", column {slot.column - LOWEST}" if slot.column else ""
            counts[slot.kind.name.lower().replace("_", " ") + row + column] += 1
        else:
            counts["answer"] += 1
    return dict(counts.most_common())


def measure(
    checkpoint: Checkpoint, decoder: Decoder, code: int, digits: list[int], n: int
) -> dict[str, Any]:
    """Returns the shares of exact answers to one operation, by the digits of A and then of B, and
    their 95% intervals (Wilson 1927); and where the work of wrong answers is first wrong."""
    cells = [(a, b) for a in digits for b in digits]
    problems = [p for a, b in cells for p in problems_of(code, a, b, n)]
    text = work.render_lines(ProblemArray.from_problems(problems)).decode()
    lines = [split_line(line) for line in text.splitlines()]
    with progress_bar(len(problems), desc=OPERATIONS[code].name) as bar:
        evaluation = evaluate(decoder, checkpoint.tokenizer, lines, progress=bar.update)
    shares = np.array(evaluation.right).reshape(len(digits), len(digits), n).mean(axis=2).tolist()
    return {
        "exact_match": shares,
        "intervals": [[wilson_interval(share, n) for share in row] for row in shares],
        "first_errors": first_errors(evaluation),
    }


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--checkpoint", default="best")
    options.add_argument("--engine", default="auto", help="what decodes")
    options.add_argument("--n", type=positive, default=50, help="problems of each pair of lengths")
    options.add_argument("--operations", default="+-*/", help="some of + - * /")
    options.add_argument("--name", help="of the plot.  [default: the checkpoint's]")
    options.add_argument("--plots", type=Path, help="also draw heat maps into this folder")
    options.add_argument("digits", nargs="*", type=positive, default=DIGITS, metavar="DIGITS")
    arguments = options.parse_args()
    if not set(arguments.operations) <= set(OPERATIONS):
        options.error("--operations are some of + - * /")
    torch.set_num_threads(arguments.threads)
    checkpoint, _, decoder = load_for_scoring(
        resolve(arguments.checkpoint), "cpu", arguments.engine
    )
    digits, n = arguments.digits, arguments.n
    results: dict[str, dict[str, Any]] = {}
    for code, operation in enumerate(OPERATIONS):
        if operation not in arguments.operations:
            continue
        result = results[operation] = measure(checkpoint, decoder, code, digits, n)
        print(f"A {operation} B, down: digits of A, across: digits of B")
        table = zip(digits, result["exact_match"], strict=True)
        rows = [[a, *map("{:.2f}".format, row)] for a, row in table]
        print(text_table(["", *digits], rows))
        print(dict(list(result["first_errors"].items())[:SHOWN]), flush=True)
    columns = {
        key: {operation: result[key] for operation, result in results.items()}
        for key in ("exact_match", "intervals", "first_errors")
    }
    record: dict[str, Any] = {
        "checkpoint": arguments.name or name_of(arguments.checkpoint),
        "engine": arguments.engine,
        "digits": digits,
        "n": n,
        **columns,
        "environment": environment(torch.device("cpu")),
    }
    write(arguments.json, record)
    if arguments.plots:
        name = arguments.name or f"{checkpoint.name}-lengths"
        save_figures(arguments.plots, {name: lambda: draw(columns["exact_match"], digits)})


if __name__ == "__main__":
    run(main)
