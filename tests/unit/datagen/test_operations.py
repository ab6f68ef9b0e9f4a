"""An operation of a user's own, in one file."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from calcgpt.base.errors import ConfigError
from datagen import operations
from datagen.slots import N_KINDS, Kind

GUIDE = (Path(__file__).parents[3] / "docs" / "guide" / "data.md").read_text("utf-8")
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
"""


def test_an_operation_is_one_file(tmp_path: Path) -> None:
    """That of the guide: it is read, written, valued and planned like any other."""
    [source] = re.findall(r"^cat > data/apart.py <<'END'\n(.*?)^END$", GUIDE, flags=re.M | re.S)
    (tmp_path / "apart.py").write_text(source)
    environment = {**os.environ, "CALCGPT_OPERATIONS": str(tmp_path / "apart.py")}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


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
