"""A recipe as a TOML file. The standard library reads TOML and does not write it."""

from __future__ import annotations

import json
import re
from typing import Any

from calcgpt.recipe import Recipe

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def recipe_toml(recipe: Recipe) -> str:
    """The recipe's fields that differ from the defaults; `load_recipe` gives it back."""
    # A field that may be null is null by default, so that no null is ever left: TOML has none.
    table = recipe.model_dump(exclude_defaults=True)
    sections = {key: table.pop(key) for key in [*table] if isinstance(table[key], dict)}
    lines = [f"{_key(key)} = {_value(value)}" for key, value in table.items()]
    for name, section in sections.items():
        lines += ["", f"[{_key(name)}]"]
        lines += [f"{_key(key)} = {_value(value)}" for key, value in section.items()]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _string(name)


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_key(k)} = {_value(v)}' for k, v in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str):
        return _string(value)
    # Numbers as Python prints them, 1e-05 too, and true and false as JSON does.
    return json.dumps(value, allow_nan=False)


def _string(text: str) -> str:
    """A basic string: JSON's, but for one character that TOML wants escaped as well."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
