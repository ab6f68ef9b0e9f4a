"""What the page claims of its model is what was measured."""

import re
from pathlib import Path

from calcgpt.base.errors import DataError
from calcgpt.base.files import read_json
from calcgpt.inference.exact import evaluate
from calcgpt.inference.expression import parse

ROOT = Path(__file__).parents[2]
PAGE = re.sub(r"\s+", " ", (ROOT / "api" / "static" / "index.html").read_text("utf-8"))


def test_the_claims_of_the_page_are_measured() -> None:
    metrics = read_json(ROOT / "checkpoints" / "calculator" / "metrics.json", DataError)
    parameters, minutes = f"{metrics['parameters']:,}", round(metrics["seconds"] / 60)
    assert f"{parameters} numbers, trained in {minutes} minutes on one CPU core, tried" in PAGE
    cases = metrics["cases"]
    assert cases["wrong"] == 0
    assert f"There are {cases['n']:,} cases, and the model is right in each." in PAGE
    assert PAGE.count(parameters) == 3  # two of them for previews of links


def test_no_example_is_a_tie_of_two_places() -> None:
    """*Watch it learn* has models of two places. At a tie, the even digit looks like a mistake."""
    examples = re.findall(r'class="chip">([^<]+)<', PAGE)
    assert len(examples) > 5
    for example in examples:
        if example[0] in "(0123456789":
            exact = evaluate(parse(example).expression)[-1].exact
            assert (exact * 100).denominator != 2, example
