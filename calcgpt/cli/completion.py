"""What a shell completes when a user presses the tab key.

Click completes commands, options and fixed choices itself. This module completes names of files in
the package, and the fields of a recipe with their values.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

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


complete_engine = names_or_files("calcgpt.inference.engines:engine_names")
complete_checkpoint = names_or_files("calcgpt.registry:shipped_names", "best")


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
