"""`from calcgpt import ...`: the names, their types, and the examples of docs/PYTHON.md."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import calcgpt
import calcgpt_lab
from calcgpt_lab.data.dataset import DatasetPlan, generate

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "PYTHON.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


def test_every_example_of_the_page_runs(here: Path) -> None:
    generate(Path("data/nano"), DatasetPlan(train=10, val=10, test=20), progress=False)
    names: dict[str, Any] = {}
    assert len(EXAMPLES) == 6
    for example in EXAMPLES:
        exec(example, names)  # one after the other, as a reader would
    assert names["evaluation"].scores.n == 20


@pytest.mark.parametrize("package", [calcgpt, calcgpt_lab])
def test_the_names_are_typed_documented_and_few(package: ModuleType) -> None:
    stub = ast.parse(Path(str(package.__file__)).with_suffix(".pyi").read_text("utf-8"))
    imported = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    modules = {alias.name: node.module for node in imported for alias in node.names}
    assert modules == package._MODULES
    assert set(package.__all__) - {"__version__"} == set(modules)
    for name in modules:
        assert getattr(package, name).__doc__, name
        assert f"`{name}`" in PAGE
    examples = "\n".join(EXAMPLES)
    used = {node.id for node in ast.walk(ast.parse(examples)) if isinstance(node, ast.Name)}
    assert used >= modules.keys()
    assert "calcgpt.__version__" in examples
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        package.nosuch  # noqa: B018


def test_the_import_is_light() -> None:
    program = "import calcgpt, sys; print(len([m for m in ('torch', 'numpy') if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("0\n", "")
