"""How exact the functions of the calculator are, by two libraries that do not know each other.

    python -m tools.functions [--checkpoint NAME] [--engine NAME] [--n N] [--asked N] [--places P]
        [--seed S] [--json FILE] [NAME ...]

Of each function, of `hard` and of `compositions`, N expressions are evaluated. `hard` are functions
of arguments within 10^-1 to 10^-300 of where their values are rational, on both sides. The value
must be what mpmath and Arb both give with 3,000 digits, or the calculator must say that it is
undecided. The first `--asked` expressions of each are also answered by the model, unless that takes
more characters than a model may write. Whatever is wrong or undecided is listed.
"""

import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import mpmath
import torch
from flint import arb, ctx, fmpq

from benchmarks.measure import environment, parser, positive, run, write
from calcgpt.base.progress import progress_bar
from calcgpt.errors import ExpressionError, ExpressionErrorKind
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.exact import evaluate, plain_text, round_to, value_of_number
from calcgpt.inference.expression import parse
from calcgpt.inference.expression_tree import Expression, fold
from calcgpt.inference.real import UndecidedError
from calcgpt_lab.tables import text_table
from tools.exactness import name_of

Draw = Callable[[random.Random], str]
DIGITS = 3_000  # of the oracles: a value near a rational one may differ in the 1,000th
MOST = 300  # the exponent of the smallest distance from a rational value
SHOWN = 20  # expressions of each kind that are listed

mp = mpmath.mp.clone()
mp.dps = DIGITS


def _number(least: float, most: float, signed: bool = False) -> Draw:
    """Draws numbers whose magnitudes are of any size from `least` to `most`, with 0 to 4 places."""

    def draw(rng: random.Random) -> str:
        size = least * (most / least) ** rng.random()
        sign = "-" if signed and rng.random() < 0.5 else ""
        return f"{sign}{size:.{rng.randint(0 if size >= 1 else 4, 4)}f}"

    return draw


def _whole(least: int, most: int) -> Draw:
    return lambda rng: str(rng.randint(least, most))


ANY, ABOVE_0 = _number(1e-4, 1e4, signed=True), _number(1e-4, 1e4)
SMALL, ARC = _number(1e-3, 120, signed=True), _number(1e-4, 1, signed=True)
#: Function -> how its arguments are drawn.
ARGUMENTS: dict[str, Sequence[Draw]] = {
    "sqrt": (ABOVE_0,),
    "cbrt": (ANY,),
    "root": (ABOVE_0, _whole(2, 12)),
    "pow": (ABOVE_0, _number(0.01, 30, signed=True)),
    **dict.fromkeys(("exp", "sinh", "cosh", "tanh"), (SMALL,)),
    **dict.fromkeys(("ln", "log", "log2"), (ABOVE_0,)),
    **dict.fromkeys(("sin", "cos", "tan", "atan"), (ANY,)),
    **dict.fromkeys(("asin", "acos"), (ARC,)),
    "atan2": (ANY, ANY),
    "hypot": (ANY, ANY),
    "stdev": (ANY, ANY, ANY),
    "gamma": (lambda rng: f"{rng.randint(-8, 40)}.5",),
}
#: Function -> points where its value is rational, and what the value is multiplied by there.
POINTS: dict[str, Sequence[str]] = {
    "sqrt": ("4", "2.25", "10^20"),
    "cbrt": ("8", "0.001", "-27"),
    "exp": ("0", "ln(2)", "2*ln(3)"),
    "ln": ("1", "e", "e^3", "1/e"),
    "log": ("1000", "0.01", "1"),
    "log2": ("8", "0.25"),
    "sin": ("0", "pi/6", "pi/2", "5*pi"),
    "cos": ("0", "pi/3", "pi/2", "10*pi"),
    "tan": ("0", "pi/4", "3*pi/4"),
    "asin": ("0", "0.5", "-0.5"),
    "acos": ("0.5", "0"),
    "atan": ("0", "1", "-1"),
    "sinh": ("0", "ln(2)"),
    "cosh": ("0", "ln(2)"),
    "tanh": ("0", "ln(2)", "400"),
}


def _call(name: str) -> Draw:
    return lambda rng: f"{name}({', '.join(draw(rng) for draw in ARGUMENTS[name])})"


