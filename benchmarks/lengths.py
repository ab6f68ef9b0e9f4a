"""How exact a checkpoint is by the lengths of both operands, also beyond those it was trained on.

    python -m benchmarks.lengths [--checkpoint NAME] [--n N] [--json FILE] [--plots OUT] [DIGIT ...]

Operands are whole numbers of exactly so many digits, answers have two places, and decoding is
greedy (`calcgpt.evaluation.answers`). The seed is 0.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from tqdm import tqdm

from benchmarks.measure import environment, parser, write
from calcgpt.checkpoint import Checkpoint, resolve
from calcgpt.data.problems import split_line
from calcgpt.evaluation.evaluate import evaluate
from calcgpt.plots import new_figure, save_figures
from calcgpt.tables import text_table
from datagen.arithmetic import OPERATIONS, Number, Problem, ProblemArray
from datagen.formats import line_format

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
    for axes, (operation, table) in zip(figure.subplots(2, 2).flat, tables.items(), strict=True):
        axes.imshow(table, vmin=0, vmax=1, cmap="RdYlGn", origin="lower")
        for row, shares in enumerate(table):
            for column, share in enumerate(shares):
                axes.text(column, row, f"{share:.2f}", ha="center", va="center", fontsize=8)
        axes.set(title=operation, xlabel="digits of B", ylabel="digits of A")
        axes.set_xticks(range(len(digits)), digits)
        axes.set_yticks(range(len(digits)), digits)
    return figure


def main() -> None:
    options = parser(__doc__ or "", runs=1)
    options.add_argument("--checkpoint", default="best")
    options.add_argument("--n", type=int, default=50, help="problems of each pair of lengths")
    options.add_argument("--plots", type=Path, help="also draw heat maps into this folder")
    options.add_argument("digits", nargs="*", type=int, default=DIGITS, metavar="DIGITS")
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    checkpoint = Checkpoint.load(resolve(arguments.checkpoint))
    chosen = line_format("scratchpad")
    digits, n = arguments.digits, arguments.n
    cells = [(a, b) for a in digits for b in digits]
    tables: dict[str, list[list[float]]] = {}
    for code, operation in enumerate(OPERATIONS):
        problems = [p for a, b in cells for p in problems_of(code, a, b, n)]
        text = chosen.render_lines(ProblemArray.from_problems(problems)).decode()
        lines = [split_line(line) for line in text.splitlines()]
        with tqdm(total=len(problems), desc=operation.name, disable=None) as bar:
            evaluation = evaluate(
                checkpoint.model, checkpoint.tokenizer, lines, progress=bar.update
            )
        right = np.array(evaluation.right).reshape(len(digits), len(digits), n)
        shares = right.mean(axis=2).tolist()
        tables[operation.value] = shares
        print(f"A {operation.value} B, down: digits of A, across: digits of B")
        rows = [[a, *map("{:.2f}".format, row)] for a, row in zip(digits, shares, strict=True)]
        print(text_table(["", *digits], rows))
    record: dict[str, Any] = {
        "checkpoint": arguments.checkpoint,
        "digits": digits,
        "n": n,
        "exact_match": tables,
        "environment": environment(torch.device("cpu")),
    }
    write(arguments.json, record)
    if arguments.plots:
        save_figures(arguments.plots, [(f"{checkpoint.name}-lengths", draw(tables, digits))])


if __name__ == "__main__":
    main()
