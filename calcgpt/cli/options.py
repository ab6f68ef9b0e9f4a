"""Options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from calcgpt.cli.completion import complete_checkpoint, complete_engine, complete_field

Command = TypeVar("Command", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)
SEED = click.IntRange(0, 2**63 - 1)


NEGATIVE = re.compile(r"-[-+(\s]*[0-9.]")  # the beginning of an expression such as -5+3


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


def named_paths(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, Path]:
    """Returns repeated NAME=PATH values as a dict. Raises BadParameter for any other value, and for
    a name that is given twice."""
    paths: dict[str, Path] = {}
    for value in values:
        name, _, path = value.partition("=")
        if not (re.fullmatch(r"[\w.+-]+", name) and path):
            raise click.BadParameter(f"{value!r} is not of the form {parameter.metavar}")
        if name in paths:
            raise click.BadParameter(f"{name!r} is given twice")
        paths[name] = Path(path)
    return paths


def in_a_folder(
    context: click.Context, parameter: click.Parameter, value: Path | None
) -> Path | None:
    """Returns the path of a file to write. Raises UsageError if its folder does not exist, before
    any work begins."""
    if value and not value.parent.is_dir():
        raise click.UsageError(f"{value.parent} is not a folder: cannot write {value.name} there")
    return value


def json_option(help_text: str) -> Callable[[Command], Command]:
    """`--json FILE`, as the parameter `json_file`; its folder must exist before any work begins."""
    return click.option("--json", "json_file", type=PATH, callback=in_a_folder, help=help_text)


def set_option(help_text: str) -> Callable[[Command], Command]:
    """`--set FIELD=VALUE`, repeatable, as the parameter `overrides`."""
    return click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="FIELD=VALUE",
        shell_complete=complete_field,
        help=f"{help_text} Repeatable.",
    )


def seed_option(of: str) -> Callable[[Command], Command]:
    """`--seed`, 0 by default: the seed of the problems, or of the sampling."""
    return click.option(
        "--seed", default=0, show_default=True, type=SEED, help=f"Seed of the {of}."
    )


def force_option(what: str) -> Callable[[Command], Command]:
    """`--force`, which allows to replace `what`."""
    return click.option("--force", is_flag=True, help=f"Replace {what}.")


def drawing_option(what: str) -> Callable[[Command], Command]:
    """`--out FOLDER`, in which `what` is drawn."""
    return click.option("--out", type=PATH, help=f"Draw {what} in this folder.")


checkpoint_argument = click.argument("checkpoint", shell_complete=complete_checkpoint)
checkpoint_option = click.option(
    "--checkpoint",
    default="best",
    show_default=True,
    shell_complete=complete_checkpoint,
    help="A folder, name or `best`.",
)
engine_option = click.option(
    "--engine",
    default="auto",
    show_default=True,
    shell_complete=complete_engine,
    help="What runs the model: native, onnxruntime, torch, or auto: native if it can, else torch.",
)
device_option = click.option(
    "--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1 ..."
)
quiet_option = click.option("--quiet", is_flag=True, help="Show no progress.")
task_option = click.option(
    "--task",
    metavar="FILE",
    help="A task of your own: a text file of question=answer lines, or FILE.py:NAME, which is run.",
)
data_option = click.option(
    "--data",
    type=PATH,
    help="The folder of a data set.  [default: draw fresh problems, as the recipe's [data] says]",
)
