"""The commands `calcgpt serve` and `calcgpt mcp`, which are entry points in pyproject.toml.

They import the service when they are called, so that the help of `calcgpt` is fast.
"""

import sys
from typing import Any

import click

from calcgpt.cli.options import checkpoint_option, complete_checkpoint, engine_option, plugin_option


class ServeCommand(click.Command):
    """A command whose options are the service's settings, looked up when it is called."""

    def get_params(self, context: click.Context) -> list[click.Parameter]:
        from api.settings import options

        return [*options({"checkpoint": complete_checkpoint}), *super().get_params(context)]


@click.command(cls=ServeCommand)
@click.option(
    "--show-config", is_flag=True, help="Print the settings with secrets masked, and exit."
)
def serve(show_config: bool, **flags: Any) -> None:
    """Serve the calculator over HTTP, with a web page.

    Each option can also be set in the environment: CALCGPT_PORT for --port, and so on.
    """
    from api.server import run
    from api.settings import load_settings
    from calcgpt.registry import resolve

    given = {name: value for name, value in flags.items() if value is not None}
    settings = load_settings(given).with_hosts()
    if show_config:
        resolve(settings.checkpoint)  # raises UserError if there is none, as serving does
        click.echo(settings.model_dump_json(indent=2))  # with secrets masked
    else:
        run(settings)


@click.command()
@checkpoint_option
@engine_option
@plugin_option
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Serve over HTTP on this machine, under /mcp, instead of stdin and stdout.",
)
def mcp(checkpoint: str, engine: str, port: int | None) -> None:
    """Serve the calculator as tools for assistants (Model Context Protocol)."""
    from calcgpt.base.extras import require

    require("`calcgpt mcp`", "mcp")
    from api.mcp_server import serve_http, serve_stdio
    from calcgpt.base.errors import UserError
    from calcgpt.inference.calculator import Calculator

    if port is None and sys.stdin is None:
        raise UserError("standard input is closed")
    calculator = Calculator.load(checkpoint, engine)
    if port is None:
        serve_stdio(calculator)
    else:
        serve_http(calculator, port)
