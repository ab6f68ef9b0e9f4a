"""The page reads and plans expressions as Python does, and its addresses keep their meaning."""

import os
import random
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from itertools import product
from typing import Any

from expressions import with_functions
from fake_decoder import right_with_work, wrong_at
from readings import rows
from real_numbers import HARD, IDENTITIES, UNDECIDED

from calcgpt.errors import ExpressionError
from calcgpt.inference.calculator import Computation
from calcgpt.inference.effort import Effort
from calcgpt.inference.expression_stack import Style
from calcgpt.inference.limits import MAX_SHOWN_WORK, ScratchpadLimits
from calcgpt.inference.spelling import MESSAGES
from datagen.arithmetic import answer
from datagen.notation import parse_prompt, render_answer
from datagen.operations import DIVISION
from tools.javascript.__main__ import ENGINE, files
from tools.node import in_node

LIMITS = ScratchpadLimits(block_size=4_096)
NUMBERS = (
    *("0", "1", "2", "3", "7", "10", "25", "100", "0.5", ".25", "12.50", "1,234", "12,34,567"),
    *("12,5", "0,125", "1.234,5", "1.000.000", "1 000", "1'000", "1e3", "2.5e-6", "1e-31", "3E2"),
    *("1 1/2", "2⁄3", "1½", "½", "3(3/4)", "1 100/200", "twelve", "twenty-five", "two hundred"),
    *("five million", "٣٫٥", "１２", "17:00", "0x10", "0·5", "1_0", "1.2.3", "9" * 45, "5²", "2⁻¹"),
)
SIGNS = (
    *("+", "-", "*", "/", "^", "**", "//", "×", "÷", "—", "–", ":", "⁄", "x", "%", " % ", "·", "!"),
    *(
        " choose ",
        " plus ",
        " minus ",
        " times ",
        " over ",
        " divided by ",
        " mod ",
        " to the power of ",
    ),
    *(" of ", " off ", "% of ", "% off ", " and ", " squared", " cubed", "%", "+15%", "-10%", " "),
)
AROUND = (
    *("(", ")", "[", "]", "|", "-", "+", "=", "?", ",", ";", "$", " €", "#", "√", "\x00", "😀"),
    *("what is ", "please ", " to 4 places", " to the nearest integer", "half of ", "sum of "),
    *(
        "average of ",
        ", and ",
        "(-8)^",
        "subtract ",
        " from ",
        "the ",
        "\u00a0",
        "\u200b",
        "\x85",
        "km",
        "sqrt",
        "ans",
        "_",
    ),
)
# Computes what `calculated` returns, on the page's side, and what a link to it asks.
CALCULATE = """async (asked) => {
    const { Computation, limitsOf } = await import("/static/engine/computation.js");
    const { DEFAULT_STATE, formatHash, parseHash } = await import("/static/address.js");
    const limits = limitsOf("+-*/", 4096);
    const begin = (text, options) =>
        new Computation(text, { model: "model", limits, ...options });
    const link = (question) => parseHash(formatHash({ ...DEFAULT_STATE, question })).question;
    return asked.map(([text, options, outputs]) => {
        try {
            const computation = begin(text, options);
            for (const question of computation.questions()) {
                const output = outputs[question.prompt] ?? "$";
                const probabilities = Array.from(output, (_, at) => 1 - at / 1024);
                computation.answer(question, output, probabilities);
            }
            const outline = computation.outline.map((span) => Object.values(span));
            const linked = begin(link(text), options).expression;
            return { ...computation.calculation(), outline, linked };
        } catch (error) {
            if (!error.kind) throw error;
            const { kind, message, position, end } = error;
            return { kind, message, position, end };
        }
    });
}"""


