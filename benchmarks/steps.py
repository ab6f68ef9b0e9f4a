"""How fast lines with worked steps are made, on one process.

    python -m benchmarks.steps [--problems N] [--json FILE]

The same problems of the blog's distribution, with W = 7, are rendered by `vectorised_steps` and by
a plain loop over `steps.render`, which must come to the same bytes. Whole data sets with
`--format steps` are made on disk besides, with the draws, the splits and the check sums. The runs
alternate, and the medians are compared.
"""

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.datagen import processor, rate
from calcgpt.tables import text_table
from datagen import steps
from datagen.arithmetic import ProblemArray
from datagen.dataset import DatasetPlan, generate
from datagen.distributions import BATCH_SIZE, distribution
from datagen.drawing import bit_generator
from datagen.formats import DEFAULT_DIGITS
from datagen.vectorised_steps import render_lines


def draw(problems: int) -> list[ProblemArray]:
    """Problems of the blog's distribution, in the pieces in which a data set is made."""
    blocks = range(-(-problems // BATCH_SIZE))
    left = problems - BATCH_SIZE * (len(blocks) - 1)
    counts = [BATCH_SIZE] * (len(blocks) - 1) + [left]
    draws = distribution("blog")
    return [
        piece
        for block, count in zip(blocks, counts, strict=True)
        for piece in draws(bit_generator(0, 0, block), count)
    ]


def vectorised(pieces: list[ProblemArray]) -> bytes:
    """Render all at once, as the package does."""
    return b"".join(render_lines(piece, DEFAULT_DIGITS) for piece in pieces)


def plain_loop(pieces: list[ProblemArray]) -> bytes:
    """Render one problem at a time; that the columns become problems first is timed, too."""
    lines = [
        f"{steps.render(problem, DEFAULT_DIGITS)}\n"
        for piece in pieces
        for problem in piece.to_problems()
    ]
    return "".join(lines).encode()


def render_rate(render: Callable[[list[ProblemArray]], bytes], pieces: list[ProblemArray]) -> float:
    """Problems rendered per second."""
    start = time.perf_counter()
    render(pieces)
    return sum(map(len, pieces)) / (time.perf_counter() - start)


def data_set(out: Path, plan: DatasetPlan) -> None:
    """Make the data set of a plan, but with steps."""
    generate(out, replace(plan, format="steps"), workers=1, progress=False)


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description="Time the making of lines with worked steps.")
    parser.add_argument("--problems", type=int, default=300_000, help="rendered, and a data set")
    parser.add_argument("--plain-problems", type=int, default=5_000, help="for the plain loop")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    arguments = parser.parse_args()

    few, many = draw(arguments.plain_problems), draw(arguments.problems)
    if vectorised(few) != plain_loop(few):  # and nothing is timed while it is imported
        sys.exit("the renderers do not agree")
    rate(data_set, 10_000)
    rendered, plain, written = [], [], []
    for _ in range(arguments.runs):
        rendered.append(render_rate(vectorised, many))
        plain.append(render_rate(plain_loop, few))
        written.append(rate(data_set, arguments.problems))
    figures = {
        "processor": processor(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "digits": DEFAULT_DIGITS,
        "runs": arguments.runs,
        "problems": arguments.problems,
        "plain_problems": arguments.plain_problems,
        "rendered_per_second": round(statistics.median(rendered)),
        "plain_per_second": round(statistics.median(plain)),
        "data_set_per_second": round(statistics.median(written)),
        "ratio": round(statistics.median(rendered) / statistics.median(plain), 1),
        "rendered_runs_per_second": [round(value) for value in rendered],
        "plain_runs_per_second": [round(value) for value in plain],
        "data_set_runs_per_second": [round(value) for value in written],
    }
    print(f"{figures['processor']}, Python {figures['python']}, NumPy {figures['numpy']}")
    print(f"medians of {arguments.runs} runs each, W = {DEFAULT_DIGITS}, one process:")
    print(
        text_table(
            [],
            [
                ["render_lines", f"{figures['rendered_per_second']:,} problems/s"],
                ["plain loop", f"{figures['plain_per_second']:,} problems/s"],
                ["ratio", str(figures["ratio"])],
                ["data sets, on the disk", f"{figures['data_set_per_second']:,} problems/s"],
            ],
        )
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
