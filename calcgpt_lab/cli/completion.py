"""What a shell completes of the laboratory: recipes, suites and spaces by name, and the fields of a
recipe with their values."""

from __future__ import annotations

import json
from typing import Any, Literal, get_args, get_origin

import click
from click.shell_completion import CompletionItem

from calcgpt.cli.completion import names_or_files

complete_recipe = names_or_files("calcgpt_lab.recipe:recipe_names")
complete_suite = names_or_files("calcgpt_lab.studies.suite:suite_names")
complete_space = names_or_files("calcgpt_lab.studies.sweep:SPACES")


def complete_field(
    context: click.Context, parameter: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Completes `section.field=value` of a recipe: all matching fields or, if only one matches,
    its values."""
    from calcgpt_lab.recipe import flatten, preset_names

    values = {"model.preset": preset_names(), **flatten(_values_by_field())}
    matching = [name for name in values if f"{name}=".startswith(typed.partition("=")[0])]
    if "=" in typed:
        matching = [name for name in matching if typed.startswith(f"{name}=")]
    overrides = [f"{name}=" for name in matching]
    if len(matching) == 1:
        overrides = [f"{matching[0]}={value}" for value in values[matching[0]]] or overrides
    return [CompletionItem(override) for override in overrides if override.startswith(typed)]


def _values_by_field() -> dict[str, Any]:
    """Returns the values to offer for each field of a recipe, by section."""
    from calcgpt.config import DataConfig, ModelConfig, Recipe, TrainConfig
    from calcgpt.section import Section

    def fields_of(section: type[Section]) -> dict[str, list[str]]:
        return {
            name: _values(field.annotation, field.get_default(call_default_factory=False))
            for name, field in section.model_fields.items()
        }

    sections: dict[str, type[Section]] = {
        "model": ModelConfig,
        "train": TrainConfig,
        "data": DataConfig,
    }
    return {**fields_of(Recipe), **{name: fields_of(cls) for name, cls in sections.items()}}


def _values(annotation: Any, default: Any) -> list[str]:
    """Returns the names that a field may have or, for a number, its default."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    if annotation is bool:
        return ["true", "false"]
    is_number = isinstance(default, int | float)
    return [json.dumps(default)] if is_number else []
