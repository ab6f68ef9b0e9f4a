"""How exact and how fast the functions of the calculator are, by the model itself.

    python -m tools.functions [--checkpoint NAME] [--engine NAME] [--n N] [--places P] [--seed S]
        [--json FILE] [NAME ...]

Each function gets N random arguments, of any size from 0.0001 to 10,000 where it takes them, and
`special` all of SPECIAL. A result is right if it is the value rounded once, which the plan knows
(`tests/unit/calcgpt/inference/test_functions.py` checks that it does). Wrong results are listed,
each with its first wrong operation.
"""

import random
import statistics
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from benchmarks.measure import environment, parser, positive, run, write
from calcgpt.errors import ExpressionError
from calcgpt.inference.calculator import Calculator
from calcgpt.statistics import wilson_interval
from calcgpt.tables import text_table
from datagen.progress import progress_bar
from tools.exactness import name_of

Draw = Callable[[random.Random], str]
BATCH, ALONE = 100, 20  # expressions that are answered together, and by themselves
SHOWN = 20  # wrong results that are listed of each function


def _number(least: float, most: float, signed: bool = False) -> Draw:
    """Draws numbers whose magnitudes are of any size from `least` to `most`, with 0 to 4 places."""

    def draw(rng: random.Random) -> str:
        size = least * (most / least) ** rng.random()
        sign = "-" if signed and rng.random() < 0.5 else ""
        return f"{sign}{size:.{rng.randint(0 if size >= 1 else 4, 4)}f}"

    return draw


def _call(name: str, *arguments: Draw) -> Draw:
    return lambda rng: f"{name}({', '.join(draw(rng) for draw in arguments)})"


def _many(name: str, draw: Draw) -> Draw:
    return lambda rng: f"{name}({', '.join(draw(rng) for _ in range(rng.randint(2, 6)))})"


def _whole(least: int, most: int) -> Draw:
    return lambda rng: str(rng.randint(least, most))


ANY, ABOVE_0 = _number(1e-4, 1e4, signed=True), _number(1e-4, 1e4)
SMALL, ARC = _number(1e-3, 15, signed=True), _number(1e-4, 1, signed=True)
FUNCTIONS: dict[str, Draw] = {
    "sqrt": _call("sqrt", ABOVE_0),
    "cbrt": _call("cbrt", ANY),
    "root": _call("root", ABOVE_0, _whole(2, 12)),
    "power": lambda rng: f"{ABOVE_0(rng)}^{_number(0.01, 3, signed=True)(rng)}",
    **{name: _call(name, SMALL) for name in ("exp", "sinh", "cosh", "tanh")},
    **{name: _call(name, ABOVE_0) for name in ("ln", "log", "log2")},
    "log(x, b)": _call("log", ABOVE_0, _whole(2, 20)),
    **{name: _call(name, ANY) for name in ("sin", "cos", "tan", "atan")},
    **{
        f"{name}, degrees": _call(name, lambda rng: f"{ANY(rng)}°")
        for name in ("sin", "cos", "tan")
    },
    **{name: _call(name, ARC) for name in ("asin", "acos")},
    **{name: _call(name, ANY) for name in ("abs", "floor", "ceil", "trunc", "round", "sign")},
    **{
        name: _many(name, ANY) for name in ("min", "max", "sum", "mean", "median", "stdev", "hypot")
    },
    **{name: _many(name, _whole(-10_000, 10_000)) for name in ("gcd", "lcm")},
    "mod": lambda rng: f"{ANY(rng)} mod {ABOVE_0(rng)}",
    "//": lambda rng: f"{ANY(rng)} // {ABOVE_0(rng)}",
    "!": lambda rng: f"{rng.randint(0, 30)}!",
}
SPECIAL = [
    *(f"{name}({15 * k}°)" for name in ("sin", "cos", "tan") for k in range(-24, 25)),
    *(f"{name}({k}*pi/12)" for name in ("sin", "cos") for k in range(-12, 13)),
    *(f"sqrt({n * n})" for n in range(101)),
    *(f"cbrt({n**3})" for n in range(-50, 51)),
    *(f"{name}({n})" for name in ("ln", "log", "log2") for n in range(1, 101)),
    *(
        f"{name}({sign}{x})"
        for name in ("exp", "sinh", "cosh", "tanh")
        for x in (0, 1)
        for sign in "+-"
    ),
    *(f"{name}({x})" for name in ("asin", "acos", "atan") for x in (-1, -0.5, 0, 0.5, 1)),
    *(f"ln(1{sign}0.{'0' * n}1)" for sign in "+-" for n in range(8)),
    *(f"tan(1.57{digits})" for digits in ("", "07", "0796", "079632", "1")),
    *(f"{base}^{x}" for base in (1, 2, 4, 10) for x in (-1.5, -0.5, 0, 0.5, 1.5)),
]