def _hard(rng: random.Random) -> str:
    """Draws a decision about a function beside a point where its value is rational."""
    name = rng.choice(sorted(POINTS))
    point, k = rng.choice(POINTS[name]), rng.randint(1, MOST)
    value = f"{name}({point}{rng.choice('+-')}{rng.randint(1, 9)}*10^-{k})"
    if name in ("asin", "acos", "atan"):  # rational are these parts of pi
        value = f"12*{value}/pi"
    step = rng.choice(("floor({}*36)", "ceil({}*36)", "round({}*18)", "{}*12 mod 1", "{}"))
    return step.format(value)


_FORMS = (
    *("sin({})", "cos({})", "atan({})", "tanh({})", "sqrt|{}|", "ln(1+|{}|)", "cbrt({})"),
    *("exp(sin({}))", "(1+|{}|)^0.3", "1/(1+|{}|)", "asin(sin({}))", "cosh(cos({}))"),
)


def _composition(rng: random.Random, depth: int = 2) -> str:
    """Draws a composition of functions that has a value everywhere."""
    if not depth or rng.random() < 0.2:
        return f"({ANY(rng)})" if rng.random() < 0.8 else rng.choice(("pi", "e", "phi"))
    if rng.random() < 0.6:
        return rng.choice(_FORMS).format(_composition(rng, depth - 1))
    both = (_composition(rng, depth - 1), _composition(rng, depth - 1))
    return rng.choice(("({}+{})", "({}-{})", "({}*{})", "hypot({}, {})")).format(*both)


CLASSES: dict[str, Draw] = {
    **{name: _call(name) for name in ARGUMENTS},
    "hard": _hard,
    "compositions": _composition,
}

# The oracles: each is a module of functions of the names of the calculator's.
_OF_MPMATH: dict[str, Callable[..., Any]] = {
    "!": mp.factorial,
    "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "root": lambda x, n: mp.root(x, int(n)),
    "log": mp.log10,
    "log2": lambda x: mp.log(x, 2),
    "ceil": mp.ceil,
    "round": mp.nint,
    "^": lambda x, y: x ** int(y) if y == int(y) else x**y,
    "stdev": lambda *x: mp.sqrt(mp.fsum((a - mp.fsum(x) / len(x)) ** 2 for a in x) / (len(x) - 1)),
}
_OF_ARB: dict[str, Callable[..., Any]] = {
    "!": lambda n: (n + 1).gamma(),
    "ln": lambda x: x.log(),
    "cbrt": lambda x: -(-x).root(3) if x < 0 else x.root(3),
    "root": lambda x, n: x.root(int(n.unique_fmpz())),
    "log": lambda x: x.log() / arb(10).log(),
    "log2": lambda x: x.log() / arb(2).log(),
    "atan2": lambda y, x: arb.atan2(y, x),
    "hypot": lambda a, b: (a * a + b * b).sqrt(),
    "round": lambda x: (x + arb(0.5)).floor(),
    "^": lambda x, y: x ** y.unique_fmpz() if y.is_integer() else x**y,
    "stdev": lambda *x: (sum((a - sum(x) / len(x)) ** 2 for a in x) / (len(x) - 1)).sqrt(),
}
_CONSTANTS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "pi": (lambda: +mp.pi, arb.pi),
    "e": (lambda: +mp.e, arb.const_e),
    "phi": (lambda: +mp.phi, lambda: (1 + arb(5).sqrt()) / 2),
}


def by_mpmath(node: Expression, operands: list[Any]) -> Any:
    """Returns the value of a node by mpmath."""
    if not node.sign:
        value = value_of_number(node.number)
        return mp.mpf(value.numerator) / value.denominator
    if node.sign in _CONSTANTS:
        return _CONSTANTS[node.sign][0]()
    if node.sign.endswith("°"):
        name, operands = node.sign[:-1], [mp.radians(operands[0])]
        return getattr(mp, name)(*operands) if name else operands[0]
    function = _OF_MPMATH.get(node.sign) or _COMMON.get(node.sign)
    return (function or getattr(mp, node.sign))(*operands)


def by_arb(node: Expression, operands: list[arb]) -> arb:
    """Returns a ball with the value of a node by Arb."""
    if not node.sign:
        value = value_of_number(node.number)
        return arb(fmpq(value.numerator, value.denominator))
    if node.sign in _CONSTANTS:
        return arb(_CONSTANTS[node.sign][1]())
    if node.sign.endswith("°"):
        turns = operands[0] / 180 * arb.pi()
        return arb(getattr(turns, node.sign[:-1])()) if node.sign[:-1] else turns
    function = _OF_ARB.get(node.sign) or _COMMON.get(node.sign)
    result: arb = (function or getattr(arb, node.sign))(*operands)
    return result


