"""Imports run downward: no module imports, however indirectly, one that imports it."""

import ast
import graphlib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def modules() -> dict[str, Path]:
    files = [
        file for package in ("datagen", "calcgpt", "api") for file in (ROOT / package).rglob("*.py")
    ]
    names = {file: ".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files}
    return {name.removesuffix(".__init__"): file for file, name in names.items()}


def imports(file: Path, known: set[str]) -> set[str]:
    """The modules of this project that a file names in its import statements."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from package import module` names the module, `from module import thing` does not.
            found |= {f"{node.module}.{alias.name}" for alias in node.names} & known or {
                node.module
            }
    return found & known


def test_no_import_leads_back() -> None:
    files = modules()
    graph = {name: imports(file, set(files)) for name, file in files.items()}
    assert len(graph) > 40
    assert "calcgpt.config" in graph["calcgpt.model.gpt"]  # the graph is not empty
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, naming the circle
