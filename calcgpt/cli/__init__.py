"""The command line: the group of all commands, and how errors are printed.

Each command is a thin wrapper around one function, which it imports when it is called.
"""

import logging
import os
import re
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from calcgpt import __version__
from calcgpt.base.errors import UserError, file_error, one_line
from calcgpt.base.extras import install_line, is_installed
from calcgpt.base.plugins import extensions
from calcgpt.cli.calc import calc
from calcgpt.cli.export import export
from calcgpt.cli.options import ARGUMENTS, NEGATIVE
from calcgpt.cli.proof import prove

STDOUT = 1
OUT_OF_MEMORY = re.compile("out of memory|can't allocate memory")  # in torch's RuntimeErrors
ENTRY_POINTS = "calcgpt.commands"
NAME_OF_COMMAND = re.compile(r"[A-Za-z][\w.-]*")  # an expression has signs or spaces
# Pydantic would look for plugins in all installed packages, which delays the first answer. To use a
# plugin, set this variable to another value.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
# Threads of torch that wait for others sleep. While they spin, they take the core of another
# process, or of the thread that they wait for: a small product takes several times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
SECTIONS = {  # of the help
    "Calculate": ("calc", "serve", "mcp"),
    "Make a model": ("recipes", "datagen", "train", "eval", "generate", "publish", "export"),
    "Look at a model": ("info", "inspect", "prove"),
    "Compare and search": ("compare", "ablate", "sweep"),
}


class Commands(click.Group):
    """The commands of this package, and those that others add to it by entry points
    `calcgpt.commands`, as the service and the laboratory do (`api.commands`, `calcgpt_lab.cli`).

    Prints every error of a user as one line on stderr, with exit code 2.
    """

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted([*super().list_commands(context), *extensions(ENTRY_POINTS)])

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if command := super().get_command(context, name):
            return command
        added = extensions(ENTRY_POINTS).get(name)
        return added.load() if added else None

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        """Takes what looks like an expression for one: `calcgpt "12.5*3"` calculates, and so does
        `echo "12.5*3" | calcgpt`."""
        context.meta[ARGUMENTS] = list(args)
        calculates = _calculates(args) if args else _is_piped() and not context.resilient_parsing
        return super().parse_args(context, ["calc", *args] if calculates else args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands in SECTIONS, each with the first sentence of its help."""
        commands = {name: self.get_command(context, name) for name in self.list_commands(context)}
        others = commands.keys() - {name for names in SECTIONS.values() for name in names}
        for title, names in {**SECTIONS, "Others": sorted(others)}.items():
            if rows := [(name, command) for name in names if (command := commands.get(name))]:
                with formatter.section(title):
                    formatter.write_dl([(n, c.get_short_help_str(limit=200)) for n, c in rows])

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _ends_with_its_reader():  # --help writes here
            return super().make_context(*args, **kwargs)

    def invoke(self, context: click.Context) -> Any:
        with _ends_with_its_reader():
            return super().invoke(context)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["standalone_mode"] = False
        if sys.stderr is None:  # closed by the shell: 2>&-
            sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115  # until the end
        if sys.stdout is None:
            _fail("standard output is closed")
        _check_encoding(args[0] if args else kwargs.get("args"))
        logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
        # Says why the first answer takes seconds.
        logging.getLogger("calcgpt.inference.cache").setLevel(logging.INFO)
        try:
            return super().main(*args, **kwargs)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            sys.exit(2)
        except click.ClickException as error:
            _fail(error.format_message())
        except UserError as error:
            _fail(str(error))
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted", err=True)
            sys.exit(128 + signal.SIGINT)
        except OSError as error:
            _fail(file_error(error))
        except ModuleNotFoundError as error:
            library = str(error.name).partition(".")[0]
            if is_installed(library):
                raise
            _fail(f"{library} is not installed: {install_line(library)}")
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not OUT_OF_MEMORY.search(str(error)):
                raise
            _fail(
                "not enough memory: in training, a smaller train.batch_size or a larger "
                "train.grad_accum needs less"
            )


def _calculates(arguments: Sequence[str]) -> bool:
    """Returns whether the first argument is an expression, or `-` for those of standard input."""
    first = next((argument for argument in arguments if argument != "--"), "-")
    is_option = first.startswith("-") and not NEGATIVE.match(first)
    is_name = NAME_OF_COMMAND.fullmatch(first.strip()) is not None
    return first == "-" or not (is_option or is_name)


def _is_piped() -> bool:
    return sys.stdin is not None and not sys.stdin.isatty()


@contextmanager
def _ends_with_its_reader() -> Iterator[None]:
    """Ends the process, with exit code 0, if the reader of its output closes the pipe, as `| head`
    does. Click would give exit code 1."""
    try:
        yield
    except BrokenPipeError as error:
        output = select.poll()
        output.register(STDOUT, 0)
        if not output.poll(0):  # another pipe
            raise UserError(file_error(error)) from error
        os.dup2(os.open(os.devnull, os.O_WRONLY), STDOUT)
        sys.exit(0)


def _check_encoding(arguments: Sequence[str] | None) -> None:
    """Ends the process if an argument is not UTF-8: it could be neither printed nor recorded."""
    for argument in sys.argv[1:] if arguments is None else arguments:
        shown = argument.encode("utf-8", "backslashreplace").decode()
        if shown != argument:
            _fail(f"the argument {shown} is not UTF-8")


def _fail(message: str) -> NoReturn:
    click.echo(f"error: {one_line(message)}", err=True)
    sys.exit(2)


SETTINGS = {"help_option_names": ["-h", "--help"], "show_default": True}


@click.group(cls=Commands, context_settings=SETTINGS)
@click.version_option(__version__)
def cli() -> None:
    """A calculator whose answers come from a small GPT, and the laboratory it is made in.

    A CHECKPOINT is the name of a shipped one, a folder, or `best`: the one that is right in every
    case of its rules or, if there is none, has the highest exact match on validation.
    """


for command in (calc, export, prove):
    cli.add_command(command)
