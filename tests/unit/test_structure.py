"""The structure of the code: which package may import which, and what no file may do."""

import ast
import functools
import graphlib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("datagen", "calcgpt", "calcgpt_lab", "api")

# From the lowest layer up. A package imports from lower layers only; packages of one layer do not
# import each other. Imports inside functions count, too.
LAYERS = [
    {"calcgpt.base"},
    {"calcgpt", "datagen"},  # `calcgpt` itself is its version and the names for users
    {"calcgpt.variants"},
    {"calcgpt.section"},
    {"calcgpt.config"},
    {"calcgpt.errors"},
    {"calcgpt.tokenizer"},
    {"calcgpt.metrics", "calcgpt.tensors"},
    {"calcgpt.switches"},
    {"calcgpt.checkpoint"},
    {"calcgpt.registry"},
    {"calcgpt.inference"},
    {"calcgpt.proof", "calcgpt.export", "api"},
    {"calcgpt.cli"},
    {"calcgpt_lab", "calcgpt_lab.records", "calcgpt_lab.tables"},
    {"calcgpt_lab.saving"},
    {"calcgpt_lab.model", "calcgpt_lab.parallel", "calcgpt_lab.recipe"},
    {"calcgpt_lab.data", "calcgpt_lab.plots"},
    {"calcgpt_lab.evaluation", "calcgpt_lab.export"},
    {"calcgpt_lab.training"},
    {"calcgpt_lab.studies"},
    {"calcgpt_lab.cli"},
]
WEB = ("fastapi", "starlette", "uvicorn", "httptools")


def modules() -> dict[str, Path]:
    """Every module of the packages, by name."""
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    names = {file: ".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files}
    return {name.removesuffix(".__init__"): file for file, name in names.items()}


MODULES = modules()


@functools.cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text("utf-8"))


def imports(nodes: Iterator[ast.AST] | list[ast.stmt]) -> set[str]:
    """The modules, of this project and of others, that import statements name."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import"
            # `from package import module` names the module, `from module import name` does not.
            full_names = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= full_names & MODULES.keys() or {str(node.module)}
    return names


@functools.cache
def all_imports(module: str) -> set[str]:
    return imports(ast.walk(tree(module)))


def package_of(module: str) -> str:
    """The package or top-level file that a module belongs to."""
    first, *rest = module.split(".")
    if rest == ["__main__"] or module == "api.commands":  # `python -m calcgpt` is the command
        return "calcgpt.cli"
    return f"{first}.{rest[0]}" if first.startswith("calcgpt") and rest else first


def layer_of(module: str) -> int:
    return next(index for index, packages in enumerate(LAYERS) if package_of(module) in packages)


def test_every_module_is_in_a_layer() -> None:
    packages = {name for names in LAYERS for name in names}
    assert {package_of(module) for module in MODULES} == packages


def test_modules_import_only_lower_layers() -> None:
    for module in MODULES:
        for imported in all_imports(module) & MODULES.keys():
            if package_of(imported) != package_of(module):
                assert layer_of(imported) < layer_of(module), f"{module} imports {imported}"


def test_no_modules_import_each_other() -> None:
    graph = {module: all_imports(module) & MODULES.keys() for module in MODULES}
    assert "calcgpt.config" in graph["calcgpt_lab.model.gpt"]  # the graph is not empty
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, naming the cycle


def test_only_the_service_imports_a_web_framework() -> None:
    for module in MODULES:
        if package_of(module) != "api":
            assert not {name.split(".")[0] for name in all_imports(module)} & set(WEB), module


def test_the_product_stands_alone() -> None:
    for module in MODULES:
        first = {name.split(".")[0] for name in all_imports(module)}
        assert not first & {"benchmarks", "research", "tools"}, module
    for package in ("benchmarks", "tools"):
        for file in (ROOT / package).glob("*.py"):
            names = imports(ast.walk(ast.parse(file.read_text("utf-8"))))
            assert not any(name.split(".")[0] == "research" for name in names), file


def test_the_calculator_does_not_import_the_laboratory_or_its_libraries() -> None:
    """The laboratory adds to it by entry points."""
    for module in MODULES:
        if not module.startswith("calcgpt_lab"):
            first = {name.split(".")[0] for name in all_imports(module)}
            assert not first & {"calcgpt_lab", "matplotlib", "torch", "transformers"}, module


def test_nothing_imports_the_service() -> None:
    users = {module for module in MODULES if "api" in map(package_of, all_imports(module))}
    assert {module for module in users if package_of(module) != "api"} == {"api.commands"}


def test_nothing_is_unpickled_or_evaluated() -> None:
    for module in MODULES:
        assert not all_imports(module) & {"pickle", "marshal", "shelve"}, module
        nodes = ast.walk(tree(module))
        calls = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
        assert not calls & {"eval", "exec", "compile", "__import__", "torch.load"}, module


def test_what_the_network_wrote_is_kept_without_the_rules() -> None:
    """The memory and the network know kinds and characters, not what is right."""
    folder = "calcgpt.inference.cases"
    own = {f"{folder}.{name}" for name in ("memory", "network")}
    outside = {"calcgpt.config", "calcgpt.errors", "calcgpt.inference.cache"}
    outside |= {"calcgpt.base.errors", "datagen.slots"}
    allowed = own | outside
    for module in own:
        assert all_imports(module) & MODULES.keys() <= allowed, module
    assert not imports(list(ast.walk(tree("datagen.slots")))) & MODULES.keys()
    (config,) = (
        node
        for node in ast.walk(tree(f"{folder}.network"))
        if isinstance(node, ast.ImportFrom) and node.module == "calcgpt.config"
    )
    assert [alias.name for alias in config.names] == ["ModelConfig"]
