"""How exact a checkpoint is on the test sets of other papers.

    python -m benchmarks.others [--checkpoint NAME] [--engine NAME] [--workers N] [--json FILE]
        [--mathglm test.txt] [--math401 math401.json] [--shards DIR]

MathGLM (Yang et al. 2023, arXiv 2309.03241): `MathGLM_Arithmetic/test.txt` of its repository,
expressions without answers. The right ones are computed exactly. As in its scorer, an answer is
right if it is equal when rounded to two places. MATH-401 (Yuan et al. 2023, arXiv 2304.02015):
`math401.json`; an answer is right if it differs by less than 0.001.

The model answers one operation after the other, with its own answers as operands, as in `calc`.
Each answer has --places places, and typed numbers at most nine, to which longer ones are rounded.
So some right answers are out of reach. Exact arithmetic with the same rounding shows how many. An
expression that the calculator does not take (sin, log, pi, powers that are not whole), or whose
work is too long, counts as wrong. With `--shards`, the same command continues after an
interruption.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.exactness import share
from benchmarks.measure import environment, name_of, parser, run, write
from calcgpt.checkpoint import CONFIG
from calcgpt.data.problems import split_line
from calcgpt.errors import ExpressionError
from calcgpt.evaluation.evaluate import answer
from calcgpt.evaluation.shards import check_manifest, load_for_scoring
from calcgpt.inference.calculator import Calculator, Computation
from calcgpt.inference.exact import evaluate
from calcgpt.inference.expression import parse
from calcgpt.registry import resolve
from calcgpt.tables import text_table
from datagen.arithmetic import MAX_PLACES, ProblemArray
from datagen.files import read_json, read_text, sha256, write_json
from datagen.formats import renderer
from datagen.progress import progress_bar
from datagen.workers import make_engine

SHARD = 100  # expressions that are answered together
COLUMNS = ("n", "wrong", "not_asked", "reachable", "wrong_though_reachable")
SHOWN = 20  # wrong answers in the record
LONG_DECIMAL = re.compile(rf"[0-9]+\.[0-9]{{{MAX_PLACES + 1},}}")
PERCENTAGE = re.compile(r"[0-9.]+%")
TOLERANCE = Fraction(1, 1000)
MATH401_KINDS = (
    "Euler's equation",
    "+ - of integers to 10",
    "+ - of integers to 100",
    "+ - of integers to 1,000",
    "+ - of integers to 10^12",
    "+ - of integers from -10 to 10",
    "+ - of decimals from -100 to 100",
    "* of integers to 100",
    "* of decimals to 10",
    "* of integers to 100,000",
    "/ of integers to 100",
    "whole powers",
    "decimal powers",
    "e and pi",
    "long expressions",
    "trigonometry",
    "logarithms",
)


@dataclass(frozen=True)
class Task:
    """An expression, its kinds, its right answer, and how answers are compared with it."""

    text: str
    kinds: tuple[str, ...]
    target: Fraction
    rounded: bool  # compare it rounded to two places; else within TOLERANCE


@dataclass(frozen=True)
class Outcome:
    """The model's answer to a task, or why there is none."""

    right: bool
    answer: str | None
    refused: str | None
    reachable: bool  # whether exact arithmetic with the same rounding is right


def _rounded(match: re.Match[str]) -> str:
    return f"{round(Decimal(match[0]), MAX_PLACES):f}"


def mathglm_tasks(path: Path) -> list[Task]:
    """Returns the expressions of MathGLM's file, by what is in them."""
    tasks = []
    for line in read_text(path).splitlines():
        text = line.strip().removesuffix("=").translate(str.maketrans("[]", "()"))
        numbers = [name for name, c in {"decimals": ".", "percentages": "%"}.items() if c in text]
        text = LONG_DECIMAL.sub(_rounded, text)
        text = PERCENTAGE.sub(r"(\g<0>)", text)  # always a hundredth there, also after + and -
        tree = parse(text)
        n = tree.n_operations
        count = next(f"{a} to {b} operations" for a, b in ((0, 2), (3, 5), (6, 99)) if n <= b)
        kinds = (" and ".join(numbers) or "whole numbers", count)
        tasks.append(Task(text, kinds, evaluate(tree), rounded=True))
    return tasks


