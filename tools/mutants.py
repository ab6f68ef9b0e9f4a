"""How good the tests are: the share of many small changes to the code that they catch.

    python -m tools.mutants [--mutants N] [--seed N] [--json FILE] [--resume]

mutmut makes the changes and runs, against each, the tests that call the changed function.
`[tool.mutmut]` in `pyproject.toml` says which files are changed (`only_mutate`, whose patterns are
the subjects reported on) and which tests are run. mutmut leaves decorated functions alone, and what
runs when a module is imported.

A sample is drawn by a recorded seed, from each subject in proportion to its mutants. Results are
kept in `mutants/` as they come: `--resume` goes on from there after an interruption.
"""

import argparse
import ast
import difflib
import os
import random
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path
from typing import Any

import libcst
from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.diff_apply import read_functions_from_index
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.stats import status_by_exit_code
from mutmut.utils.format_utils import get_mutant_name, orig_function_and_class_names_from_key

from calcgpt.base.files import write_json

MUTMUT = Path(sys.executable).parent / "mutmut"
UNTRIED = "not checked"
SURVIVED = ("survived", "no tests")  # anything else, such as a timeout, was noticed
WORK = Path("mutants")  # where mutmut works


@dataclass(frozen=True)
class Mutant:
    name: str
    path: Path

    def status(self) -> str:
        data = SourceFileMutationData(path=self.path)
        data.load()
        return str(status_by_exit_code[data.exit_code_by_key.get(self.name)])

    def describe(self) -> dict[str, Any]:
        """Returns where the mutant is, and what it changes."""
        functions = read_functions_from_index(self.name, self.path)
        if functions is None:
            raise SystemExit(f"{WORK} is not of this code: run again without --resume")
        before, after = (
            libcst.Module([function.with_changes(leading_lines=[])]).code.splitlines()
            for function in functions
        )
        changed = [line for line in difflib.ndiff(before, after) if line[0] in "-+"]
        offset = next(
            (n for n, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0
        )
        function, owner = orig_function_and_class_names_from_key(self.name)
        return {
            "file": self.path.as_posix(),
            "line": first_line(self.path, function, owner) + offset,
            "function": f"{owner}.{function}" if owner else function,
            "change": "\n".join(line[0] + " " + line[1:].strip() for line in changed),
        }


def first_line(path: Path, function: str, owner: str | None) -> int:
    """Returns the first line of a function, or of a method of the class `owner`."""
    scope: ast.AST = ast.parse(path.read_text("utf-8"))
    for name in [owner, function] if owner else [function]:
        scope = next(node for node in ast.walk(scope) if getattr(node, "name", None) == name)
    assert isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef)
    return min([scope.lineno, *(decorator.lineno for decorator in scope.decorator_list)])


def mutants_of(path: Path) -> Iterator[Mutant]:
    source = path.read_text("utf-8")
    without_effect = called_by_the_import_alone(ast.parse(source))
    for generated in mutate_file_contents(str(path), source).mutant_names:
        name = get_mutant_name(path, generated)
        if orig_function_and_class_names_from_key(name)[0] not in without_effect:
            yield Mutant(name, path)


def called_by_the_import_alone(module: ast.Module) -> set[str]:
    """Returns private functions that only the import calls, before a mutant can replace them."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    private = {
        node.name
        for node in module.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("_")
    }
    called = {
        node.func.id
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    used_later = {
        node.id
        for function in ast.walk(module)
        if isinstance(function, functions)
        for node in ast.walk(function)
        if isinstance(node, ast.Name)
    }
    return private & called - used_later


def subjects() -> dict[str, list[Mutant]]:
    """Returns all mutants, by the first pattern that their file matches."""
    settings = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["tool"]["mutmut"]
    by_subject: dict[str, list[Mutant]] = {pattern: [] for pattern in settings["only_mutate"]}
    for folder in settings["source_paths"]:
        for path in sorted(Path(folder).rglob("*.py")):
            for pattern, mutants in by_subject.items():
                if fnmatch(path.as_posix(), pattern):
                    mutants += mutants_of(path)
                    break
    if empty := [pattern for pattern, mutants in by_subject.items() if not mutants]:
        raise SystemExit(f"no mutants: {', '.join(empty)}")
    return by_subject


def draw(by_subject: dict[str, list[Mutant]], n: int, seed: int) -> dict[str, list[Mutant]]:
    """Returns a sample of at least `n` mutants in all, and at least one of each subject."""
    total = sum(map(len, by_subject.values()))
    return {
        subject: random.Random(seed).sample(mutants, -(-len(mutants) * min(n, total) // total))  # nosec B311  # no secret
        for subject, mutants in by_subject.items()
    }


def run(mutants: list[Mutant], processes: int) -> None:
    names = [mutant.name for mutant in mutants]
    command = [str(MUTMUT), "run", "--max-children", str(processes), *names]
    # Before it forks. Numba cannot compile what mutmut has wrapped.
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_DISABLE_JIT": "1"}
    subprocess.run(command, env=environment, check=True, stdout=sys.stderr)  # nosec B603  # a program of ours


def summary(sample: list[Mutant]) -> dict[str, int]:
    states = [mutant.status() for mutant in sample]
    if untried := states.count(UNTRIED):
        raise SystemExit(f"{untried} mutants were not tried: --resume continues")
    survived = sum(state in SURVIVED for state in states)
    return {
        "sampled": len(states),
        "caught": len(states) - survived,
        "survived": survived,
        "timed_out": states.count("timeout"),
        "without_tests": states.count("no tests"),
    }


def table(rows: dict[str, dict[str, int]]) -> str:
    lines = ["| subject | mutants | sampled | caught | share |", "|---|---|---|---|---|"]
    for name, row in rows.items():
        share = f"{row['caught'] / row['sampled']:.1%}"
        cells = name, row["mutants"], row["sampled"], row["caught"], share
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--mutants", type=int, default=320, help="how many to try")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--processes", type=int, default=1, help="mutants to try at a time")
    options.add_argument("--json", type=Path, help="write the results to this file, too")
    options.add_argument("--resume", action="store_true", help="keep the results so far")
    arguments = options.parse_args()

    os.chdir(Path(__file__).resolve().parents[1])
    if not arguments.resume:
        shutil.rmtree(WORK, ignore_errors=True)
    by_subject = subjects()
    sample = draw(by_subject, arguments.mutants, arguments.seed)
    tried = [mutant for mutants in sample.values() for mutant in mutants]
    if pending := [mutant for mutant in tried if mutant.status() == UNTRIED]:
        run(pending, arguments.processes)

    rows = {name: {"mutants": len(by_subject[name])} | summary(sample[name]) for name in by_subject}
    rows["all"] = {"mutants": sum(map(len, by_subject.values()))} | summary(tried)
    survivors = [mutant.describe() for mutant in tried if mutant.status() in SURVIVED]
    survivors.sort(key=lambda survivor: (survivor["file"], survivor["line"]))
    print(table(rows))
    for survivor in survivors:
        print("\n{file}:{line} {function}\n{change}".format(**survivor))
    if arguments.json:
        result = {
            "tool": f"mutmut {version('mutmut')}",
            "seed": arguments.seed,
            "subjects": rows,
            "survivors": survivors,
        }
        write_json(arguments.json, result)


if __name__ == "__main__":
    main()
