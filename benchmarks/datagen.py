"""Speed of data sets: `datagen` in one process against a plain Python loop.

    python -m benchmarks.datagen [--format scratchpad] [--problems N] [--json FILE]

Both make a whole data set in one process: they draw problems of the blog's distribution, find the
split and the exact answer of each, write the lines to files, and compute counts and hashes. The
loop does it one problem at a time, with the package's functions for single problems; a line with
worked steps is a batch of one. The runs alternate, and the medians are compared.
"""

import argparse
import hashlib
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from calcgpt.tables import text_table
from calcgpt.training.environment import processor
from datagen import notation, work
from datagen.arithmetic import Number, Operation, Problem
from datagen.dataset import DatasetPlan, generate
from datagen.files import write_json
from datagen.splits import Split, split_of

OPERATIONS = list(Operation)
LINES: dict[str, Callable[[Problem], bytes]] = {  # by format
    "direct": lambda problem: notation.render(problem).encode(),
    "scratchpad": lambda problem: work.render([notation.render_prompt(problem).encode()])[0],
}


def draw_operand(rng: random.Random) -> Number:
    """Returns an operand of the blog's distribution."""
    whole = rng.randint(1, 1000)
    if rng.random() >= 0.4:
        return Number(whole)
    return Number.from_units(round(100 * whole * rng.random()), 2, point=True)


class PlainFile:
    """The file of a split, written line by line, with the entries of its manifest."""

    def __init__(self, path: Path, problems: int, line: Callable[[Problem], bytes]) -> None:
        self.file = path.open("wb")
        self.missing = problems
        self.line = line
        self.operations = dict.fromkeys(Operation, 0)
        self.digest = hashlib.sha256()

    def append(self, problem: Problem) -> None:
        """Writes the line of a problem."""
        line = self.line(problem) + b"\n"
        self.file.write(line)
        self.digest.update(line)
        self.operations[problem.op] += 1
        self.missing -= 1

    def close(self) -> None:
        """Writes the file to the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()


def plain_loop(out: Path, plan: DatasetPlan) -> None:
    """Makes a data set one problem at a time."""
    out.mkdir()
    rng = random.Random(plan.seed)  # nosec B311  # no secret
    line = LINES[plan.format]
    files = {split: PlainFile(out / f"{split}.txt", n, line) for split, n in plan.counts.items()}
    held_out = set()
    while any(file.missing for file in files.values()):
        problem = Problem(draw_operand(rng), rng.choice(OPERATIONS), draw_operand(rng))
        split = split_of(problem)
        if not files[split].missing:
            continue
        if split != Split.TRAIN:
            if problem in held_out:
                continue
            held_out.add(problem)
        files[split].append(problem)
    for file in files.values():
        file.close()


def vectorised(out: Path, plan: DatasetPlan) -> None:
    """Makes the data set as the package does."""
    generate(out, plan, workers=1, progress=False)


def rate(make: Callable[[Path, DatasetPlan], None], problems: int, name: str) -> float:
    """Returns problems per second for a data set of `problems` in all, in the format `name`."""
    held_out = max(1, problems // 3_000)
    plan = DatasetPlan(problems - 2 * held_out, held_out, held_out, seed=0, format=name)
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        make(Path(folder) / "out", plan)
        return problems / (time.perf_counter() - start)


def main() -> None:
    """Runs the benchmark and prints its table."""
    parser = argparse.ArgumentParser(description="Time datagen against a plain Python loop.")
    parser.add_argument("--format", choices=LINES, default="direct")
    parser.add_argument("--problems", type=int, default=3_000_000, help="for datagen")
    parser.add_argument("--plain-problems", type=int, default=50_000, help="for the plain loop")
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = parser.parse_args()

    timed = partial(rate, name=arguments.format)
    timed(vectorised, 100_000), timed(plain_loop, 1_000)  # imports are not timed
    fast, plain = [], []
    for _ in range(arguments.runs):
        fast.append(timed(vectorised, arguments.problems))
        plain.append(timed(plain_loop, arguments.plain_problems))
    results = {
        "processor": processor(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "format": arguments.format,
        "runs": arguments.runs,
        "problems": arguments.problems,
        "plain_problems": arguments.plain_problems,
        "datagen_per_second": round(statistics.median(fast)),
        "plain_per_second": round(statistics.median(plain)),
        "ratio": round(statistics.median(fast) / statistics.median(plain), 1),
        "datagen_runs_per_second": [round(value) for value in fast],
        "plain_runs_per_second": [round(value) for value in plain],
    }
    print(f"{results['processor']}, Python {results['python']}, NumPy {results['numpy']}")
    print(f"medians of {arguments.runs} runs, {arguments.format}, written to disk, one process:")
    print(
        text_table(
            [],
            [
                ["datagen", f"{results['datagen_per_second']:,} problems/s"],
                ["plain loop", f"{results['plain_per_second']:,} problems/s"],
                ["ratio", str(results["ratio"])],
            ],
        )
    )
    if arguments.json:
        write_json(arguments.json, results)


if __name__ == "__main__":
    main()