def math401_tasks(path: Path) -> list[Task]:
    """Returns the expressions of MATH-401 in its groups: one, and then 25 of each kind."""
    tasks = []
    for index, line in enumerate(read_text(path).splitlines()):
        row = json.loads(line)
        text = row["query"].strip().removesuffix("=").replace("**", "^")
        kind = MATH401_KINDS[-(-index // 25)]
        tasks.append(Task(text, (kind,), Fraction(row["response"]), rounded=False))
    return tasks


@dataclass(frozen=True)
class Answering:
    """A function from tasks to outcomes that can be sent to other processes."""

    checkpoint: Path
    engine: str
    places: int
    threads: int | None

    def __call__(self, tasks: Sequence[Task]) -> list[Outcome]:
        checkpoint, decoder = load_for_scoring(self.checkpoint, "cpu", self.engine, self.threads)
        data = checkpoint.recipe.data
        render_lines = renderer(data.format.removeprefix("loose-") if data else "direct")
        calculator = Calculator(checkpoint, decoder)
        computations: dict[int, Computation] = {}
        refused: dict[int, str] = {}
        for index, task in enumerate(tasks):
            try:
                computations[index] = calculator.begin(task.text, self.places, unproven=True)
            except ExpressionError as error:
                refused[index] = error.reason
        while questions := [(c, q) for c in computations.values() for q in c.questions()]:
            problems = ProblemArray.from_problems([question.problem for _, question in questions])
            text = render_lines(problems).decode("ascii")
            lines = [split_line(line) for line in text.splitlines()]
            answers = answer(decoder, checkpoint.tokenizer, lines)
            for (computation, question), written in zip(questions, answers, strict=True):
                computation.answer(question.node, written.output, written.probabilities)
        outcomes = []
        for index, task in enumerate(tasks):
            if index in refused:
                outcomes.append(Outcome(False, None, refused[index], reachable=False))
                continue
            calculation = computations[index].calculation()
            right, reachable = (
                is_right(task, text) for text in (calculation.result, calculation.exact)
            )
            outcomes.append(Outcome(right, calculation.result, None, reachable))
        return outcomes


def answered(
    answering: Answering, tasks: Sequence[Task], workers: int | None, folder: Path | None
) -> Iterator[list[Outcome]]:
    """Yields the outcomes of the tasks, shard by shard. Outcomes in the folder are not computed
    again. Raises DataError if the folder belongs to other tasks."""
    shards = [tasks[start : start + SHARD] for start in range(0, len(tasks), SHARD)]
    done = 0
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        text = "\n".join(task.text for task in tasks)
        manifest = {
            "checkpoint": sha256(answering.checkpoint / CONFIG),
            "engine": answering.engine,
            "places": answering.places,
            "tasks": hashlib.sha256(text.encode()).hexdigest(),
        }
        check_manifest(folder, manifest)
        while (file := folder / f"shard-{done:05}.json").exists():
            yield [Outcome(**row) for row in read_json(file)["outcomes"]]
            done += 1
    with closing(make_engine("local", workers)(answering, shards[done:])) as computed:
        for number, rows in enumerate(computed, start=done):
            if folder:
                record = {"outcomes": [asdict(row) for row in rows]}
                write_json(folder / f"shard-{number:05}.json", record)
            yield rows


def is_right(task: Task, result: str | None) -> bool:
    """Returns whether a result, a number or not, is the right answer to a task."""
    try:
        value = Fraction(result or "")
    except ValueError:
        return False
    if task.rounded:
        return round(value, 2) == round(task.target, 2)
    return abs(value - task.target) < TOLERANCE


def summarize(tasks: Sequence[Task], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Returns the shares of right answers, of all tasks and by kind, and what is wrong."""
    right = np.array([outcome.right for outcome in outcomes], bool)
    was_asked = np.array([outcome.refused is None for outcome in outcomes], bool)
    reachable = np.array([outcome.reachable for outcome in outcomes], bool)

    def row(rows: NDArray[np.bool_]) -> dict[str, Any]:
        counts = {"not_asked": ~was_asked[rows], "reachable": reachable[rows]}
        return {
            **share(right[rows]),
            **{name: int(flags.sum()) for name, flags in counts.items()},
            "wrong_though_reachable": int((reachable & ~right)[rows].sum()),
        }

    kinds = list(dict.fromkeys(kind for task in tasks for kind in task.kinds))
    rows_by_kind = {kind: np.array([kind in task.kinds for task in tasks]) for kind in kinds}
    pairs = list(zip(tasks, outcomes, strict=True))
    return {
        **row(np.ones(len(tasks), bool)),
        "by_kind": {kind: row(rows) for kind, rows in rows_by_kind.items()},
        "wrong_answers": [
            {"text": task.text, "answer": outcome.answer, "right": float(task.target)}
            for task, outcome in pairs
            if not outcome.right and outcome.reachable
        ][:SHOWN],
        "not_asked_because": _counts(o.refused for o in outcomes if o.refused),
    }


def _counts(reasons: Any) -> dict[str, int]:
    """Returns the most frequent reasons without the numbers in them."""
    counts: dict[str, int] = {}
    for reason in reasons:
        short = reason.partition(":")[0] if reason[0].isdigit() else reason
        counts[short[:60]] = counts.get(short[:60], 0) + 1
    return dict(sorted(counts.items(), key=lambda item: -item[1])[:SHOWN])


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--checkpoint", default="best")
    options.add_argument("--engine", default="native")
    options.add_argument("--workers", type=int, help="processes with one thread each")
    options.add_argument("--places", type=int, default=9, help="decimal places of every answer")
    options.add_argument("--n", type=int, help="only the first N expressions of a set")
    options.add_argument(
        "--shards",
        type=Path,
        metavar="DIR",
        help="save answers in this folder, and continue from it",
    )
    options.add_argument("--mathglm", type=Path, metavar="FILE")
    options.add_argument("--math401", type=Path, metavar="FILE")
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    sets: dict[str, tuple[Path | None, Callable[[Path], list[Task]]]] = {
        "MathGLM": (arguments.mathglm, mathglm_tasks),
        "MATH-401": (arguments.math401, math401_tasks),
    }
    threads = 1 if arguments.workers else None
    answering = Answering(
        resolve(arguments.checkpoint), arguments.engine, arguments.places, threads
    )
    results: dict[str, Any] = {}
    for name, (path, read) in sets.items():
        if path is None:
            continue
        tasks = read(path)[: arguments.n]
        outcomes: list[Outcome] = []
        folder = arguments.shards and arguments.shards / name
        with progress_bar(len(tasks), desc=name) as bar:
            for rows in answered(answering, tasks, arguments.workers, folder):
                outcomes += rows
                bar.update(len(rows))
        results[name] = summarize(tasks, outcomes)
    record = {
        "checkpoint": name_of(arguments.checkpoint),
        "engine": arguments.engine,
        "places": arguments.places,
        "environment": environment(torch.device("cpu")),
        "results": results,
    }
    write(arguments.json, record)
    cells = [
        [name, kind, *(row[key] for key in COLUMNS), f"{row['exact_match']:.4f}"]
        for name, result in results.items()
        for kind, row in {"all": result, **result["by_kind"]}.items()
    ]
    print(text_table(("set", "kind", *COLUMNS, "exact match"), cells))


if __name__ == "__main__":
    run(main)
