"""The notebooks of docs/course run from top to bottom, here with a few steps of training; and what
is stored in them comes from such a run."""

import re
import shutil
from pathlib import Path

import pytest
from waiting import PATIENCE

from calcgpt_lab import load_recipe
from calcgpt_lab.model.parameters import count
from calcgpt_lab.studies.info import vocabulary_size

nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
pytest.importorskip("matplotlib", reason="matplotlib is not installed: the extra `lab` installs it")

COURSE = Path(__file__).parents[2] / "docs" / "course"
GUIDE = COURSE.parent / "guide" / "first-model.md"
NOTEBOOKS = sorted(COURSE.glob("*.ipynb"))
TINY_ADDER = [
    "train.steps=3",
    "train.eval_batches=1",
    "train.eval_problems=5",
    "train.log_interval=1",
    "model.block_size=144",
]
# The numbers in the cell with the tag `parameters`.
SHORT = {
    "1-baseline": {"STEPS": 2, "PROBLEMS": 300, "ANSWERS": 3},
    "2-rope": {"STEPS": 2, "PROBLEMS": 300},
    "3-gqa": {"STEPS": 2, "UPTRAIN": 2, "PROBLEMS": 300},
    "4-worked-steps": {"STEPS": 2, "SCORED": 3, "ADDER": TINY_ADDER, "SUMS": 40},
    "5-inside": {"PAIRS": 2, "ADDER": TINY_ADDER},
}


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shorten(notebook: nbformat.NotebookNode, values: dict[str, object]) -> None:
    """Replaces the parameters, all of them: one that is not known here would take its time."""
    (cell,) = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    assert re.findall(r"^(\w+) = ", cell.source, re.MULTILINE) == list(values)
    cell.source = "\n".join(f"{name} = {value!r}" for name, value in values.items())


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    shorten(notebook, SHORT[path.stem])
    shutil.copy(COURSE / "calcgpt_in_one_file.py", tmp_path)
    client = nbclient.NotebookClient(
        notebook, startup_timeout=PATIENCE, resources={"metadata": {"path": tmp_path}}
    )
    client.execute()  # raises the error of a cell
    assert (tmp_path / "runs").is_dir()


def test_every_notebook_is_tested() -> None:
    assert [path.stem for path in NOTEBOOKS] == list(SHORT)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_stored_was_run(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    kinds = {output.output_type for output in outputs}
    assert kinds <= {"stream", "display_data", "execute_result"}  # no error
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    texts = [output.get("text", "") for output in outputs]
    assert not re.search(r"(^|[\s'\"(])/\w+/", "".join(texts)), "a path of the machine that ran it"


def test_the_parameters_are_those_of_the_adder() -> None:
    recipe = load_recipe("adder")
    right = f"{sum(count(recipe.model, vocabulary_size(recipe)).values()):,}"
    notebook = nbformat.read(COURSE / "5-inside.ipynb", as_version=4)
    stored = "".join(o.get("text", "") for cell in code_cells(notebook) for o in cell.outputs)
    for text in (stored, GUIDE.read_text("utf-8")):
        assert re.findall(r"([\d,]+)\sparameters", text) == [right]
