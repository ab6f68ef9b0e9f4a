"""How exact a checkpoint is: fresh test problems of every distribution, answered greedily.

    python -m tools.exactness [--checkpoint NAME] [--n N] [--split test|val] [--workers N]
        [--device NAME] [--json FILE] [NAME[=N] ...]

NAME is a distribution, or one of these:

    pairs-999    all pairs of whole numbers from 0 to 999, in all operations, to two places
    pairs-999-8  the same to eight places, as the calculator asks
    wide-N       numbers of 1 to N digits, for any N
    adversarial  N problems of each class that is made to break a model (`tools.adversarial`)
    one digit repeated
                 a run of a digit, all digits and lengths to 40, in all operations
    NAME@P       the same problems, but all ask for P places, 0 to 30. Half of the operands of
                 wide-N@P are whole; the others have up to P places, or up to 9 if P is smaller

The problems of a distribution are those of the test split and have their own seed: no training
draws them. With `--split val` they are validation problems, by which to choose between checkpoints:
of several seeds, that whose worst class is best. Of the pairs, N are a random sample. No problem
occurs twice. Decoding is greedy. For each set and operation, the share of exact answers has its 95%
interval (Wilson 1927). The threshold is the confidence of the most confident wrong answer.

`--workers` processes share the work, on a GPU too.
"""

import argparse
import re
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.measure import environment, parser, run, write
from calcgpt.base.progress import progress_bar
from calcgpt.checkpoint import Checkpoint
from calcgpt.registry import resolve
from calcgpt_lab.data.plan import new_rows
from calcgpt_lab.data.problems import Line, split_line
from calcgpt_lab.evaluation.calibration import threshold_without_error
from calcgpt_lab.evaluation.evaluate import Evaluation
from calcgpt_lab.evaluation.scoring import Scoring, evaluate_in_shards
from calcgpt_lab.records import wilson_interval
from calcgpt_lab.tables import text_table
from datagen.arithmetic import DRAWN_PLACES, ProblemArray, concatenate
from datagen.distributions import DISTRIBUTIONS, Distribution, distribution, wide, wide_words
from datagen.formats import FORMATS
from datagen.operations import OPERATIONS
from datagen.sampling import bit_generator
from datagen.splits import Split, is_in_split, problem_hashes
from datagen.work_errors import first_error_of_completion
from tools.adversarial import CLASSES as ADVERSARIAL_CLASSES
from tools.adversarial import one_digit_repeated, problems_of_class

PAIRS = {"pairs-999": (1_000, 2), "pairs-999-8": (1_000, 8)}  # bound, places
WIDE = re.compile(r"wide-([1-9][0-9]?)")
ONE_DIGIT = "one digit repeated"
GROUPS = {  # sets that stand for several
    "adversarial": list(ADVERSARIAL_CLASSES),
}
STREAM = 10_000  # of the seed: no data set and no training uses it
SHOWN = 1_000  # wrong answers that are listed


def name_of(checkpoint: str) -> str:
    """Returns a checkpoint as a command was given it, or the name of the best one."""
    return resolve(checkpoint).name if checkpoint == "best" else checkpoint


def distribution_of(name: str) -> Distribution:
    """Returns the distribution of a set `NAME` or `NAME@P`, whatever its problems ask for."""
    name, _, places = name.partition("@")
    match = WIDE.fullmatch(name)
    if not match:
        return distribution(name)
    digits, max_places = int(match[1]), max(int(places or 0), DRAWN_PLACES)
    return Distribution(wide_words(digits), partial(wide, max_digits=digits, max_places=max_places))


def fresh_problems(name: str, n: int, seed: int, split: Split = Split.TEST) -> ProblemArray:
    """Returns n different problems of a distribution that belong to a split."""
    draw = distribution_of(name)
    seen: set[int] = set()
    parts: list[ProblemArray] = []
    block, missing = 0, n
    with progress_bar(n, desc=f"drawing {name}") as bar:
        while missing:
            for problems in draw(bit_generator(seed, STREAM, block), 4 * n):
                hashes = problem_hashes(problems)
                rows = new_rows(hashes, is_in_split(hashes, split), seen)[:missing]
                parts.append(problems.take(rows))
                missing -= len(rows)
                bar.update(len(rows))
            block += 1
    return concatenate(parts)


def whole_number_pairs(bound: int, places: int, count: int, seed: int) -> ProblemArray:
    """Returns `count` problems of two whole numbers below `bound`, drawn without repetition, or all
    in order if there are no more. Answers have `places` decimal places."""
    n = len(OPERATIONS) * bound**2
    if count < n:
        index = np.sort(np.random.default_rng((STREAM, seed)).choice(n, count, replace=False))
    else:
        index = np.arange(n)
    op, a, b = np.unravel_index(index, (len(OPERATIONS), bound, bound))
    point = np.zeros(len(op), np.bool_)
    return ProblemArray(
        100 * a, point, op.astype(np.uint8), 100 * b, point, np.array(places, np.uint8)
    )


def summarize(problems: ProblemArray, evaluation: Evaluation, has_work: bool) -> dict[str, Any]:
    """Returns the shares of exact answers, the threshold of the confidence, and wrong answers."""
    right = np.array(evaluation.right)
    confidences = [confidence.whole for confidence in evaluation.confidences]
    threshold = threshold_without_error(confidences, evaluation.right)
    columns = zip(evaluation.lines, evaluation.outputs, confidences, evaluation.right, strict=True)
    wrong = [(line, output, value) for line, output, value, is_right in columns if not is_right]
    return {
        **share(right),
        "by_operation": by_operation(problems.op, right),
        "threshold": threshold["confidence"],
        "kept": threshold["kept"],
        "wrong_answers": [wrong_answer(*row, has_work) for row in wrong[:SHOWN]],
    }


