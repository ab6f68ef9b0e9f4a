"""Options that several commands share, what a shell completes when a user presses the tab key, and
how a result is printed.

Click completes commands, options and fixed choices itself. This module completes names of files in
the package, and the fields of a recipe with their values.
"""

from __future__ import annotations

import json
import math
import re
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class

Command = TypeVar("Command", bound=Callable[..., Any])
Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


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


NAME = Name()
PATH = NamedPath(path_type=Path)
SEED = click.IntRange(0, 2**63 - 1)
NEGATIVE = re.compile(r"-[-+(\s]*[0-9.]")  # the beginning of an expression such as -5+3


def names_or_files(names: Callable[[], Iterable[str]]) -> Complete:
    """Returns a function that completes names or, if no name matches, the paths of files."""

    def complete(
        context: click.Context, parameter: click.Parameter, typed: str
    ) -> list[CompletionItem]:
        items = [CompletionItem(name) for name in names() if name.startswith(typed)]
        return items or [CompletionItem(typed, type="file")]

    return complete


def _recipes() -> list[str]:
    from calcgpt.recipe import recipe_names

    return recipe_names()


def _suites() -> list[str]:
    from calcgpt.lab.suite import suite_names

    return suite_names()


def _spaces() -> list[str]:
    from calcgpt.lab.space import space_names

    return space_names()


def _checkpoints() -> list[str]:
    from calcgpt.registry import shipped_names

    return ["best", *shipped_names()]


def _engines() -> list[str]:
    from calcgpt.inference.engines import AUTO, ENGINES

    return [AUTO, *ENGINES]


complete_engine = names_or_files(_engines)
complete_recipe = names_or_files(_recipes)
complete_suite = names_or_files(_suites)
complete_space = names_or_files(_spaces)
complete_checkpoint = names_or_files(_checkpoints)


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
    from calcgpt.config import DataConfig, ModelConfig, Recipe, Section, TrainConfig

    def fields_of(section: type[Section]) -> dict[str, list[str]]:
        return {
            name: _values(field.annotation, field.get_default(call_default_factory=False))
            for name, field in section.model_fields.items()
        }

    sections = {
        "model": fields_of(ModelConfig),
        "train": fields_of(TrainConfig),
        "data": fields_of(DataConfig),
    }
    return {**fields_of(Recipe), **sections}


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


class Number(click.FloatRange):
    """A finite number in a range. Click would accept NaN, because no comparison with a bound is
    true."""

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


def output_file(
    context: click.Context, parameter: click.Parameter, value: Path | None
) -> Path | None:
    """Returns the path of a file to write. Raises UserError if that cannot be done, before any work
    begins."""
    from datagen.files import check_output_file

    if value:
        check_output_file(value)
    return value


def output_folder(
    context: click.Context, parameter: click.Parameter, value: Path | None
) -> Path | None:
    """Returns the path of a folder to write to. Raises as `output_file`."""
    from datagen.files import check_output_folder

    if value:
        check_output_folder(value)
    return value


def json_option(help_text: str) -> Callable[[Command], Command]:
    """`--json FILE`, as the parameter `json_file`; see `output_file`."""
    return click.option("--json", "json_file", type=PATH, callback=output_file, help=help_text)


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


def seed_option(what: str) -> Callable[[Command], Command]:
    """`--seed`, 0 by default: the seed of the problems, or of the sampling."""
    return click.option(
        "--seed", default=0, show_default=True, type=SEED, help=f"Seed of the {what}."
    )


def threads_option(what: str, default: int | None = None) -> Callable[[Command], Command]:
    """`--threads`, all cores by default. `what` says whose threads they are."""
    most = click.IntRange(1, 1024)  # the same limit as in the service
    return click.option("--threads", default=default, show_default=True, type=most, help=what)


def force_option(what: str) -> Callable[[Command], Command]:
    """`--force`, which allows the command to replace `what`."""
    return click.option("--force", is_flag=True, help=f"Replace {what}.")


def drawing_option(what: str) -> Callable[[Command], Command]:
    """`--out FOLDER`, in which `what` is drawn."""
    return click.option(
        "--out", type=PATH, callback=output_folder, help=f"Draw {what} in this folder."
    )


def out_option(help_text: str) -> Callable[[Command], Command]:
    """`--out FOLDER`, which the command needs; see `output_folder`."""
    return click.option("--out", required=True, type=PATH, callback=output_folder, help=help_text)


out_argument = click.argument("out", type=PATH, callback=output_folder)
checkpoint_argument = click.argument("checkpoint", type=NAME, shell_complete=complete_checkpoint)
checkpoint_option = click.option(
    "--checkpoint",
    type=NAME,
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
scoring_engine_option = click.option(
    "--engine",
    shell_complete=complete_engine,
    help="The engine that decodes: torch or, on the CPU, native, onnxruntime or auto.  "
    "[default: torch, or native without it]",
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


def given_options() -> set[str]:
    """Returns the parameters of the running command that the command line gives, by name."""
    context = click.get_current_context()
    given = click.core.ParameterSource.COMMANDLINE
    return {name for name in context.params if context.get_parameter_source(name) is given}


def echo_report(
    text: str, drawn: list[Path], json_file: Path | None, record: dict[str, Any]
) -> None:
    """Writes the record if --json is given. Prints the text, then the paths of the files."""
    from datagen.files import write_json

    if json_file:
        write_json(json_file, record)
    click.echo(text)
    for file in filter(None, (*drawn, json_file)):
        click.echo(str(file))


def signal_of(stop: BaseException) -> int:
    """Returns the number of the signal behind a KeyboardInterrupt, or behind click's Abort: the
    argument of the interrupt (see `datagen.ray_cluster`), or SIGINT."""
    if isinstance(stop, click.Abort):
        stop = stop.__cause__ or stop
    return next((arg for arg in stop.args if isinstance(arg, int)), signal.SIGINT)
