"""Plug-ins: code of a user that adds variants to the tables of the packages.

A plug-in is a Python file that the user names, or a module of an installed package that declares an
entry point of the group `calcgpt.plugins`. Installed ones are imported when a name is not known.
"""

import importlib
import importlib.util
import os
import sys
import tomllib
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from calcgpt.base.errors import ArgumentError, ConfigError, UserError, check_types, unknown_name
from calcgpt.base.extras import require

T = TypeVar("T")
GROUP = "calcgpt.plugins"
files: dict[Path, None] = {}  # that this process has run, for the processes that it starts
_installed: set[str] = set()
# The code around that of a plug-in, which a message does not name.
_ROOT = Path(__file__).parents[2]
_AROUND = (
    *(f"{_ROOT / package}{os.sep}" for package in ("calcgpt", "calcgpt_lab", "datagen")),
    str(Path(importlib.__file__).parent),
    "<",
)


def load_installed() -> None:
    """Imports the plug-ins of installed packages, once in a process. Raises ConfigError, one line,
    if one fails."""
    for entry in entry_points(group=GROUP):
        if entry.name not in _installed:
            _installed.add(entry.name)
            with code_of(f"the plug-in {entry.name} ({entry.value})"):
                entry.load()


def extensions(group: str) -> dict[str, EntryPoint]:
    """Returns what installed packages add to a group, by name. What a checkout adds stands in its
    `pyproject.toml`: it may not be installed, or have changed since."""
    found = {entry.name: entry for entry in entry_points(group=group)}
    if (project := _ROOT / "pyproject.toml").is_file():
        table = tomllib.loads(project.read_text("utf-8"))["project"]["entry-points"]
        values = table.get(group, {}).items()
        found |= {name: EntryPoint(name, value, group) for name, value in values}
    return found


def extension(group: str, name: str) -> Any:
    """Returns what an installed package adds to a group, such as `calcgpt.engines`, under a name.
    Raises UserError if none does, or if it needs a library that is missing."""
    entry = extensions(group).get(name)
    if not entry:
        raise UserError(f"no installed package adds {name!r} to {group}")
    try:
        return entry.load()
    except ModuleNotFoundError as error:
        kind = group.removeprefix("calcgpt.").removesuffix("s")
        require(f"{kind} {name!r}", str(error.name).partition(".")[0])
        raise


def look_up(table: Mapping[str, T], name: str, kind: str) -> T:
    """Returns `table[name]`, also if an installed plug-in adds it. Raises ArgumentError, which
    lists the names, if there is none."""
    check_types(**{kind: (name, str)})
    if name not in table:
        load_installed()
    if name not in table:
        raise ArgumentError(unknown_name(kind, name, sorted(table)))
    return table[name]


def run_file(path: Path) -> ModuleType:
    """Runs a Python file of the user's, with all its side effects, and returns it as a module.
    Raises ConfigError, one line with the place of the error in the file, if it fails."""
    if not path.is_file():
        raise ConfigError(f"cannot read {path}: no such file")
    name = f"calcgpt_file_{path.stem}"
    loader = SourceFileLoader(name, str(path))  # whatever the suffix
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module there
    with imports_from(path.resolve().parent), code_of(path):
        spec.loader.exec_module(module)
    return module


@contextmanager
def code_of(source: object) -> Iterator[None]:
    """Within the block, code of a user's runs: its errors become a ConfigError."""
    try:
        yield
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{source} failed with {described(error)}") from error


@contextmanager
def imports_from(folder: str | Path | None) -> Iterator[None]:
    """Within the block, modules are imported from this folder first, as in a script there."""
    if folder is None:
        yield
        return
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        if str(folder) in sys.path:  # the user's code may have changed it
            sys.path.remove(str(folder))


def described(error: BaseException) -> str:
    """Returns the message of an error in a user's code, with the file and the line there."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_AROUND)
    ]
    message = f"{type(error).__name__}: {error}"
    if not frames:  # a SyntaxError, whose message has them
        return message
    folder = Path(frames[0].filename).parent
    file, line = [
        (path.name, frame.lineno)
        for frame in frames
        if (path := Path(frame.filename)).parent == folder
    ][-1]
    return f"{message} ({file}, line {line})"
