"""What the page claims of its model is what was measured."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from calcgpt.errors import DataError
from calcgpt.inference.exact import evaluate
from calcgpt.inference.expression import parse
from datagen.distributions import distribution
from datagen.files import read_json

ROOT = Path(__file__).parents[2]
CHECKPOINT = ROOT / "checkpoints" / "calculator"
PAGE = re.sub(r"\s+", " ", (ROOT / "api" / "static" / "index.html").read_text("utf-8"))
DRAWN = 20_000  # problems
SMALL = ("none", "one", "two", "three", "four", "five")


def totals(*files: str) -> tuple[int, int]:
    counts: list[dict[str, Any]] = [
        row
        for file in files
        for row in read_json(ROOT / "docs" / "results" / file, DataError)["results"].values()
    ]
    return sum(c["n"] for c in counts), sum(c["wrong"] for c in counts)


def test_the_claims_of_the_page_are_measured() -> None:
    metrics = read_json(CHECKPOINT / "metrics.json", DataError)
    digits = read_json(CHECKPOINT / "config.json", DataError)["domain"]["digits"]
    [drawn] = distribution("texture")(np.random.PCG64(0), DRAWN)  # no other has longer numbers
    longest = max(len(str(abs(p.a.units))) for p in drawn.to_problems())
    minutes = round(metrics["seconds"] / 60)
    assert (
        f"{metrics['parameters']:,} numbers, trained in {minutes} minutes on one CPU core."
        f" Saw {longest} digits, calculates {digits}." in PAGE
    )
    n, wrong = totals("calculator-sets.json", "calculator-tricky-12.json")
    n_hard, wrong_hard = totals("calculator-adversarial.json", "calculator-adversarial-2.json")
    assert f"Of {n:,} test problems it gets {SMALL[wrong]} wrong" in PAGE
    assert f"of {n_hard:,} that are made to break it, {SMALL[wrong_hard]}." in PAGE
    assert (
        f"{n_hard:,} such problems before this page went out, and got {SMALL[wrong_hard]}" in PAGE
    )
    assert PAGE.count(f"{metrics['parameters']:,}") == 3  # two of them for previews of links


def test_no_example_is_a_tie_of_two_places() -> None:
    """*Watch it learn* has models of two places. At a tie, the even digit looks like a mistake."""
    examples = re.findall(r'class="chip">([^<]+)<', PAGE)
    assert len(examples) > 5
    for example in examples:
        if example[0] in "(0123456789":
            exact = evaluate(parse(example).expression)[-1].exact
            assert (exact * 100).denominator != 2, example
