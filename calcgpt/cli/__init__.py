"""The command line: the group of all commands, and how errors are printed.

Each command is a thin wrapper around one function, which it imports when it is called.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any, NoReturn

import click

from calcgpt.cli import checkpoints, data, experiments, training
from calcgpt.cli.calc import calc
from datagen.errors import UserError


class OneLineErrors(click.Group):
    """A group that prints every error of a user as one line on stderr, with exit code 2."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["standalone_mode"] = False
        logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
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
            sys.exit(130)
        except BrokenPipeError:  # the reader has closed its end, as `| head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        except OSError as error:
            _fail(f"{error.filename or 'file'}: {error.strerror or error}")


def _fail(message: str) -> NoReturn:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(2)


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="calcgpt")
def cli() -> None:
    """A calculator whose answers come from a small GPT, and the laboratory it is made in.

    A CHECKPOINT is the name of a shipped one, a folder, or `best`: the one with the highest
    validation exact match.
    """


for module in (data, training, checkpoints, experiments):
    for command in module.COMMANDS:
        cli.add_command(command)
cli.add_command(calc)


class ServeCommand(click.Command):
    """A command whose options are the service's settings.

    They are looked up only when they are needed, so that no other command imports the service.
    """

    def get_params(self, context: click.Context) -> list[click.Parameter]:
        from api.settings import options

        return [*options(), *super().get_params(context)]


@cli.command(cls=ServeCommand)
@click.option(
    "--show-config", is_flag=True, help="Print the settings with secrets masked, and exit."
)
def serve(show_config: bool, **flags: Any) -> None:
    """Serve the calculator over HTTP, with a page to use it on.

    Each option can also be set in the environment: CALCGPT_PORT for --port, and so on.
    """
    from api.server import run
    from api.settings import load_settings

    settings = load_settings({name: value for name, value in flags.items() if value is not None})
    if show_config:
        click.echo(json.dumps(settings.masked(), indent=2))
    else:
        run(settings)


@cli.command()
@click.option("--checkpoint", default="best", show_default=True, help="A folder, name or `best`.")
@click.option(
    "--engine",
    default="auto",
    show_default=True,
    help="What runs the model: native, onnxruntime, torch, or auto: native if it can, else torch.",
)
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Serve over HTTP on this machine, under /mcp, instead of stdin and stdout.",
)
def mcp(checkpoint: str, engine: str, port: int | None) -> None:
    """Serve the calculator as tools for assistants (Model Context Protocol)."""
    from api.mcp_server import serve_http, tools
    from calcgpt.checkpoint import StoredCheckpoint, resolve
    from calcgpt.inference.calculator import Calculator
    from calcgpt.inference.engines import load_decoder

    stored = StoredCheckpoint.read(resolve(checkpoint))
    _, decoder = load_decoder(stored, engine, threads=1, among=("native", "torch"))
    calculator = Calculator(stored, decoder)
    if port is None:
        tools(calculator).run("stdio")
    else:
        serve_http(calculator, port)
