"""The notebook of the guide runs from top to bottom; here with three steps of training."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed: the extra `lab` installs it")

NOTEBOOK = Path(__file__).parents[2] / "docs" / "guide" / "adder.ipynb"

TINY = ["train.steps=3", "train.eval_problems=5", "model.block_size=144", "train.log_interval=1"]


def test_the_notebook_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in cells if cell["cell_type"] == "code")
    program = "\n".join(code).replace("%matplotlib inline", "")  # the only line for notebooks alone
    usual, tiny = 'load_recipe("adder")', f'load_recipe("adder", {TINY})'
    assert usual in program
    program = program.replace(usual, tiny)
    script = tmp_path / "notebook.py"
    script.write_text(program, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names = runpy.run_path(str(script))
    assert names["inspection"].answer.expression == "78+345"
    assert names["folder"] == Path("runs/adder/step-00000003")
    # A model of three steps is wrong; the shipped one is right.
    *_, last = capsys.readouterr().out.splitlines()
    assert last.startswith("4.42857143 True ")