def calculated(
    text: str, options: dict[str, Any], write: Callable[[str], str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the result for what `write` makes of prompts, or the error, and what it made."""
    names = ("percent", "decimal_comma", "angle")
    style = Style(**{name: options[name] for name in names if name in options})
    outputs: dict[str, str] = {}
    try:
        with Effort().measured():
            asked = Computation(text, "model", LIMITS, options.get("places"), MAX_SHOWN_WORK, style)
    except ExpressionError as error:
        place = {"position": error.position, "end": error.end}
        return {"kind": error.kind.value, "message": error.reason, **place}, {}
    while questions := asked.questions():
        for node, _, _, prompt in questions:
            outputs[prompt] = output = write(prompt)
            asked.answer(node, output, [1 - at / 1024 for at in range(len(output))])
    result = asked.calculation().model_dump(mode="json")
    outline = [[*span.model_dump(mode="json").values()] for span in asked.outline]
    return result | {"outline": outline, "linked": result["expression"]}, outputs


def right(prompt: str) -> str:
    return f"{render_answer(answer(parse_prompt(prompt)))}$"


N_DRAWN = int(os.environ.get("EXPRESSIONS", 1_000))  # `make soak` tries more


def drawn(n: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields random texts, most of them nearly right, with options."""
    draw = random.Random(0)
    for _ in range(n):
        parts = [draw.choice(NUMBERS)]
        for _ in range(draw.randint(0, 4)):
            parts += [draw.choice(SIGNS), draw.choice(NUMBERS)]
        for _ in range(draw.choice([0, 0, 1, 1, 2])):
            parts.insert(draw.randint(0, len(parts)), draw.choice(AROUND))
        options = {
            "percent": draw.choice(["relative", "plain"]),
            "decimal_comma": draw.random() < 0.2,
            "places": draw.choice([None, None, draw.randint(0, 30)]),
        }
        yield "".join(parts), options


def drawn_with_functions(n: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields random texts with functions, with options."""
    draw = random.Random(0)
    for _ in range(n):
        options = {
            "angle": draw.choice(["radians", "degrees"]),
            "decimal_comma": draw.random() < 0.1,
            "places": draw.choice([None, None, draw.randint(0, 30)]),
        }
        yield with_functions(draw, draw.choice([1, 1, 2, 3])), options


def test_what_the_page_has_from_python_is_up_to_date() -> None:
    for name, text in files().items():
        assert (ENGINE / name).read_text("utf-8") == text, f"{name}: run `make tables`"


def test_the_page_reads_and_plans_what_python_does() -> None:
    table = [(row.typed, parsed_options(row.options)) for row in rows()]
    table += [(text, {}) for text in (*IDENTITIES, *HARD, *UNDECIDED)]  # decided by theorems
    texts = [*table, *drawn(N_DRAWN), *drawn_with_functions(N_DRAWN // 4)]
    expected = [calculated(text, options, right) for text, options in texts]
    asked = [[*item, outputs] for item, (_, outputs) in zip(texts, expected, strict=True)]
    found = in_node(CALCULATE, asked)
    n_long = 0
    for index, (wanted, _), there in zip(range(len(texts)), expected, found, strict=True):
        if there != wanted and index >= len(table):
            # The page gives up sooner, where Python finds that it is too long to write.
            assert (there["message"], "kind" in wanted) == (MESSAGES["effort"], True), texts[index]
            n_long += 1
        else:
            assert there == wanted, texts[index]
    assert n_long < len(texts) // 100
    read = ["exact" in wanted for wanted, _ in expected]
    assert sum(read[: -N_DRAWN // 4]) > N_DRAWN // 5
    assert sum(read[-N_DRAWN // 4 :]) > N_DRAWN // 8


def parsed_options(options: str) -> dict[str, Any]:
    """Returns the options of a row of the table in the form of the API."""
    named = dict(option.partition("=")[::2] for option in options.split())
    places = int(named["places"]) if "places" in named else None
    return {**named, "places": places, "decimal_comma": "decimal_comma" in named}


TYPED = (
    *("7", "1/3", "7.5% of 200", "10/3*6", "-(2/3)", "1.05^3", "2^-3", "1/3-1/3", "1/3*3+0.5"),
    *("1.035^10*1000000", "1/(0.004*0.5)", "100000/3*3", "999999.5/3+1", "17//-5", "-10 mod 3"),
    *("5!", "|3-5|", "100-10%", "3(3/4)", "2^3^2", "(1+2)*(3/7)", "1/3 to 4 places", "1/0"),
    *("12345678901234*2", "1/12345678901234", "0.123456789+1", "1e12*1e12*1e12", "0.00001*0.00001"),
    *("9" * 60 + "*" + "9" * 60, "9" * 101 + "+1", "12345.67*3", "1/7+1/11", "300!/298!", "2/3*30"),
)


def unfinished(write: Callable[[str], str], prompt: str) -> str:
    return write(prompt)[:-1]


def test_the_page_gives_the_whole_result_that_python_gives() -> None:
    """Whatever the model writes."""
    expected, asked = [], []
    usual = lru_cache(None)(right_with_work)
    writers = (usual, wrong_at(DIVISION, usual), partial(unfinished, usual))
    asked_places = [(None, write) for write in writers] + [(0, usual), (12, usual)]
    for text, (places, write) in product(TYPED, asked_places):
        options = {"places": places}
        result, outputs = calculated(text, options, write)
        expected.append(result)
        asked.append((text, options, outputs))
    for item, wanted, found in zip(asked, expected, in_node(CALCULATE, asked), strict=True):
        assert found == wanted, item[:2]
    kinds = {result.get("kind") for result in expected}
    assert kinds >= {None, "out-of-range", "division-by-zero"}
    assert {result["verified"] for result in expected if "verified" in result} == {False, True}
