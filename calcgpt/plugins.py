"""Plug-ins: Python files of a user that add variants to the tables: POSITIONS["mine"] = Mine.

A recipe can then name the variants. A checkpoint records only the names of the files, and nothing
is run unless the user names its file.
"""

from __future__ import annotations

from pathlib import Path

from calcgpt.data.task import run_file
from calcgpt.errors import ConfigError
from calcgpt.variants import ADDED, TABLES

_loaded: dict[Path, None] = {}


def loaded() -> tuple[Path, ...]:
    """Returns the plug-ins of this process, for other processes."""
    return tuple(_loaded)


def load(path: Path) -> None:
    """Runs a plug-in, once in a process, and lets recipes name the variants that it adds. Raises
    ConfigError, one line, if it fails, adds nothing or replaces a variant."""
    if (path := path.resolve()) in _loaded:
        return
    run_file(path)
    n_added = 0
    for field, (table, own) in TABLES.items():
        known = ADDED.setdefault(field, {})
        for name, variant in own.items():
            if table.get(name) is not variant:
                table[name] = variant
                raise ConfigError(f"{path} replaces {field} {name!r}: choose a name of its own")
        new = table.keys() - own.keys() - known.keys()
        known.update(dict.fromkeys(sorted(new), path.name))
        n_added += len(new)
    if not n_added:
        raise ConfigError(f"{path} adds no variant to a table, such as POSITIONS")
    _loaded[path] = None
