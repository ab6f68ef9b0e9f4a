"""Options that several commands share, and how a result is printed."""

import math
import re
import shutil
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from calcgpt.base.files import check_output_folder

Command = TypeVar("Command", bound=Callable[..., Any])


class Name(click.types.StringParamType):
    """A text that is not empty: an empty name, such as an unset shell variable, would mean the
    current folder or the default."""

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> Any:
        if value == "":
            self.fail("the name is empty", parameter, context)
        return super().convert(value, parameter, context)


class NamedPath(click.Path):
    """A path that is not empty."""

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> Any:
        return super().convert(NAME.convert(value, parameter, context), parameter, context)


ARGUMENTS = "calcgpt.arguments"  # in the `meta` of a context: the words after the program
NAME = Name()
PATH = NamedPath(path_type=Path)
# The beginning of an expression such as -5+3, -(2^3) or -½. An option has a letter there.
NEGATIVE = re.compile(r"-(?!-?[A-Za-z]|-?$)")


class Number(click.FloatRange):
    """A finite number in a range. Click would accept NaN, which no comparison excludes."""

    def convert(
        self, value: Any, parameter: click.Parameter | None, context: click.Context | None
    ) -> float:
        number = float(super().convert(value, parameter, context))
        if not math.isfinite(number):
            self.fail(f"{number} is not a finite number", parameter, context)
        return number


class ExpressionCommand(click.Command):
    """A command whose arguments may begin with a minus without being options."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        guarded = [f" {arg}" if NEGATIVE.match(arg) else arg for arg in args]
        rest = super().parse_args(context, guarded)
        context.params = {name: _unguarded(value) for name, value in context.params.items()}
        return rest


def _unguarded(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_unguarded, value))
    return value.removeprefix(" ") if isinstance(value, str) else value


def checked(check: Callable[[Path], None]) -> Callable[..., Path | None]:
    """Returns a callback for a path, which `check` refuses with a UserError before any work."""

    def callback(
        context: click.Context, parameter: click.Parameter, value: Path | None
    ) -> Path | None:
        if value:
            check(value)
        return value

    return callback


output_folder = checked(check_output_folder)


def names_or_files(source: str, *others: str) -> Callable[..., list[CompletionItem]]:
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


def force_option(what: str) -> Callable[[Command], Command]:
    """`--force`, which allows the command to replace `what`."""
    return click.option("--force", is_flag=True, help=f"Replace {what}.")


out_argument = click.argument("out", type=PATH, callback=output_folder)
checkpoint_argument = click.argument("checkpoint", type=NAME, shell_complete=complete_checkpoint)
checkpoint_option = click.option(
    "--checkpoint",
    type=NAME,
    default="best",
    shell_complete=complete_checkpoint,
    help="A folder, name or `best`.",
)
engine_option = click.option(
    "--engine",
    default="auto",
    shell_complete=complete_engine,
    help="What runs the model: cases, torch, or auto: cases if it can, else torch.",
)
quiet_option = click.option("--quiet", is_flag=True, help="Show no progress.")


def _load_plugins(
    context: click.Context, parameter: click.Parameter, paths: tuple[Path, ...]
) -> None:
    if paths:
        from calcgpt.variants import load_plugin

        for path in paths:
            load_plugin(path)


plugin_option = click.option(
    "--plugin",
    type=PATH,
    multiple=True,
    expose_value=False,
    is_eager=True,  # other options may name its variants
    callback=_load_plugins,
    help="A Python file, which is run: it adds variants of your own. Repeatable.",
)


def program() -> list[str]:
    """Returns the words with which this program was called, for commands to be pasted."""
    name = click.get_current_context().find_root().info_name or "calcgpt"
    is_elsewhere = Path(sys.argv[0]).name == name and shutil.which(name) != sys.argv[0]
    return [sys.argv[0]] if is_elsewhere else name.split()


def chosen(reference: str) -> Path:
    """Returns the folder of a checkpoint (see `calcgpt.registry.resolve`). If that is the best of
    several, says on stderr which one."""
    from calcgpt.checkpoint import CONFIG
    from calcgpt.registry import resolve

    folder = resolve(reference)
    is_chosen = reference == "best" or folder.parent == Path(reference)
    if is_chosen and len([*folder.parent.glob(f"[!.]*/{CONFIG}")]) > 1:
        click.echo(f"{reference}: the best checkpoint is {folder.name}", err=True)
    return folder
