"""Options that several commands share."""

from __future__ import annotations

import re
from pathlib import Path

import click


def named_paths(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, Path]:
    """NAME=PATH, repeated, as a dict; click.BadParameter for what is not, or not once."""
    paths: dict[str, Path] = {}
    for value in values:
        name, _, path = value.partition("=")
        if not (re.fullmatch(r"[\w.+-]+", name) and path):
            raise click.BadParameter(f"{value!r} is not of the form {parameter.metavar}")
        if name in paths:
            raise click.BadParameter(f"{name!r} is given twice")
        paths[name] = Path(path)
    return paths
