"""How exact models of several sizes are: wrong answers against parameters, on fresh test problems.

    python -m research.sizes CHECKPOINT ... [--n N] [--sets NAME ...] [--workers N] [--json FILE]
        [--plots OUT]

The problems are those of `tools.exactness`. Parameters are counted as `calcgpt info` does:
shared ones once. A model may be given several times, trained with other seeds or on more problems.
Give checkpoints of the last step: the number of problems is computed from the recipe. Decoding is
greedy. Each share has its 95% interval (Wilson 1927).

Ran at commit 212e06a and before.
"""

from contextlib import closing
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import device, set_num_threads

from benchmarks.measure import environment, parser, run, write
from calcgpt.checkpoint import Checkpoint
from calcgpt.evaluation.shards import Scoring, score_shards, shards_of
from calcgpt.plots import new_figure, save_figures, series_style
from calcgpt.registry import resolve
from calcgpt.tables import text_table
from datagen.arithmetic import ProblemArray
from datagen.operations import OPERATIONS
from datagen.progress import progress_bar
from tools.exactness import by_operation, fresh_problems, share

SETS = ("blog", "everyday")


def all_shares(op: NDArray[np.uint8], right: NDArray[np.bool_]) -> dict[str, Any]:
    """Returns the shares of exact answers: all, and those of each operation."""
    return {"all": share(right), **by_operation(op, right)}


def measure(
    folder: Path, sets: dict[str, ProblemArray], engine: str, workers: int | None
) -> dict[str, Any]:
    """Returns the size of a checkpoint and its shares of exact answers."""
    checkpoint = Checkpoint.load(folder)
    model, train = checkpoint.recipe.model, checkpoint.recipe.train
    threads = None if workers is None else 1
    scoring = Scoring(folder, "cpu", engine, format="scratchpad", threads=threads)
    results = {}
    for name, problems in sets.items():
        right: list[bool] = []
        bar = progress_bar(len(problems), desc=f"{folder.name}, {name}")
        shards = shards_of(problems)
        with (
            bar,
            closing(
                score_shards(scoring, shards, {}, workers=workers, progress=bar.update)
            ) as scored,
        ):
            for rows, _ in scored:
                right += [row.right for row in rows]
        results[name] = all_shares(problems.op, np.array(right, bool))
    return {
        "parameters": checkpoint.metrics["parameters"],  # as trained, perhaps with shared layers
        "layers": model.n_layer,
        "width": model.n_embd,
        "heads": model.n_head,
        "row_window": model.row_window,
        "column_window": model.column_window,
        "problems": train.steps * train.batch_size,
        "seed": train.seed,
        "exact_match": results,
    }


def draw(rows: list[dict[str, Any]], sets: tuple[str, ...]) -> Figure:
    """Draws the share of wrong answers against parameters, a series for each number of training
    problems. Where nothing is wrong, an arrow points down from the upper end of the interval."""
    figure = new_figure(5.5 * len(sets), 4.5)
    for axes, name in zip(figure.subplots(1, len(sets), squeeze=False)[0], sets, strict=True):
        for index, problems in enumerate(sorted({row["problems"] for row in rows})):
            models = [row for row in rows if row["problems"] == problems]
            cells = [row["exact_match"][name]["all"] for row in models]
            none_wrong = np.array([not cell["wrong"] for cell in cells])
            low, high = 1 - np.array([cell["interval"][::-1] for cell in cells]).T
            wrong = np.where(none_wrong, high, 1 - np.array([c["exact_match"] for c in cells]))
            axes.errorbar(
                [row["parameters"] for row in models],
                wrong,
                np.where(none_wrong, high / 2, [wrong - low, high - wrong]),  # half: the arrow
                uplims=none_wrong,
                capsize=2,
                **series_style(index) | {"linestyle": "none"},
                label=f"{problems:,} problems",
            )
        axes.set(title=name, xlabel="parameters", xscale="log", yscale="log")
        axes.set_ylabel("share of wrong answers")
        sizes = sorted({row["parameters"] for row in rows})
        axes.set_xticks(sizes, [f"{size / 1000:,.0f}k" for size in sizes])
        axes.set_xticks([], minor=True)
        axes.grid()
        axes.legend(title="trained on")
    return figure


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("checkpoints", nargs="+", metavar="CHECKPOINT")
    options.add_argument("--n", type=int, default=5_000, help="problems of each set")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--sets", nargs="+", default=list(SETS), metavar="NAME")
    options.add_argument("--engine", default="native")
    options.add_argument("--workers", type=int, help="processes with one thread each")
    options.add_argument("--plots", type=Path, help="also draw into this folder")
    arguments = options.parse_args()
    set_num_threads(arguments.threads)
    sets = {name: fresh_problems(name, arguments.n, arguments.seed) for name in arguments.sets}
    rows = []
    for name in arguments.checkpoints:
        folder = resolve(name)
        rows.append(measure(folder, sets, arguments.engine, arguments.workers))
    rows.sort(key=itemgetter("problems", "parameters", "seed"))
    record = {
        "n": arguments.n,
        "seed": arguments.seed,
        "models": rows,
        "environment": environment(device("cpu")),
    }
    write(arguments.json, record)
    keys = ("problems", "parameters", "seed")
    cells = [
        [*(row[key] for key in keys), name, *(f"{c['exact_match']:.4f}" for c in result.values())]
        for row in rows
        for name, result in row["exact_match"].items()
    ]
    header = (*keys, "set", "all", *(op for op in OPERATIONS))
    print(text_table(header, cells))
    if arguments.plots:
        save_figures(arguments.plots, {"sizes": lambda: draw(rows, tuple(sets))})


if __name__ == "__main__":
    run(main)
