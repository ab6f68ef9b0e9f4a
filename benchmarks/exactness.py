"""How exact a checkpoint is: fresh test problems of every distribution, answered greedily.

    python -m benchmarks.exactness [--checkpoint NAME] [--n N] [--json FILE] [NAME[=N] ...]

The problems are those of the test split, of a seed of their own: no training draws them. All are
different. Answers are those of greedy decoding. For each distribution and operation, the share of
exact answers has its 95% interval (Wilson 1927). The threshold is the confidence of the most
confident wrong answer.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from benchmarks.measure import environment, parser, write
from calcgpt.checkpoint import Checkpoint, resolve
from calcgpt.data.problems import split_line
from calcgpt.evaluation.calibration import threshold_without_error
from calcgpt.evaluation.evaluate import Evaluation, evaluate
from calcgpt.plots import wilson_interval
from calcgpt.tables import text_table
from datagen.arithmetic import OPERATIONS, ProblemArray, concatenate
from datagen.distributions import DISTRIBUTIONS, distribution
from datagen.drawing import bit_generator
from datagen.formats import line_format
from datagen.splits import Split, belongs, problem_hashes

STREAM = 10_000  # of the seed: no data set and no training uses it
SHOWN = 20  # wrong answers that the figures list


def fresh_problems(name: str, n: int, seed: int) -> ProblemArray:
    """Returns n different test problems of a distribution."""
    seen: set[int] = set()
    parts: list[ProblemArray] = []
    block = 0
    while len(seen) < n:
        for problems in distribution(name)(bit_generator(seed, STREAM, block), 4 * n):
            hashes = problem_hashes(problems)
            rows = []
            for row in np.flatnonzero(belongs(hashes, Split.TEST)).tolist():
                if len(seen) < n and int(hashes[row]) not in seen:
                    seen.add(int(hashes[row]))
                    rows.append(row)
            parts.append(problems.take(np.array(rows, np.intp)))
        block += 1
    return concatenate(parts)


def figures(evaluation: Evaluation) -> dict[str, Any]:
    """Returns the shares of exact answers, the wrong ones, and how sure the model was of them."""
    right = evaluation.right
    whole = [confidence.whole for confidence in evaluation.confidences]
    threshold = threshold_without_error(whole, right)
    rows = zip(evaluation.lines, evaluation.outputs, whole, right, strict=True)
    wrong = [
        {"line": line.prompt + line.completion, "output": output, "confidence": sure}
        for line, output, sure, is_right in rows
        if not is_right
    ]
    by_operation: dict[str, list[bool]] = {operation.value: [] for operation in OPERATIONS}
    for line, is_right in zip(evaluation.lines, right, strict=True):
        by_operation[line.operation].append(is_right)
    return {
        **share(right),
        "by_operation": {operation: share(part) for operation, part in by_operation.items()},
        "threshold": threshold.confidence,
        "kept": threshold.kept,
        "wrong_answers": wrong[:SHOWN],
        "problems_per_second": round(evaluation.problems_per_second, 1),
    }


def share(right: Sequence[bool]) -> dict[str, Any]:
    """Returns n, the number of wrong answers, the share of exact ones and its 95% interval."""
    n, n_right = len(right), sum(right)
    if not n:
        return {"n": 0, "wrong": 0, "exact_match": None, "interval": None}
    interval = wilson_interval(n_right / n, n)
    return {"n": n, "wrong": n - n_right, "exact_match": n_right / n, "interval": interval}


def _short(value: Any) -> Any:
    """Returns shares and intervals with five places."""
    if isinstance(value, tuple):
        return " to ".join(f"{share:.5f}" for share in value)
    return f"{value:.5f}" if isinstance(value, float) else value


def main() -> None:
    options = parser(__doc__ or "", runs=1)
    options.add_argument("--checkpoint", default="best")
    options.add_argument("--n", type=int, default=10_000, help="problems of each distribution")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("sets", nargs="*", metavar="NAME[=N]", help="default: all distributions")
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    checkpoint = Checkpoint.load(resolve(arguments.checkpoint))
    data = checkpoint.recipe.data
    if data is None:
        sys.exit(f"checkpoint {arguments.checkpoint!r} has no problems in its recipe")
    chosen = line_format(data.format.removeprefix("loose-"), data.digits)
    pairs = (item.partition("=") for item in arguments.sets)
    sets = {name: count for name, _, count in pairs} or dict.fromkeys(DISTRIBUTIONS, "")
    results: dict[str, Any] = {}
    for name, count in sets.items():
        problems = fresh_problems(name, int(count or arguments.n), arguments.seed)
        problems = problems.take(np.flatnonzero(chosen.fits(problems)))
        lines = [split_line(text) for text in chosen.render_lines(problems).decode().splitlines()]
        with tqdm(total=len(lines), desc=name, disable=None) as bar:
            evaluation = evaluate(
                checkpoint.model, checkpoint.tokenizer, lines, progress=bar.update
            )
        results[name] = figures(evaluation)
        print(name, {key: results[name][key] for key in ("n", "wrong", "threshold", "kept")})
    record = {
        "checkpoint": arguments.checkpoint,
        "seed": arguments.seed,
        "environment": environment(torch.device("cpu")),
        "results": results,
    }
    rows = [
        {"distribution": name, "operation": operation, **row}
        for name, result in results.items()
        for operation, row in {"all": result, **result["by_operation"]}.items()
    ]
    columns = ("distribution", "operation", "n", "wrong", "exact_match", "interval")
    print(text_table(columns, [[_short(row[column]) for column in columns] for row in rows]))
    write(arguments.json, record)


if __name__ == "__main__":
    main()
