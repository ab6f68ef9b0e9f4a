"""How exact models of several sizes are: exactness against parameters, on fresh test problems.

    python -m benchmarks.sizes CHECKPOINT ... [--n N] [--sets NAME ...] [--workers N] [--json FILE]
        [--plots OUT]

The problems are those of `benchmarks.exactness`. Parameters are counted as `calcgpt info` does:
shared ones once. Decoding is greedy. Each share has its 95% interval (Wilson 1927).
"""

import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import device
from tqdm import tqdm

from benchmarks.exactness import fresh_problems, share
from benchmarks.measure import environment, parser, write
from calcgpt.checkpoint import Checkpoint, resolve
from calcgpt.evaluation.shards import Scoring, score_shards, shards_of
from calcgpt.plots import new_figure, save_figures, series_style
from calcgpt.tables import text_table
from datagen.arithmetic import OPERATIONS, ProblemArray
from datagen.errors import UserError

SETS = ("blog", "everyday")


def by_operation(op: NDArray[np.uint8], right: NDArray[np.bool_]) -> dict[str, Any]:
    """Returns the shares of exact answers: all, and those of each operation."""
    operations = {
        operation.value: share(right[op == code]) for code, operation in enumerate(OPERATIONS)
    }
    return {"all": share(right), **operations}


def measure(
    folder: Path, sets: dict[str, ProblemArray], engine: str, workers: int | None
) -> dict[str, Any]:
    """Returns the size of a checkpoint and its shares of exact answers."""
    checkpoint = Checkpoint.load(folder)
    model = checkpoint.recipe.model
    threads = None if workers is None else 1
    scoring = Scoring(folder, "cpu", engine, format="scratchpad", threads=threads)
    results = {}
    for name, problems in sets.items():
        right: list[bool] = []
        bar = tqdm(total=len(problems), desc=f"{folder.name}, {name}", disable=None)
        shards = shards_of(problems)
        with (
            bar,
            closing(
                score_shards(scoring, shards, {}, workers=workers, progress=bar.update)
            ) as scored,
        ):
            for rows in scored:
                right += [row.right for row in rows]
        results[name] = by_operation(problems.op, np.array(right, bool))
    return {
        "parameters": checkpoint.model.n_parameters(),
        "layers": model.n_layer,
        "width": model.n_embd,
        "heads": model.n_head,
        "exact_match": results,
    }


def draw(rows: list[dict[str, Any]], sets: tuple[str, ...]) -> Figure:
    """Draws exactness against parameters: all, and by operation."""
    figure = new_figure(5.5 * len(sets), 4.5)
    for axes, name in zip(figure.subplots(1, len(sets), squeeze=False)[0], sets, strict=True):
        for index, operation in enumerate(("all", *(op.value for op in OPERATIONS))):
            shares = [row["exact_match"][name][operation] for row in rows]
            exact = [cell["exact_match"] for cell in shares]
            spread = [
                [max(0.0, cell["exact_match"] - cell["interval"][0]) for cell in shares],
                [max(0.0, cell["interval"][1] - cell["exact_match"]) for cell in shares],
            ]
            sizes = [row["parameters"] for row in rows]
            axes.errorbar(sizes, exact, spread, label=operation, capsize=2, **series_style(index))
        axes.set(title=name, xlabel="parameters", ylabel="exact match", xscale="log", ylim=(0, 1))
        axes.grid()
        axes.legend()
    return figure


def main() -> None:
    options = parser(__doc__ or "", runs=1)
    options.add_argument("checkpoints", nargs="+", metavar="CHECKPOINT")
    options.add_argument("--n", type=int, default=5_000, help="problems of each set")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--sets", nargs="+", default=list(SETS), metavar="NAME")
    options.add_argument("--engine", default="native")
    options.add_argument("--workers", type=int, help="processes with one thread each")
    options.add_argument("--plots", type=Path, help="also draw into this folder")
    arguments = options.parse_args()
    sets = {name: fresh_problems(name, arguments.n, arguments.seed) for name in arguments.sets}
    rows = []
    for name in arguments.checkpoints:
        folder = resolve(name)
        rows.append(measure(folder, sets, arguments.engine, arguments.workers))
        print(rows[-1], flush=True)
    rows.sort(key=lambda row: int(row["parameters"]))
    record = {
        "n": arguments.n,
        "seed": arguments.seed,
        "models": rows,
        "environment": environment(device("cpu")),
    }
    write(arguments.json, record)
    cells = [
        [row["parameters"], name, *(f"{cell['exact_match']:.4f}" for cell in result.values())]
        for row in rows
        for name, result in row["exact_match"].items()
    ]
    print(text_table(("parameters", "set", "all", *(op.value for op in OPERATIONS)), cells))
    if arguments.plots:
        save_figures(arguments.plots, [("sizes", draw(rows, tuple(sets)))])


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