def alone(calculator: Calculator, text: str, places: int) -> float:
    """Returns the seconds that an expression takes by itself."""
    start = time.perf_counter()
    with suppress(ExpressionError):
        calculator.calculate(text, places)
    return time.perf_counter() - start


def measure(calculator: Calculator, texts: list[str], places: int) -> dict[str, Any]:
    """Returns how many results are right, the wrong ones, and what they take."""
    wrong: list[dict[str, Any]] = []
    refused: Counter[str] = Counter()
    operations, characters, seconds = [], [], 0.0
    for first in range(0, len(texts), BATCH):
        part = texts[first : first + BATCH]
        start = time.process_time()
        answers = calculator.calculate_batch(part, places)
        seconds += time.process_time() - start
        for text, answer in zip(part, answers, strict=True):
            if isinstance(answer, ExpressionError):
                refused[answer.reason] += 1
                continue
            operations.append(len(answer.nodes))
            characters.append(sum(len(node.output or "") for node in answer.nodes))
            if answer.result != answer.exact:
                row = {"result": answer.result, "right": answer.exact}
                wrong.append({"text": text, **row, "first_wrong": answer.errors[0]})
    n = len(texts) - refused.total()
    means = [round(statistics.mean(values or [0])) for values in (operations, characters)]
    return {
        "n": n,
        "wrong": len(wrong),
        "interval": wilson_interval(1 - len(wrong) / n, n) if n else None,
        "refused": dict(refused.most_common()),
        "operations": means[0],
        "characters": means[1],
        "seconds_each": seconds / len(texts),
        "seconds_alone": statistics.median(
            alone(calculator, text, places) for text in texts[:ALONE]
        ),
        "wrong_results": wrong[:SHOWN],
    }


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("names", nargs="*", metavar="NAME", help="default: all, and special")
    options.add_argument("--checkpoint", default="best")
    options.add_argument("--engine", default="native")
    options.add_argument("--n", type=positive, default=200)
    options.add_argument("--places", type=int, default=8)
    options.add_argument("--seed", type=int, default=0)
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    calculator = Calculator.load(arguments.checkpoint, arguments.engine)
    calculator.calculate("1+1")
    results: dict[str, dict[str, Any]] = {}
    names = arguments.names or [*FUNCTIONS, "special"]
    with progress_bar(len(names), desc="functions") as bar:
        for name in names:
            rng = random.Random(f"{name} {arguments.seed}")
            texts = (
                SPECIAL if name == "special" else [FUNCTIONS[name](rng) for _ in range(arguments.n)]
            )
            results[name] = measure(calculator, texts, arguments.places)
            bar.update(1)
    record = {
        "checkpoint": name_of(arguments.checkpoint),
        "engine": arguments.engine,
        "places": arguments.places,
        "seed": arguments.seed,
        "environment": environment(torch.device("cpu")),
        "results": results,
    }
    write(arguments.json, record)
    shown = ("n", "wrong", "operations", "characters")
    cells = [
        [
            name,
            *(row[key] for key in shown),
            f"{row['seconds_each']:.3f}",
            f"{row['seconds_alone']:.3f}",
            sum(row["refused"].values()),
        ]
        for name, row in results.items()
    ]
    print(text_table(("function", *shown, "s, many at once", "s, alone", "refused"), cells))


if __name__ == "__main__":
    run(main)