def by_operation(op: NDArray[np.uint8], right: NDArray[np.bool_]) -> dict[str, Any]:
    """Returns the share of exact answers of each operation."""
    return {operation: share(right[op == code]) for code, operation in enumerate(OPERATIONS)}


def wrong_answer(line: Line, output: str, confidence: float, has_work: bool) -> dict[str, Any]:
    """Returns a wrong answer, and the kind of its first wrong step if there are steps."""
    error = first_error_of_completion(line.prompt, output) if has_work else None
    return {
        "line": line.prompt + line.completion,
        "output": output,
        "confidence": confidence,
        **({"first_wrong_step": error.kind.value} if error else {}),
    }


def share(right: NDArray[np.bool_]) -> dict[str, Any]:
    """Returns n, the number of wrong answers, the share of exact ones and its 95% interval."""
    n, n_right = len(right), int(right.sum())
    if not n:
        return {"n": 0, "wrong": 0, "exact_match": None, "interval": None}
    interval = wilson_interval(n_right / n, n)
    return {"n": n, "wrong": n - n_right, "exact_match": n_right / n, "interval": interval}


def worst_class(results: dict[str, dict[str, Any]]) -> tuple[str, float]:
    """Returns the name and the share of exact answers of the set with the lowest share."""
    return min(((name, row["exact_match"]) for name, row in results.items()), key=itemgetter(1))


def _short(value: Any) -> Any:
    """Returns shares and intervals with five places."""
    if isinstance(value, tuple):
        return " to ".join(f"{share:.5f}" for share in value)
    return f"{value:.5f}" if isinstance(value, float) else value


def problems_of(name: str, count: int, seed: int, split: Split = Split.TEST) -> ProblemArray:
    """Returns the problems of a set."""
    base, _, places = name.partition("@")
    if base in ADVERSARIAL_CLASSES:
        problems = problems_of_class(base, count, seed)
    elif base == ONE_DIGIT:
        problems = one_digit_repeated(seed)
    elif base in PAIRS:
        problems = whole_number_pairs(*PAIRS[base], count, seed)
    else:
        problems = fresh_problems(name, count, seed, split)
    return replace(problems, places=np.array(int(places), np.uint16)) if places else problems


def score_set(
    scoring: Scoring, name: str, problems: ProblemArray, form: str, arguments: argparse.Namespace
) -> dict[str, Any]:
    """Scores a set, in a format, and returns its results."""
    lines = map(split_line, FORMATS[form](problems).decode("ascii").splitlines())
    with progress_bar(len(problems), desc=name) as bar:
        evaluation = evaluate_in_shards(scoring, list(lines), bar.update, arguments.workers)
    result = summarize(problems, evaluation, Checkpoint.load(scoring.checkpoint).recipe.has_work)
    return result | {"problems_per_second": round(evaluation.problems_per_second, 1)}


def parsed_arguments() -> argparse.Namespace:
    """Returns the arguments of the command."""
    options = parser(__doc__ or "")
    options.add_argument("--checkpoint", default="best")
    options.add_argument("--n", type=int, default=10_000, help="problems of each distribution")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--split", type=Split, choices=[Split.TEST, Split.VAL], default=Split.TEST)
    options.add_argument("--workers", type=int, default=1, help="processes with one thread each")
    options.add_argument("--engine", default="auto", help="what decodes")
    options.add_argument("--device", type=torch.device, default=torch.device("cpu"))
    options.add_argument("sets", nargs="*", metavar="NAME[=N]", help="default: all distributions")
    return options.parse_args()


def main() -> None:
    arguments = parsed_arguments()
    torch.set_num_threads(arguments.threads)
    folder = resolve(arguments.checkpoint)
    data = Checkpoint.load(folder).recipe.data
    format_ = data.format.removesuffix("-second-choices") if data else "direct"
    device = str(arguments.device)
    scoring = Scoring(folder, device, arguments.engine)
    pairs = (item.partition("=") for item in arguments.sets)
    sets = {name: count for name, _, count in pairs} or dict.fromkeys(DISTRIBUTIONS, "")
    for group, names in GROUPS.items():
        if group in sets:
            sets |= dict.fromkeys(names, sets.pop(group))
    results: dict[str, Any] = {}
    for name, count in sets.items():
        n = int(count or (10**9 if name.partition("@")[0] in PAIRS else arguments.n))
        problems = problems_of(name, n, arguments.seed, arguments.split)
        results[name] = score_set(scoring, name, problems, format_, arguments)
        print(name, {key: results[name][key] for key in ("n", "wrong", "threshold", "kept")})
    record = {
        "checkpoint": name_of(arguments.checkpoint),
        "engine": arguments.engine,
        "workers": arguments.workers,
        "seed": arguments.seed,
        "split": arguments.split,
        "environment": environment(arguments.device),
        "results": results,
    }
    write(arguments.json, record)
    rows = [
        {"distribution": name, "operation": operation, **row}
        for name, result in results.items()
        for operation, row in {"all": result, **result["by_operation"]}.items()
        if row["n"]
    ]
    columns = ("distribution", "operation", "n", "wrong", "exact_match", "interval")
    print(text_table(columns, [[_short(row[column]) for column in columns] for row in rows]))
    name, share_right = worst_class(results)
    print(f"worst class: {name}, {share_right:.5f} exact")


if __name__ == "__main__":
    run(main)
