"""Speed of lines with worked steps, in one process.

    python -m benchmarks.steps [--format steps|scratchpad] [--problems N] [--json FILE]

The package, which writes many lines together, and a plain loop, which writes one after the other,
render the same problems of the blog's distribution and must give the same bytes. The third line is
the speed of whole data sets on the disk. The runs alternate, and the medians are compared.

The plain loop of `steps` (W = 7) has code of its own. That of `scratchpad` calls the package for
each line.
"""

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.datagen import processor, rate
from calcgpt.tables import text_table
from datagen import notation, steps, work
from datagen.arithmetic import Problem, ProblemArray
from datagen.dataset import DatasetPlan, generate
from datagen.distributions import BATCH_SIZE, distribution
from datagen.drawing import bit_generator
from datagen.formats import DEFAULT_DIGITS, line_format

DIGITS = {"steps": DEFAULT_DIGITS, "scratchpad": None}  # by format


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


def vectorised(batches: list[ProblemArray], name: str) -> bytes:
    """Renders whole batches, as the package does."""
    line = line_format(name, DIGITS[name])
    return b"".join(line.render_lines(batch) for batch in batches)


def plain_loop(batches: list[ProblemArray], name: str) -> bytes:
    """Renders one problem at a time. The time includes converting the columns to problems."""
    line = {"steps": _steps_line, "scratchpad": _scratchpad_line}[name]
    return b"".join(line(problem) + b"\n" for batch in batches for problem in batch.to_problems())


def _steps_line(problem: Problem) -> bytes:
    return steps.render(problem, DEFAULT_DIGITS).encode()


def _scratchpad_line(problem: Problem) -> bytes:
    return work.render([f"{notation.render(problem).partition('=')[0]}=".encode()])[0]


def render_rate(
    render: Callable[[list[ProblemArray], str], bytes], batches: list[ProblemArray], name: str
) -> float:
    """Returns the problems rendered per second."""
    start = time.perf_counter()
    render(batches, name)
    return sum(map(len, batches)) / (time.perf_counter() - start)


def data_set(out: Path, plan: DatasetPlan, name: str) -> None:
    """Makes the data set of a plan, with steps."""
    generate(out, replace(plan, format=name), workers=1, progress=False)


def main() -> None:
    """Runs the benchmark and prints its table."""
    parser = argparse.ArgumentParser(description="Time the making of lines with worked steps.")
    parser.add_argument("--format", choices=DIGITS, default="steps")
    parser.add_argument("--problems", type=int, default=300_000, help="rendered, and a data set")
    parser.add_argument("--plain-problems", type=int, default=5_000, help="for the plain loop")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()

    name: str = arguments.format
    few, many = draw(arguments.plain_problems), draw(arguments.problems)
    if vectorised(few, name) != plain_loop(few, name):  # imports are not timed
        sys.exit("the renderers do not agree")
    make_set = partial(data_set, name=name)
    rate(make_set, 10_000)
    rendered, plain, written = [], [], []
    for _ in range(arguments.runs):
        rendered.append(render_rate(vectorised, many, name))
        plain.append(render_rate(plain_loop, few, name))
        written.append(rate(make_set, arguments.problems))
    results = {
        "processor": processor(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "format": name,
        "digits": DIGITS[name],
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
    print(f"medians of {arguments.runs} runs each, {name}, one process:")
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
