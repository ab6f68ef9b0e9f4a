"""Speed of lines with worked steps, in one process.

    python -m benchmarks.steps [--problems N] [--json FILE]

`vectorised_steps` and a plain loop over `steps.render` render the same problems of the blog's
distribution, with W = 7, and must give the same bytes. The third line is the speed of whole data
sets of the format `steps` on the disk. The runs alternate, and the medians are compared.
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
    """Returns problems of the blog's distribution, in batches like those of a data set."""
    blocks = range(-(-problems // BATCH_SIZE))
    left = problems - BATCH_SIZE * (len(blocks) - 1)
    counts = [BATCH_SIZE] * (len(blocks) - 1) + [left]
    draw_batches = distribution("blog")
    return [
        batch
        for block, count in zip(blocks, counts, strict=True)
        for batch in draw_batches(bit_generator(0, 0, block), count)
    ]


def vectorised(batches: list[ProblemArray]) -> bytes:
    """Renders whole batches, as the package does."""
    return b"".join(render_lines(batch, DEFAULT_DIGITS) for batch in batches)


def plain_loop(batches: list[ProblemArray]) -> bytes:
    """Renders one problem at a time. The time includes converting the columns to problems."""
    lines = [
        f"{steps.render(problem, DEFAULT_DIGITS)}\n"
        for batch in batches
        for problem in batch.to_problems()
    ]
    return "".join(lines).encode()


def render_rate(
    render: Callable[[list[ProblemArray]], bytes], batches: list[ProblemArray]
) -> float:
    """Returns the problems rendered per second."""
    start = time.perf_counter()
    render(batches)
    return sum(map(len, batches)) / (time.perf_counter() - start)


def data_set(out: Path, plan: DatasetPlan) -> None:
    """Makes the data set of a plan, with steps."""
    generate(out, replace(plan, format="steps"), workers=1, progress=False)


def main() -> None:
    """Runs the benchmark and prints its table."""
    parser = argparse.ArgumentParser(description="Time the making of lines with worked steps.")
    parser.add_argument("--problems", type=int, default=300_000, help="rendered, and a data set")
    parser.add_argument("--plain-problems", type=int, default=5_000, help="for the plain loop")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()

    few, many = draw(arguments.plain_problems), draw(arguments.problems)
    if vectorised(few) != plain_loop(few):  # imports are not timed
        sys.exit("the renderers do not agree")
    rate(data_set, 10_000)
    rendered, plain, written = [], [], []
    for _ in range(arguments.runs):
        rendered.append(render_rate(vectorised, many))
        plain.append(render_rate(plain_loop, few))
        written.append(rate(data_set, arguments.problems))
    results = {
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
    print(f"{results['processor']}, Python {results['python']}, NumPy {results['numpy']}")
    print(f"medians of {arguments.runs} runs each, W = {DEFAULT_DIGITS}, one process:")
    print(
        text_table(
            [],
            [
                ["render_lines", f"{results['rendered_per_second']:,} problems/s"],
                ["plain loop", f"{results['plain_per_second']:,} problems/s"],
                ["ratio", str(results["ratio"])],
                ["data sets, on the disk", f"{results['data_set_per_second']:,} problems/s"],
            ],
        )
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
