"""Options that several commands of the laboratory share, and how a result is printed."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from calcgpt.base.files import check_output_file
from calcgpt.cli.options import (
    ARGUMENTS,
    PATH,
    Command,
    checked,
    complete_engine,
    names_or_files,
    output_folder,
    program,
)

SEED = click.IntRange(0, 2**63 - 1)
output_file = checked(check_output_file)
complete_recipe = names_or_files("calcgpt_lab.recipe:RECIPES")
complete_suite = names_or_files("calcgpt_lab.studies.suite:SUITES")
complete_space = names_or_files("calcgpt_lab.studies.space:SPACES")


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


def set_option(help_text: str) -> Callable[[Command], Command]:
    """`--set FIELD=VALUE`, repeatable, as the parameter `overrides`."""
    names = ("--set", "overrides")
    help_text = f"{help_text} Repeatable."
    return click.option(*names, multiple=True, metavar="FIELD=VALUE", help=help_text)


def threads_option(what: str, default: int | None = None) -> Callable[[Command], Command]:
    """`--threads`, all cores by default. `what` says whose threads they are."""
    most = click.IntRange(1, 1024)  # the same limit as in the service
    return click.option("--threads", default=default, type=most, help=what)


def json_option(help_text: str) -> Callable[[Command], Command]:
    """`--json FILE`, as the parameter `json_file`."""
    return click.option("--json", "json_file", type=PATH, callback=output_file, help=help_text)


def seed_option(what: str) -> Callable[[Command], Command]:
    """`--seed`, 0 by default: the seed of the problems, or of the sampling."""
    return click.option("--seed", default=0, type=SEED, help=f"Seed of the {what}.")


def out_option(help_text: str) -> Callable[[Command], Command]:
    """`--out FOLDER`, which the command needs."""
    return click.option("--out", required=True, type=PATH, callback=output_folder, help=help_text)


scoring_engine_option = click.option(
    "--engine",
    default="auto",
    shell_complete=complete_engine,
    help="What decodes: cases, on the CPU; torch; or auto: cases if it can, else torch.",
)
device_option = click.option("--device", default="auto", help="auto, cpu, cuda, cuda:1 ...")
task_option = click.option(
    "--task",
    metavar="FILE",
    help="A task of your own: a text file of question=answer lines, or FILE.py:NAME, which is run.",
)
data_option = click.option(
    "--data",
    type=PATH,
    help="The folder of a data set, or a text.  [default: fresh problems, as the recipe's [data] "
    "says]",
)


def resuming() -> str:
    """Returns the command that continues the run of this one, ready to be pasted."""
    given = click.get_current_context().meta[ARGUMENTS]
    others = [word for word in given if word not in ("--force", "--resume")]
    return shlex.join([*program(), *others, "--resume"])


def echo_report(
    text: str,
    files: list[Path],
    json_file: Path | None = None,
    record: dict[str, Any] | None = None,
) -> None:
    """Writes the record if --json is given. Prints the text, then the paths of all files."""
    from calcgpt.base.files import write_json

    if json_file:
        write_json(json_file, record)
    click.echo(text)
    for file in filter(None, (*files, json_file)):
        click.echo(str(file))
