"""How fast data sets are made: `datagen` on one process against a plain Python loop.

    python benchmarks/datagen.py [--problems N] [--json FILE]

Both draw problems of the blog's distribution, leave out what is held out, work out exact answers
and write the lines to a file; the loop does it one problem at a time, with the same package's
functions for single problems. Their runs alternate, and the medians are compared.
"""

import argparse
import json
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

# Run as a script, this file would stand in the way of the package that has its name.
sys.path[:] = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).parent]

import numpy as np

from datagen.arithmetic import Number, Operation, Problem
from datagen.dataset import DatasetPlan, generate
from datagen.notation import render
from datagen.splits import Split, split_of

OPERATIONS = list(Operation)


def draw_operand(rng: random.Random) -> Number:
    """One operand of the blog's distribution."""
    hundredths = 100 * rng.randint(1, 1000)
    if rng.random() >= 0.4:
        return Number(hundredths, point=False)
    return Number(round(hundredths * rng.random()), point=True)


def plain_loop(out: Path, problems: int) -> None:
    """Write a training file, one problem at a time."""
    rng = random.Random(0)
    with out.open("w", encoding="ascii") as file:
        while problems:
            problem = Problem(draw_operand(rng), rng.choice(OPERATIONS), draw_operand(rng))
            if split_of(problem) == Split.TRAIN:
                file.write(f"{render(problem)}\n")
                problems -= 1


def vectorised(out: Path, problems: int) -> None:
    """Make a whole data set in this process; its two smallest files have one problem each."""
    generate(out, DatasetPlan(problems, 1, 1, seed=0), workers=1, progress=False)


def rate(make: Callable[[Path, int], None], problems: int) -> float:
    """Problems per second of one run that ends on disk."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        make(Path(folder) / "out", problems)
        return problems / (time.perf_counter() - start)


def processor() -> str:
    """The processor's name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description="Time datagen against a plain Python loop.")
    parser.add_argument("--problems", type=int, default=3_000_000, help="for datagen")
    parser.add_argument("--plain-problems", type=int, default=30_000, help="for the plain loop")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    arguments = parser.parse_args()

    rate(vectorised, 100_000), rate(plain_loop, 1_000)  # nothing is timed while it is imported
    fast, plain = [], []
    for _ in range(arguments.runs):
        fast.append(rate(vectorised, arguments.problems))
        plain.append(rate(plain_loop, arguments.plain_problems))
    figures = {
        "processor": processor(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "runs": arguments.runs,
        "problems": arguments.problems,
        "plain_problems": arguments.plain_problems,
        "datagen_per_second": round(statistics.median(fast)),
        "plain_per_second": round(statistics.median(plain)),
        "ratio": round(statistics.median(fast) / statistics.median(plain), 1),
        "datagen_runs_per_second": [round(value) for value in fast],
        "plain_runs_per_second": [round(value) for value in plain],
    }
    print(f"{figures['processor']}, Python {figures['python']}, NumPy {figures['numpy']}")
    print(f"medians of {arguments.runs} runs each, written to disk, one process:")
    print(f"  datagen      {figures['datagen_per_second']:>12,} problems/s")
    print(f"  plain loop   {figures['plain_per_second']:>12,} problems/s")
    print(f"  ratio        {figures['ratio']:>12}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
