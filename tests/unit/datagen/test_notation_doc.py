"""The lines of docs/NOTATION.md, and of the modules of the operations, are what the code writes."""

import re
from pathlib import Path

import pytest

from datagen import notation, operations
from datagen.arithmetic import answer
from datagen.slots import StepKind
from datagen.work import render

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


def test_the_kinds_of_steps_are_all_there() -> None:
    section = PAGE.partition("## What the checker says")[2]
    kinds = re.findall(r"^\| ([a-z ]+) \|", section, flags=re.M)[1:]
    assert sorted(kinds) == sorted(StepKind)
