"""The tables of variants, as configs see them, and the plug-ins that extend them.

A plug-in is a Python file of a user: POSITIONS["mine"] = Mine. A recipe can then name the variant.
A checkpoint records only the names of the files, and nothing is run unless the user names its file.
A package that is installed names its module as an entry point instead (`calcgpt.base.plugins`).
"""

from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from calcgpt.base.errors import ConfigError, as_path
from calcgpt.base.plugins import files, load_installed, run_file
from datagen import distributions, formats

T = TypeVar("T")
# Kind of variant -> its table, and what the package has in it.
TABLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
# Fields of a config that have another name than their kind.
KINDS = {"mixture": "distribution", "validation": "distribution"}
# (kind, name) of a variant -> the name of the plug-in's file.
FILES: dict[tuple[str, str], str] = {}
INSTALLED = "of an installed package"


def register(kind: str, table: dict[str, Any]) -> None:
    """Makes a table known, so that plug-ins may add to it."""
    TABLES[kind] = (table, dict(table))


register("distribution", distributions.DISTRIBUTIONS)
register("format", formats.FORMATS)


def added(field: str) -> list[str]:
    """Returns the names that plug-ins have added to the table of a field."""
    table, own = TABLES.get(KINDS.get(field, field), ({}, {}))
    return sorted(table.keys() - own.keys())


def _listed_or_added(
    name: object, listed: ValidatorFunctionWrapHandler, info: ValidationInfo
) -> object:
    field = info.field_name or ""
    if not isinstance(name, str) or name in added(field):
        return listed(name) if not isinstance(name, str) else name
    try:
        return listed(name)
    except ValidationError:
        load_installed()
        if name not in added(field):
            raise
        return name


# A name that a `Literal` lists or that a plug-in has added.
Variant = Annotated[T, WrapValidator(_listed_or_added), PlainSerializer(str, return_type=str)]


def plugins_of(*sections: BaseModel | None) -> list[str]:
    """Returns the plug-ins whose variants the sections of a config name: a file's name, or
    INSTALLED."""
    found = set()
    for section in sections:
        for field in type(section).model_fields if section else ():
            value, kind = getattr(section, field), KINDS.get(field, field)
            names = [value] if isinstance(value, str) else value if isinstance(value, dict) else ()
            found |= {FILES.get((kind, name), INSTALLED) for name in names if name in added(kind)}
    return sorted(found)


def loaded_plugins() -> tuple[Path, ...]:
    """Returns the plug-ins of this process, for other processes."""
    return tuple(files)


def load_plugin(path: str | Path) -> None:
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
