"""Recipes as TOML files: how they are read, overridden, checked, written and compared.

A recipe is checked as a whole when it is built, so nothing runs with one that is wrong.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import tomli_w
from pydantic import BaseModel

from calcgpt.base.errors import ConfigError, check_items, check_types, one_line, unknown_name
from calcgpt.base.files import read_bytes
from calcgpt.base.plugins import load_installed
from calcgpt.config import ModelConfig, Recipe
from calcgpt.section import build
from calcgpt.variants import added, plugins_of, register

MAX_BYTES = 2**20  # of a file


def toml_files(folder: str) -> dict[str, Path]:
    """Returns the TOML files in a folder of the package, by their names without suffix."""
    return {file.stem: file for file in sorted((Path(__file__).parent / folder).glob("*.toml"))}


RECIPES = toml_files("recipes")
PRESETS = toml_files("presets")  # architectures, for a recipe's [model]
register("recipe", RECIPES)


def load_recipe(
    name: str | Path, overrides: Sequence[str] = (), overlays: Sequence[Mapping[str, Any]] = ()
) -> Recipe:
    """Returns the recipe `name`: one of the package, or a path to a TOML file.

    Fields are replaced in this order: by the tables in `overlays`, which are not changed, and then
    by the `section.field=value` overrides. A `preset` in [model] only replaces defaults: fields of
    the recipe, of overlays and of overrides take precedence over it. If an override sets the
    preset, only the fields of other overrides take precedence.

    Raises ConfigError for an unknown recipe, preset, field or name, listing the valid ones, and for
    a value of the wrong type or out of range.
    """
    check_types(name=(name, str, Path))
    check_items(overrides=(overrides, str), overlays=(overlays, Mapping))
    name = str(name)
    table = _read_recipe(name)
    for overlay in overlays:
        table = _merged(table, deepcopy(dict(overlay)))
    overridden: dict[str, Any] = {}
    for override in overrides:
        _apply_override(table, override)
        _apply_override(overridden, override)
    model, own = table.get("model"), overridden.get("model")
    if isinstance(model, dict) and "preset" in model:
        preset = _read_preset(model.pop("preset"))
        stronger = own if isinstance(own, dict) and "preset" in own else model
        table["model"] = {**model, **preset, **stronger}
        table["model"].pop("preset", None)
    recipe = build(Recipe, table, f"recipe {name!r}")
    return recipe.model_copy(
        update={"plugins": plugins_of(recipe.model, recipe.train, recipe.data)}
    )


def load_preset(name: str) -> ModelConfig:
    """Returns the preset `name` of the package. Raises ConfigError for an unknown one."""
    return build(ModelConfig, _read_preset(name), f"preset {name!r}")


def preset_toml(name: str) -> str:
    """Returns a preset of the package as the [model] section of a recipe."""
    return f"[model]\n{PRESETS[name].read_text('utf-8')}"


def _read_preset(name: object) -> dict[str, Any]:
    """Returns the fields of a preset; {} if `name` is None: no preset."""
    if name is None:
        return {}
    if str(name) not in PRESETS:
        raise ConfigError(unknown_name("preset", str(name), PRESETS))
    return tomllib.loads(PRESETS[str(name)].read_text("utf-8"))


def _read_recipe(name: str) -> dict[str, Any]:
    """Returns the table of a recipe, merged into the table of the recipe that it extends."""
    table = read_toml(name, RECIPES, "recipe")
    base = table.pop("extends", None)
    if base is None:
        return table
    if name.endswith(".toml") and str(base).endswith(".toml"):
        base = str(Path(name).parent / str(base))
    base_table = read_toml(str(base), RECIPES, "recipe")
    if "extends" in base_table:
        raise ConfigError(
            f"recipe {one_line(name)} extends {base!r}, which itself extends a recipe: "
            "only one level works"
        )
    return _merged(base_table, table)


def _merged(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `base` with the fields of `overlay` in place of its own, section by section."""
    merged = dict(base)
    for key, value in overlay.items():
        both_sections = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = {**merged[key], **value} if both_sections else value
    return merged


