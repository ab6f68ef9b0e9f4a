"""Plug-ins: Python files of a user that add variants to the tables: POSITIONS["mine"] = Mine.

A recipe can then name the variants. A checkpoint records only the names of the files, and nothing
is run unless the user names its file. A package that is installed names its module as an entry
point instead (`calcgpt.base.plugins`).
"""

from pathlib import Path

from calcgpt.base.errors import ConfigError, as_path
from calcgpt.base.plugins import files, run_file
from calcgpt.variants import FILES, TABLES, added


def loaded() -> tuple[Path, ...]:
    """Returns the plug-ins of this process, for other processes."""
    return tuple(files)


def load(path: str | Path) -> None:
    """Runs a plug-in, once in a process, and lets recipes name the variants that it adds. Raises
    ConfigError, one line, if it fails, adds nothing or replaces a variant."""
    if (path := as_path("path", path).resolve()) in files:
        return
    known = {(kind, name) for kind in TABLES for name in added(kind)}
    run_file(path)
    for kind, (table, own) in TABLES.items():
        for name, variant in own.items():
            if table.get(name) is not variant:
                table[name] = variant
                raise ConfigError(f"{path} replaces {kind} {name!r}: choose a name of its own")
    new = {(kind, name) for kind in TABLES for name in added(kind)} - known
    if not new:
        raise ConfigError(f"{path} adds no variant to a table, such as POSITIONS")
    FILES.update(dict.fromkeys(new, path.name))
    files[path] = None