_COMMON: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "||": abs,
    "mod": lambda a, b: a - b * (a / b).floor() if isinstance(a, arb) else a - b * mp.floor(a / b),
}


def oracle(text: str, places: int) -> str | None:
    """Returns the value of a text, rounded to decimal places, by two libraries; None if they differ
    or one does not see how to round it."""
    root = parse(text).expression
    unit = mp.mpf(10) ** places
    number = fold(root, by_mpmath) * unit
    if abs(mp.frac(abs(number)) - 0.5) < mp.mpf(10) ** -(DIGITS // 2):
        return None
    with ctx.workprec(int(3.33 * DIGITS)):
        ball = fold(root, by_arb) * arb(10) ** places
        nearest = (ball + arb(0.5)).floor().unique_fmpz()
    units = int(mp.nint(number))
    if nearest is None or int(nearest) != units:
        return None
    return plain_text(round_to(Fraction(units, 10**places), places))


def measure(calculator: Calculator, texts: list[str], places: int, asked: int) -> dict[str, Any]:
    """Returns how many values are right, and how many answers of the model."""
    wrong, wrong_answers = list[dict[str, Any]](), list[dict[str, Any]]()
    undecided: list[str] = []
    operations, characters, seconds = [], [], []
    refused: Counter[str] = Counter()
    for n, text in enumerate(texts):
        right, value = oracle(text, places), _value(text, places)
        if value is None or right is None:
            undecided.append(text)
            continue
        if right != value:
            wrong.append({"text": text, "value": value, "right": right})
        try:
            computation = calculator.begin(text, places)
        except ExpressionError as error:
            refused[error.kind] += 1
            continue
        operations.append(len(computation.outline))
        characters.append(computation.n_characters)
        if n < asked:
            start = time.perf_counter()
            answer = calculator.calculate(text, places)
            seconds.append(time.perf_counter() - start)
            if answer.result != value:
                found = {"result": answer.result, "right": value, "why": answer.errors[0]}
                wrong_answers.append({"text": text, **found})
    return {
        "n": len(texts),
        "wrong": len(wrong),
        "undecided": len(undecided),
        "refused": dict(refused.most_common()),
        "asked": len(seconds),
        "wrong_answers": len(wrong_answers),
        "seconds": statistics.median(seconds or [0]),
        "operations": round(statistics.mean(operations or [0])),
        "characters": round(statistics.mean(characters or [0])),
        "wrong_values": [*wrong, *wrong_answers][:SHOWN],
        "undecided_texts": undecided[:SHOWN],
    }


def _value(text: str, places: int) -> str | None:
    """Returns the value of a text, rounded; None if that is undecided."""
    try:
        value = evaluate(parse(text).expression)[-1]
        return plain_text(round_to(value.rounded(places), places))
    except (ExpressionError, UndecidedError) as error:
        if isinstance(error, UndecidedError) or error.kind is ExpressionErrorKind.UNDECIDED:
            return None
        raise


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    options.add_argument("--checkpoint", default="best")
    options.add_argument("--engine", default="auto")
    options.add_argument("--n", type=positive, default=100)
    options.add_argument("--asked", type=int, default=20)
    options.add_argument("--places", type=int, default=8)
    options.add_argument("--seed", type=int, default=0)
    arguments = options.parse_args()
    torch.set_num_threads(arguments.threads)
    calculator = Calculator.load(arguments.checkpoint, arguments.engine)
    results: dict[str, dict[str, Any]] = {}
    names = arguments.names or [*CLASSES]
    with progress_bar(len(names), desc="functions") as bar:
        for name in names:
            rng = random.Random(f"{name} {arguments.seed}")
            texts = [CLASSES[name](rng) for _ in range(arguments.n)]
            results[name] = measure(calculator, texts, arguments.places, arguments.asked)
            bar.update(1)
    record = {
        "checkpoint": name_of(arguments.checkpoint),
        "engine": arguments.engine,
        "places": arguments.places,
        "seed": arguments.seed,
        "environment": environment(torch.device("cpu"), "mpmath", "python-flint"),
        "results": results,
    }
    write(arguments.json, record)
    shown = ("n", "wrong", "undecided", "asked", "wrong_answers", "operations", "characters")
    cells = [
        [name, *(row[key] for key in shown), sum(row["refused"].values()), f"{row['seconds']:.3f}"]
        for name, row in results.items()
    ]
    print(text_table(("class", *shown, "too long", "seconds"), cells))


if __name__ == "__main__":
    run(main)
