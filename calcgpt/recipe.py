"""Recipes: a model and its training as a TOML file, every field of which can be overridden.

Everything that can be wrong is refused when the recipe is built, in one line, before anything runs.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar, get_args

import tomli_w
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from calcgpt.config import ModelConfig, Recipe
from calcgpt.errors import ConfigError, UserError

RECIPES = resources.files("calcgpt") / "recipes"
PRESETS = resources.files("calcgpt") / "presets"
S = TypeVar("S", bound=BaseModel)


def recipe_names() -> list[str]:
    """Names of the recipes in the package."""
    return names_in(RECIPES)


def preset_names() -> list[str]:
    """Names of the presets in the package: architectures, as values of a recipe's [model]."""
    return names_in(PRESETS)


def names_in(folder: Traversable) -> list[str]:
    """The names of the TOML files in a folder of the package."""
    names = (file.name for file in folder.iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def load_recipe(
    name: str, overrides: Sequence[str] = (), overlays: Sequence[Mapping[str, Any]] = ()
) -> Recipe:
    """The recipe `name` (of the package, or a path to a TOML file) with the tables `overlays` laid
    over it, and then `section.field=value` overrides, each in order. A `preset` in its [model] is
    laid under the other fields.

    Raises ConfigError for an unknown recipe, preset, field or name (listing the valid ones) and for
    a value of the wrong kind.
    """
    table = _read(name)
    for overlay in overlays:
        table = _laid_over(table, overlay)
    for override in overrides:
        _apply(table, override)
    model = table.get("model")
    if isinstance(model, dict) and "preset" in model:
        table["model"] = {**_preset(model.pop("preset")), **model}
    return build(Recipe, table, f"recipe {name!r}")


def load_preset(name: str) -> ModelConfig:
    """The architecture `name` of the package; raises ConfigError for an unknown one."""
    return build(ModelConfig, _preset(name), f"preset {name!r}")


def _preset(name: object) -> dict[str, Any]:
    if name not in preset_names():
        raise ConfigError(f"unknown preset {name!r}; valid names: {', '.join(preset_names())}")
    return tomllib.loads((PRESETS / f"{name}.toml").read_text("utf-8"))


def _read(name: str) -> dict[str, Any]:
    """The table of one recipe, laid over the one it extends."""
    table = _recipe_table(name)
    base = table.pop("extends", None)
    if base is None:
        return table
    if name.endswith(".toml") and str(base).endswith(".toml"):
        base = str(Path(name).parent / str(base))
    merged = _recipe_table(str(base))
    if "extends" in merged:
        raise ConfigError(f"recipe {name}: {base!r} extends another; one level is all there is")
    return _laid_over(merged, table)


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe's table with another's fields in place of its own."""
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = {**merged[key], **value} if both else value
    return merged


def _recipe_table(name: str) -> dict[str, Any]:
    return read_toml(name, RECIPES, "recipe")


def read_toml(name: str, folder: Traversable, what: str) -> dict[str, Any]:
    """The table `name`: a file of the package's `folder`, without its suffix, or a path that ends
    in `.toml`. Raises ConfigError, one line; `what` is what it calls the thing."""
    known = names_in(folder)
    if name in known:
        text = (folder / f"{name}.toml").read_text("utf-8")
    elif name.endswith(".toml"):
        try:
            text = Path(name).read_text("utf-8")
        except OSError as error:
            raise ConfigError(f"cannot read {what} {name}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{what} {name} is not UTF-8 text") from None
    else:
        raise ConfigError(f"unknown {what} {name!r}; valid names: {', '.join(known)}")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{what} {name} is not TOML: {error}") from None


def _apply(table: dict[str, Any], override: str) -> None:
    key, equals, value = override.partition("=")
    *sections, field = key.strip().split(".")
    if not (equals and field):
        raise ConfigError(f"override {override!r} is not of the form section.field=value")
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            raise ConfigError(f"override {override!r}: {section!r} is not a section")
    table[field] = _value(value.strip())


def _value(text: str) -> Any:
    """`text` as a TOML value, or, where it is not one, as the string itself; TOML has no null."""
    if text == "null":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return text


def recipe_toml(recipe: Recipe) -> str:
    """Returns the fields of `recipe` that differ from the defaults, as TOML that `load_recipe`
    reads."""
    # TOML has no null. A field that may be null is null by default, so none is left.
    return tomli_w.dumps(recipe.model_dump(exclude_defaults=True))


def flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns a nested table as a flat one, with keys such as `train.lr`."""
    fields: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            fields |= flatten(value, f"{prefix}{key}.")
        else:
            fields[prefix + key] = value
    return fields


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Returns `section.field` -> (value in `a`, value in `b`) for the fields that differ, in the
    order of `a`. A field that one of the tables lacks is None there."""
    flat_a, flat_b = flatten(a), flatten(b)
    pairs = {key: (flat_a.get(key), flat_b.get(key)) for key in flat_a | flat_b}
    return {key: (x, y) for key, (x, y) in pairs.items() if x != y}


def build(kind: type[S], table: Any, source: str) -> S:
    """`kind` from a table; raises ConfigError, one line that starts with `source`."""
    try:
        return kind.model_validate(table)
    except UserError as error:  # an unknown name, from its registry
        raise ConfigError(f"{source}: {error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] == "literal_error":
            raise ConfigError(f"{source}: {_unknown_name(first)}") from None
        where = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            valid = ", ".join(_section(kind, first["loc"][:-1]).model_fields)
            raise ConfigError(f"{source}: unknown field {where!r}; valid fields: {valid}") from None
        reason = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"{source}: {where + ': ' if where else ''}{reason}") from None


def _section(kind: type[BaseModel], path: tuple[int | str, ...]) -> type[BaseModel]:
    """The section that `path` leads to."""
    for part in path:
        field = kind.model_fields.get(str(part))
        if field is None:  # a key of a table of sections: `kind` is already what it holds
            continue
        kind = next(_models_in(field.annotation))
    return kind


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The sections in an annotation such as `Section | None` or `dict[str, Section]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)


def _unknown_name(error: ErrorDetails) -> str:
    """What is wrong with a name that a `Literal` does not list."""
    path = [part for part in error["loc"] if part != "[key]"]
    field = str(path[-2] if "[key]" in error["loc"] else path[-1])
    what = {"mixture": "distribution", "validation": "distribution", "operations": "operation"}
    valid = re.findall(r"'([^']*)'", error["ctx"]["expected"])
    return f"unknown {what.get(field, field)} {error['input']!r}; valid names: {', '.join(valid)}"
