"""How exact the calculator is on expressions that others wrote.

    python -m tools.others [--checkpoint NAME] [--engine NAME] [--workers N] [--json FILE]
        [--gsm8k FILE] [--math401 math401.json] [--mathglm test.txt]

GSM8K (Cobbe et al. 2021, arXiv 2110.14168): the calculations in the solutions of its test problems,
`expression=value` a line. MATH-401 (Yuan et al. 2023, arXiv 2304.02015): `math401.json`. MathGLM
(Yang et al. 2023, arXiv 2309.03241): `MathGLM_Arithmetic/test.txt` of its repository, expressions
without answers, in which a percentage is always a number of hundredths.

The calculator gets each expression as it stands. In GSM8K and MathGLM, a result is right if it is
the exact value, rounded once to --places; in MATH-401, if it differs from the answer by less than
0.001. By the other criterion, it is the value in the line of GSM8K; in MATH-401, the value of the
text as it stands, by mpmath and Arb, because five answers are of arguments that were rounded
afterwards; and for MathGLM's scorer, equal when rounded to two places. Expressions that the
calculator refuses, such as e^(iπ), are wrong.
"""

import ast
import json
import operator
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.measure import environment, parser, run, write
from calcgpt.base.files import read_text
from calcgpt.base.progress import progress_bar
from calcgpt.errors import ExpressionError
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.expression_stack import DEFAULT_STYLE, Style
from calcgpt.inference.limits import MAX_WORK
from calcgpt.registry import resolve
from calcgpt_lab.parallel import parallel_map
from calcgpt_lab.tables import text_table
from tools.exactness import name_of, share
from tools.functions import oracle

SHARD = 100  # expressions that are answered together
SHOWN = 20  # wrong results in the record
TOLERANCE = Fraction(1, 1000)  # of MATH-401
OPERATORS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
MATH401_KINDS = [
    *("Euler's equation", "+ - of integers to 10", "+ - of integers to 100"),
    *("+ - of integers to 1,000", "+ - of integers to 10^12", "+ - of integers from -10 to 10"),
    *("+ - of decimals from -100 to 100", "* of integers to 100", "* of decimals to 10"),
    *("* of integers to 100,000", "/ of integers to 100", "whole powers", "decimal powers"),
    *("e and pi", "long expressions", "trigonometry", "logarithms"),
]


@dataclass(frozen=True)
class Task:
    """An expression, its kinds, its value, and how results are compared with it."""

    text: str
    kinds: tuple[str, ...]
    value: Fraction
    written: Fraction | None = None  # the value in the line of GSM8K, of the text in MATH-401
    is_rounded: bool = False  # whether the value is the answer of MATH-401
    style: Style = DEFAULT_STYLE

    def judge(self, result: str | None, places: int) -> tuple[bool, bool]:
        """Returns whether a result, a number or not, is right, and by the other criterion."""
        try:
            value = Fraction(result or "")
        except ValueError:
            return False, False
        if self.is_rounded:
            values = (self.value, self.value if self.written is None else self.written)
            near, of_text = (abs(value - right) < TOLERANCE for right in values)
            return near, of_text
        is_exact = value == round(self.value, places)
        if self.written is None:
            return is_exact, round(value, 2) == round(self.value, 2)
        return is_exact, value == self.written


@dataclass(frozen=True)
class Outcome:
    """The result of a task, or the kind of error with which the calculator refuses it."""

    result: str | None = None
    right: bool = False
    other: bool = False  # whether it is right by the other criterion
    refused: str | None = None
    guard_places: int | None = None  # None if numerator and denominator were worked out
    characters: int = 0  # that the model writes
    seconds: float = 0.0


def exact_value(text: str) -> Fraction:
    """Returns the value of numbers, + - * / and parentheses. It is Python's own parser that parses
    them, so that the calculator's is tested, too."""

    def value(node: ast.expr) -> Fraction:
        match node:
            case ast.BinOp(left, op, right):
                return OPERATORS[type(op)](value(left), value(right))
            case ast.UnaryOp(op, operand):
                return -value(operand) if isinstance(op, ast.USub) else value(operand)
        return Fraction(text[node.col_offset : node.end_col_offset])

    return value(ast.parse(text, mode="eval").body)


def gsm8k_tasks(path: Path) -> list[Task]:
    """Returns the calculations of GSM8K."""
    lines = [line.rpartition("=") for line in read_text(path).splitlines()]
    return [Task(text, (), exact_value(text), Fraction(value)) for text, _, value in lines]


