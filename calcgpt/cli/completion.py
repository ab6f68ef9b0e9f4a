"""What a shell completes when a user presses the tab key.

Click completes commands, options and fixed choices itself. This module completes names of files in
the package, and the fields of a recipe with their values.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal, get_args, get_origin

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def names_or_files(source: str, *others: str) -> Complete:
    """Returns a function that completes the names in a table, or from a function, given as
    `module:name`, and some others. If no name matches, it completes the paths of files."""

    def complete(
        context: click.Context, parameter: click.Parameter, typed: str
    ) -> list[CompletionItem]:
        module, _, attribute = source.partition(":")
        names = getattr(import_module(module), attribute)
        names = [*others, *(names() if callable(names) else names)]
        items = [CompletionItem(name) for name in names if name.startswith(typed)]
        return items or [CompletionItem(typed, type="file")]

    return complete


complete_engine = names_or_files("calcgpt.inference.engines:ENGINES", "auto")
complete_recipe = names_or_files("calcgpt.recipe:recipe_names")
complete_suite = names_or_files("calcgpt.lab.suite:suite_names")
complete_space = names_or_files("calcgpt.lab.space:space_names")
complete_checkpoint = names_or_files("calcgpt.registry:shipped_names", "best")


def complete_field(
    context: click.Context, parameter: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Completes `section.field=value` of a recipe: all matching fields or, if only one matches,
    its values."""
    from calcgpt.recipe import flatten, preset_names

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


@add_completion_class
class BashWithEquals(BashComplete):
    """Bash, which splits `name=value` into three words and completes the last one."""

    _name = ""  # the text before the `=`

    def get_completion_args(self) -> tuple[list[str], str]:
        args, typed = super().get_completion_args()
        if typed == "=" or args[-1:] == ["="]:
            before = args if typed == "=" else args[:-1]
            self._name = f"{before[-1]}="
            return before[:-1], self._name + typed.removeprefix("=")
        return args, typed

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type},{item.value.removeprefix(self._name)}"
