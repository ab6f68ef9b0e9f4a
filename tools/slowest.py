"""Which texts take longest to read and plan: long ones, of a few fragments that are repeated.

    python -m tools.slowest [--texts 20000] [--page 2000] [--length 10000] [--json FILE]

Times reading and planning, and in Node the page's reading, with texts of --length characters. Each
is a fragment, some in turn, openings that are nested, or a mixture of all spellings. Prints the
slowest. Most long texts are refused as they are read; of shorter ones, more are planned.
"""

import argparse
import random
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from calcgpt.base.files import write_json
from calcgpt.errors import ExpressionError
from calcgpt.inference import spelling
from calcgpt.inference.calculator import Computation
from calcgpt.inference.effort import Effort
from calcgpt.inference.limits import ScratchpadLimits
from tools.node import in_node

LIMITS = ScratchpadLimits(block_size=32_768)
OPENINGS = (("(", ")"), ("-(", ")"), ("|", "|"), ("1-(", ")"), ("1,", ""), ("max(1,", ")"))
FRAGMENTS = (
    *(*spelling.OPERATIONS, *spelling.POSTFIXES, *spelling.FACTORS, *spelling.LEADING),
    *(*spelling.TRAILING, *spelling.NUMBER_WORDS, *spelling.SCALES, *spelling.VULGAR),
    *(*spelling.SUPERSCRIPTS, *spelling.CURRENCIES, *spelling.FUNCTIONS, *spelling.CONSTANTS),
    *(pair.rpartition(" ")[0] for pair in spelling.PAIRS),
    *("and", "to", "from", "by", "of", "off", "the", "-", "+", "(", ")", "|", ",", ";", "=", "?"),
    *(" ", "  ", "\u00a0", "_", "'", ".", ":", "%", " % ", "1", "12", "0.5", "1,", "1,000", "12,5"),
    *(",234", ".234", " 234", "_234", "1.000,5", "1e3", "0e-9999", "1e9990", "1e-9990", "1 1/2"),
    *("(1/2)", "5%", "+5%", "-5%", "^2", "^", "2^", "1/", "17:00", "2024-01-15", "ans", "x", "n1"),
    *("a", "😀", "1 ", "1+", "1-", "2*", "1//", "1 of ", "to 4 places", "rounded", "10% off "),
    "\x00",
)
OPERANDS = (
    *("1", "12.5", "1,234", "0,5", "5%", "½", "1 1/2", "twenty-five", "2(3/4)", "|2|", "(3)", "3!"),
    *("√2", "sin 2", "sin(30)", "max(1,2)", "2²", "pi", "-1", "--1", "1e5", "0e-9999", "5°"),
    *("log 2(8)", "sum of 1 and 2", "half of 3", "20% off 5", "(-8)^(1/3)", "$5", "9" * 40),
)
OPERATORS = (*"+-*/^×:—", " mod ", "//", " of ", " plus ", " choose ", " % ", "%", "+5%-", "**")


class Recipe(NamedTuple):
    """How a long text is made: `unit` and `closing` are repeated, on both sides of `core`."""

    before: str
    unit: str
    core: str
    closing: str
    after: str

    def text(self, length: int) -> str:
        """Returns a text of about this length."""
        fixed = len(self.before + self.core + self.after)
        n = max(1, (length - fixed) // len(self.unit + self.closing))
        return f"{self.before}{self.unit * n}{self.core}{self.closing * n}{self.after}"[:length]


def recipe(draw: random.Random) -> Recipe:
    """Returns a random recipe."""
    n = draw.choice([1, 1, 2, 2, 3, 4, 200])
    unit, closing = "".join(draw.choices(FRAGMENTS, k=n)), ""
    if draw.random() < 0.5:  # most are read to the end
        unit = "".join(draw.choice(OPERANDS) + draw.choice(OPERATORS) for _ in range(n))
    if draw.random() < 0.4:
        opening, closing = draw.choice(OPENINGS)
        unit = draw.choice([opening, unit + opening])
        unit += draw.choice(["", draw.choice(FRAGMENTS)])
    before, core, after = (
        "".join(draw.choices(FRAGMENTS, k=draw.choice([0, 0, 1, 2]))) for _ in range(3)
    )
    return Recipe(before, unit, draw.choice(["", "1", core]), closing, after)


def seconds(text: str) -> float:
    """Returns the seconds of a core that Python takes to read and plan a text."""
    start = time.process_time()
    with suppress(ExpressionError), Effort().measured():
        Computation(text, "", LIMITS)
    return time.process_time() - start


ON_PAGE = """async (texts) => {
    const { parse } = await import("/static/engine/expression.js");
    return texts.map((text) => {
        const start = performance.now();
        try {
            parse(text);
        } catch (error) {
            if (!error.kind) throw error;
        }
        return (performance.now() - start) / 1000;
    });
}"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--texts", type=int, default=20_000)
    options.add_argument("--page", type=int, default=2_000, help="texts for the page")
    options.add_argument("--length", type=int, default=spelling.MAX_LENGTH)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--json", type=Path, help="also write the results to this file")
    arguments = options.parse_args()
    draw = random.Random(arguments.seed)
    recipes = [recipe(draw) for _ in range(arguments.texts)]
    texts = [made.text(arguments.length) for made in recipes]
    times = {"python": [seconds(text) for text in texts]}
    if arguments.page:
        times["page"] = in_node(ON_PAGE, texts[: arguments.page])
    report = {}
    for name, taken in times.items():
        slowest = sorted(zip(taken, recipes, strict=False), reverse=True)[:10]
        report[name] = {"texts": len(taken), "slowest": slowest, "mean": sum(taken) / len(taken)}
        print(f"{name}: {len(taken):,} texts, {report[name]['mean']:.6f} s on average")
        for duration, made in slowest:
            print(f"  {duration:.4f} s {str(made)[:200]}")
    if arguments.json:
        write_json(arguments.json, report)


if __name__ == "__main__":
    main()