def math401_tasks(path: Path) -> list[Task]:
    """Returns the expressions of MATH-401 in its groups: one, and then 25 of each kind."""
    tasks = []
    for index, line in enumerate(read_text(path).splitlines()):
        row, kind = json.loads(line), MATH401_KINDS[-(-index // 25)]
        answer = Fraction(row["response"])
        try:
            of_text = oracle(row["query"], 8)
        except ExpressionError:  # complex numbers
            of_text = None
        written = None if of_text is None else Fraction(of_text)
        tasks.append(Task(row["query"], (kind,), answer, written, is_rounded=True))
    return tasks


def mathglm_tasks(path: Path) -> list[Task]:
    """Returns the expressions of MathGLM's file, by what is in them."""
    tasks = []
    for text in read_text(path).splitlines():
        names = [name for name, c in {"decimals": ".", "percentages": "%"}.items() if c in text]
        usual = text.strip().removesuffix("=").translate(str.maketrans("[]", "()"))
        usual = re.sub("([0-9.]+)%", r"(\1/100)", usual)
        n = len(re.findall("(?<=[0-9)])[-+*/]", usual))
        count = next(f"{a} to {b} operations" for a, b in ((0, 2), (3, 5), (6, 99)) if n <= b)
        kinds = (" and ".join(names) or "whole numbers", count)
        tasks.append(Task(text, kinds, exact_value(usual), style=Style("plain")))
    return tasks


READERS = {"GSM8K": gsm8k_tasks, "MATH-401": math401_tasks, "MathGLM": mathglm_tasks}


@dataclass(frozen=True)
class Answering:
    """A function from tasks to outcomes that can be sent to other processes."""

    checkpoint: Path
    engine: str
    places: int

    def __call__(self, tasks: Sequence[Task]) -> list[Outcome]:
        calculator = Calculator.load(str(self.checkpoint), self.engine)
        return [self._outcome(calculator, task) for task in tasks]

    def _outcome(self, calculator: Calculator, task: Task) -> Outcome:
        typed = (task.text, self.places, MAX_WORK, task.style)
        try:
            plan = calculator.begin(*typed)
        except ExpressionError as error:
            return Outcome(refused=error.kind.value)
        start = time.perf_counter()
        result = calculator.calculate(*typed).result
        seconds = time.perf_counter() - start
        right, other = task.judge(result, self.places)
        return Outcome(result, right, other, None, plan.guard_places, plan.n_characters, seconds)


def answered(answering: Answering, tasks: Sequence[Task], workers: int) -> Iterator[list[Outcome]]:
    """Yields the outcomes of the tasks, shard by shard."""
    shards = [tasks[start : start + SHARD] for start in range(0, len(tasks), SHARD)]
    with closing(parallel_map(answering, shards, workers)) as computed:
        yield from computed


def summarize(tasks: Sequence[Task], outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Returns the shares of right results, of all tasks and by kind, with the refused ones by kind
    of error; wrong results; and what the model writes, with guard places and without."""
    pairs = list(zip(tasks, outcomes, strict=True))
    kinds = dict.fromkeys(kind for task in tasks for kind in task.kinds)
    by_kind = {kind: [o for task, o in pairs if kind in task.kinds] for kind in kinds}
    taken = [outcome for outcome in outcomes if not outcome.refused]
    return {
        **_shares(outcomes),
        "by_kind": {kind: _shares(part) for kind, part in by_kind.items()},
        "wrong_results": [
            {"text": task.text, "result": outcome.result, "right": float(task.value)}
            for task, outcome in pairs
            if not (outcome.right or outcome.refused)
        ][:SHOWN],
        "guard_places": dict(Counter(str(o.guard_places) for o in taken).most_common()),
        "with_guard_places": _work([o for o in taken if o.guard_places != 0]),
        "without_guard_places": _work([o for o in taken if o.guard_places == 0]),
    }


def _shares(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    right = share(np.array([outcome.right for outcome in outcomes]))
    other = sum(outcome.other for outcome in outcomes) / len(outcomes)
    refused = Counter(outcome.refused for outcome in outcomes if outcome.refused)
    return {**right, "other_match": other, "refused": dict(refused.most_common())}


def _work(outcomes: Sequence[Outcome]) -> dict[str, float]:
    totals = {key: sum(getattr(o, key) for o in outcomes) for key in ("characters", "seconds")}
    return {"n": len(outcomes), **totals}


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--checkpoint", default="best")
    options.add_argument("--engine", default="auto")
    options.add_argument("--workers", type=int, default=1, help="processes with one thread each")
    options.add_argument("--places", type=int, default=9, help="decimal places of every result")
    options.add_argument("--n", type=int, help="only the first N expressions of a set")
    for name in READERS:
        options.add_argument(f"--{name.lower().replace('-', '')}", type=Path, metavar="FILE")
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    checkpoint = resolve(arguments.checkpoint)
    answering = Answering(checkpoint, arguments.engine, arguments.places)
    results: dict[str, Any] = {}
    for name, read in READERS.items():
        if path := vars(arguments)[name.lower().replace("-", "")]:
            tasks = read(path)[: arguments.n]
            outcomes: list[Outcome] = []
            with progress_bar(len(tasks), desc=name) as bar:
                for rows in answered(answering, tasks, arguments.workers):
                    outcomes += rows
                    bar.update(len(rows))
            results[name] = summarize(tasks, outcomes)
    record = {
        "checkpoint": name_of(arguments.checkpoint),
        "engine": answering.engine,
        "places": answering.places,
        "environment": environment(torch.device("cpu")),
        "results": results,
    }
    write(arguments.json, record)
    cells = []
    for name, result in results.items():
        for kind, row in {"all": result, **result["by_kind"]}.items():
            shares = (f"{row[key]:.2%}" for key in ("exact_match", "other_match"))
            refused = ", ".join(f"{n} {error}" for error, n in row["refused"].items())
            cells.append([name, kind, row["n"], row["wrong"], *shares, refused])
        for key in ("guard_places", "with_guard_places", "without_guard_places"):
            print(f"{name}, {key.replace('_', ' ')}:", result[key])
    print(text_table(("set", "kind", "n", "wrong", "right", "by other", "refused"), cells))


if __name__ == "__main__":
    run(main)
