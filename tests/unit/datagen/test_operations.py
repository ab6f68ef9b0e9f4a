"""An operation of a user's own, in one file."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from calcgpt.base.errors import ConfigError
from datagen import operations
from datagen.layout_check import STATED
from datagen.slots import N_KINDS, Kind

GUIDE = (Path(__file__).parents[3] / "docs" / "guide" / "data.md").read_text("utf-8")
[APART] = re.findall(r"^cat > data/apart.py <<'END'\n(.*?)^END$", GUIDE, flags=re.M | re.S)
PROGRAM = """
from calcgpt.inference.calculator import Computation
from calcgpt.inference.limits import DirectLimits
from datagen.notation import ALPHABET, parse, render

[question] = Computation("-3.5 apart from 12", "mine", DirectLimits()).questions()
line = "$(000000-3.5~0000000012)=5.51000000$"
assert question.prompt == line[:-11] and render(question.problem) == line
assert parse(line) == question.problem and "~" in ALPHABET
computation = Computation("2*(1/2 ~ 3)", "mine", DirectLimits())
assert computation.plan.rounded == 5 and computation.expression == "2*(1/2~3)"
computation = Computation("3 ~ 5", "mine", DirectLimits(), proved=True)
[question] = computation.questions()
node = computation.answer(question.node, "0.20000000$", [1.0] * 11)
assert not node.proved  # nobody has stated what its layouts read
"""


# A @ B is A. It has worked steps, whose kinds stand beside others of the work.
WORKED = """
from datagen.operations.base import Operation
from datagen.operations.parts import A_KINDS, copies, operand_sign
from datagen.rules import constant, copy
from datagen.slots import LOWEST, Kind, StepKind

MARK, DIGIT = Kind(62), Kind(63)


def layout(plan, shape, question):
    plan.put(MARK, 0, 0, [question.a.sign])
    sign = operand_sign(plan, Kind.A_SIGN, question.a, [])
    row = copies(plan, question.a, -shape.a_places, shape.a_digits, A_KINDS)
    plan.put(Kind.RESULT_MARK)
    plan.result = [plan.put(DIGIT, 0, LOWEST + i, [at]) for i, at in enumerate(row)]
    plan.result_places = shape.a_places
    plan.sign = plan.put(Kind.SIGN, 0, 0, [sign, sign])


OPERATION = Operation(
    sign="@",
    name="first",
    symbol="@",
    spellings=("@",),
    rank=1,
    exact=lambda a, b, unit: (a, unit),
    layout=layout,
    length=lambda shape: 2 * shape.a_digits + 4,
    rules={StepKind.LAYOUT: {MARK: constant(";")}, StepKind.OPERAND: {DIGIT: copy}},
)
"""
WORK = """
from datagen.layout import layout, require_shape, work_length
from datagen.layout_check import checked_layout
from datagen.work import render
from datagen.work_errors import first_error_of_completion

for prompt, text in {
    "$(0000012.25@0000000003)=": ";+5221:5221+=52.2100000$",
    "$9(1234567891@0000000003)=": ";+1987654321:1987654321+=1987654321$",
}.items():
    [line] = render([prompt.encode()])
    assert line.decode() == prompt + text, line
    assert first_error_of_completion(prompt, text) is None
    assert first_error_of_completion(prompt, text.replace("5", "6", 1)).position == text.index("5")
    shape = require_shape(prompt)
    assert len(checked_layout(shape)) == len(layout(shape)) == work_length(shape)
"""


@pytest.mark.parametrize(("source", "program"), [(APART, PROGRAM), (WORKED, WORK)])
def test_an_operation_is_one_file(source: str, program: str, tmp_path: Path) -> None:
    """That of the guide is read, written, valued and planned like any other; one with worked steps
    has lines, and wrong steps are found."""
    (tmp_path / "mine.py").write_text(source)
    environment = {**os.environ, "CALCGPT_OPERATIONS": str(tmp_path / "mine.py")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_what_is_proved_is_stated_of_the_packages_own_operations() -> None:
    assert "".join(operations._OWN) == STATED


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("", "has no OPERATION"),
        ("OPERATION = '~'", "has no OPERATION"),
        ("from datagen.operations import ADDITION as OPERATION", r"the sign '\+' cannot be used"),
        ("OPERATION = 1 / 0", r"failed with ZeroDivisionError.*mine.py, line 1"),
    ],
)
def test_a_file_without_an_operation_is_refused(
    source: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(source)
    monkeypatch.setenv("CALCGPT_OPERATIONS", str(tmp_path / "mine.py"))
    with pytest.raises(ConfigError, match=reason):
        list(operations._outside("+"))


def test_an_operation_may_have_kinds_of_its_own() -> None:
    free = Kind(len(Kind))
    assert (free.name, free is Kind(len(Kind)), free in list(Kind)) == ("OUTSIDE_59", True, False)
    for number in (-1, N_KINDS, "59"):
        with pytest.raises(ValueError, match="is not a valid Kind"):
            Kind(number)
