"""The lines of docs/NOTATION.md, and of the modules of the operations, are what the code writes."""

import re
from pathlib import Path

import numpy as np
import pytest

from datagen import notation, operations
from datagen.arithmetic import answer
from datagen.distributions import distribution
from datagen.sampling import bit_generator
from datagen.slots import StepKind
from datagen.work import render, render_lines

PAGE = (Path(__file__).parents[3] / "docs" / "NOTATION.md").read_text("utf-8")
LINES = re.findall(r"^(\$\d*\(\S+)(?: +(.*))?$", PAGE, flags=re.M)


OPERATIONS = Path(operations.__file__).parent.glob("*.py")
EXAMPLES = [
    (line, "")
    for file in sorted(OPERATIONS)
    for line in re.findall(r"^(\$\d*\(\S+)$", file.read_text("utf-8"), flags=re.M)
]


@pytest.mark.parametrize(("line", "equation"), [*LINES, *EXAMPLES])
def test_every_line_is_what_the_code_writes(line: str, equation: str) -> None:
    prompt = line[: line.index("=") + 1]
    problem = notation.parse_prompt(prompt)
    has_work = line.count("=") == 2
    expected = render([prompt.encode()])[0].decode() if has_work else notation.render(problem)
    assert line == expected
    if equation:
        a, b = (notation.number_text(number) for number in (problem.a, problem.b))
        assert equation == f"{a} {problem.op} {b} = {notation.answer_text(answer(problem))}"


def test_no_line_is_missed() -> None:
    assert len(EXAMPLES) == 3
    assert len(LINES) == len(re.findall(r"^\$\d*\(", PAGE, flags=re.M)) > 12
    assert {line.count("=") for line, _ in LINES} == {1, 2}
    assert {line[1 : line.index("(")] for line, _ in LINES} == {"", "0", "8", "9", "12"}


def test_the_pieces_of_a_table_are_the_work() -> None:
    for title in ("Sums", "Quotients"):
        [text] = re.findall(rf"^### {title}\n(.*?)(?=^#|\Z)", PAGE, flags=re.M | re.S)
        [line] = re.findall(r"^(\$\S+)$", text, flags=re.M)
        cells = [row.split("|")[1] for row in text.splitlines() if row.startswith("| `")]
        pieces = "".join("".join(re.findall(r"`([^`]+)`", cell)) for cell in cells)
        assert line.split("=")[1] in (pieces, pieces + "+")  # the sign that ends it is left out


def test_the_mean_length_is_as_stated() -> None:
    [problems] = distribution("blog")(bit_generator(0, 0, 0), 20_000)
    lengths = [len(line) for line in render_lines(problems).splitlines()]
    assert 82 < np.mean(lengths) < 83
    assert "about 82 characters" in PAGE


def test_the_kinds_of_steps_are_all_there() -> None:
    section = PAGE.partition("## What the checker says")[2]
    kinds = re.findall(r"^\| ([a-z ]+) \|", section, flags=re.M)[1:]
    assert sorted(kinds) == sorted(StepKind)