def read_toml(name: str, files: Mapping[str, Path], kind: str) -> dict[str, Any]:
    """Returns the table `name`: one of `files`, or a path that ends in `.toml`. Raises ConfigError,
    one line, which calls the file a `kind`."""
    is_path = name.endswith(".toml") and "\0" not in name
    if not is_path and name not in files:
        load_installed()
    file = files.get(name) or (Path(name) if is_path else None)
    if file is None:
        raise ConfigError(unknown_name(kind, name, sorted(files)))
    text = _read_text(file, f"{kind} {one_line(name)}")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{kind} {one_line(name)} is not valid TOML: {error}") from None


def with_recipe_beside(table: dict[str, Any], name: str) -> dict[str, Any]:
    """Returns the table of the file `name`. If its field `recipe` is a path, it is relative to the
    folder of that file."""
    recipe = table.get("recipe")
    if isinstance(recipe, str) and recipe.endswith(".toml") and name.endswith(".toml"):
        return {**table, "recipe": str(Path(name).parent / recipe)}
    return table


def _read_text(file: Path, what: str) -> str:
    try:
        content = read_bytes(file, MAX_BYTES)
        if len(content) > MAX_BYTES:
            raise ConfigError(f"{what} has more than {MAX_BYTES:,} bytes")
        return content.decode("utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {what}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{what} is not UTF-8 text") from None


def _apply_override(table: dict[str, Any], override: str) -> None:
    """Sets the field of `table` that a `section.field=value` override names."""
    key, equals, value = override.partition("=")
    *sections, field = key.strip().split(".")
    if not (equals and field):
        raise ConfigError(f"override {override!r} is not of the form section.field=value")
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            raise ConfigError(f"override {override!r}: {section!r} is not a section")
    table[field] = _parse_value(value.strip())


def _parse_value(text: str) -> Any:
    """Returns `text` as a TOML value, or the string itself if it is not TOML. TOML has no null, so
    `null` gives None."""
    if text == "null":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError, KeyError):  # also for an integer of too many digits
        return text


def recipe_toml(recipe: Recipe) -> str:
    """Returns the fields that differ from the defaults, as TOML that `load_recipe` reads."""
    # TOML has no null. A field that may be null is null by default, so no null is left.
    return tomli_w.dumps(recipe.model_dump(exclude_defaults=True))


def commented_toml(recipe: Recipe) -> str:
    """Returns every field of `recipe` as TOML that `load_recipe` reads, with its meaning. A field
    that is null is a comment."""
    return "\n".join(_commented_lines(recipe, "")).lstrip("\n") + "\n"


def _commented_lines(section: BaseModel, name: str) -> Iterator[str]:
    if name:
        yield from ("", f"[{name}]")
    inner: list[tuple[str, BaseModel]] = []
    for field, info in type(section).model_fields.items():
        value = getattr(section, field)
        if isinstance(value, BaseModel):
            inner.append((field, value))
            continue
        names = ", ".join([*_names_of(info.annotation), *added(field)])
        meaning = " ".join(filter(None, (info.description, names and f"({names})")))
        comment = f"  # {meaning}" if meaning else ""
        if value is None:
            yield f"# {field} = null{comment}"
        else:
            yield f"{field} = {_toml_value(value)}{comment}"
    for field, value in inner:
        yield from _commented_lines(value, f"{name}.{field}" if name else field)


def _names_of(annotation: Any) -> list[str]:
    """Returns the names that are valid as the field's value or keys; [] if the field has no list of
    names."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return next(filter(None, map(_names_of, get_args(annotation))), [])


def _toml_value(value: Any) -> str:
    """Returns a value as TOML in one line."""
    if isinstance(value, dict):
        pairs = (f"{_toml_value(key)} = {_toml_value(item)}" for key, item in value.items())
        return f"{{ {', '.join(pairs)} }}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


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
    order of `a`. A field that is missing from one of the tables is None there."""
    flat_a, flat_b = flatten(a), flatten(b)
    pairs = {key: (flat_a.get(key), flat_b.get(key)) for key in flat_a | flat_b}
    return {key: (x, y) for key, (x, y) in pairs.items() if x != y}
