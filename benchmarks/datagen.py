"""Speed of data sets: `datagen` in one process against a plain Python loop.

    python -m benchmarks.datagen [--format scratchpad] [--problems N] [--json FILE]

Both make a whole data set in one process: they draw problems of the blog's distribution, find the
split and the exact answer of each, and write the lines to files with their hashes. The loop does it
one problem at a time, with the package's functions for single problems; a line with worked steps is
a batch of one. The runs alternate, and the medians are compared.
"""

import hashlib
import os
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from benchmarks.measure import alternate, environment, parser, positive, run, show, summary, write
from calcgpt_lab.data.dataset import DatasetPlan, generate
from datagen import notation, work
from datagen.arithmetic import Number, Problem
from datagen.operations import OPERATIONS
from datagen.splits import Split, problem_hash, split_of_hash

PLAIN = "plain loop"
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


def plain_loop(out: Path, plan: DatasetPlan) -> None:
    """Makes a data set one problem at a time."""
    out.mkdir()
    rng = random.Random(plan.seed)  # nosec B311  # no secret
    missing, held_out = dict(plan.counts), set()
    files = {split: (out / f"{split}.txt").open("wb") for split in missing}
    digests = {split: hashlib.sha256() for split in missing}
    while any(missing.values()):
        problem = Problem(draw_operand(rng), rng.choice(OPERATIONS), draw_operand(rng))
        split = split_of_hash(problem_hash(problem))
        if not missing[split] or problem in held_out:
            continue
        if split != Split.TRAIN:
            held_out.add(problem)
        line = LINES[plan.format](problem) + b"\n"
        files[split].write(line)
        digests[split].update(line)
        missing[split] -= 1
    for file in files.values():
        file.flush()
        os.fsync(file.fileno())
        file.close()


def vectorised(out: Path, plan: DatasetPlan) -> None:
    """Makes the data set as the package does."""
    generate(out, plan, workers=1, progress=False)


def rate(make: Callable[[Path, DatasetPlan], None], problems: int, name: str) -> float:
    """Returns problems per second for a data set of `problems` in all, in the format `name`."""
    held_out = max(1, problems // 3_000)
    plan = DatasetPlan.model_validate(
        {"train": problems - 2 * held_out, "val": held_out, "test": held_out, "format": name}
    )
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        make(Path(folder) / "out", plan)
        return problems / (time.perf_counter() - start)


def main() -> None:
    """Runs the benchmark and prints its table."""
    options = parser("Time datagen against a plain Python loop.", runs=25)
    options.add_argument("--format", choices=LINES, default="direct")
    options.add_argument("--problems", type=positive, default=3_000_000, help="for datagen")
    options.add_argument("--plain-problems", type=positive, default=50_000, help="for the loop")
    arguments = options.parse_args()
    timed = {
        "datagen": partial(rate, vectorised, arguments.problems, arguments.format),
        PLAIN: partial(rate, plain_loop, arguments.plain_problems, arguments.format),
    }
    results = summary(alternate(timed, arguments.runs), PLAIN)
    show(f"{arguments.format}, written to disk, one process", results, "problems")
    about = {name: getattr(arguments, name) for name in ("format", "problems", "plain_problems")}
    machine = environment(torch.device("cpu"), "numpy")
    write(arguments.json, {"environment": machine, **about, **results})


if __name__ == "__main__":
    run(main)
