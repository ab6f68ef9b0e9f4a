"""Commands that make data sets."""

from pathlib import Path

import click

from calcgpt.base.errors import UserError
from calcgpt.cli.options import PATH, force_option, plugin_option, quiet_option

DEFAULT = "problems"


class DatagenGroup(click.Group):
    """A group with a default subcommand: `datagen OUT` is `datagen problems OUT`."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        names_one = args and args[0] in (*self.commands, *context.help_option_names)
        return super().parse_args(context, args if names_one else [DEFAULT, *args])

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Also writes the options of the default subcommand, because users may omit its name."""
        super().format_options(context, formatter)
        options = [o for o in self.commands[DEFAULT].params if isinstance(o, click.Option)]
        rows = [row for option in options if (row := option.get_help_record(context))]
        with formatter.section(f"Options of {DEFAULT}"):
            formatter.write_dl(rows)


@click.group(
    cls=DatagenGroup,
    options_metavar="",
    subcommand_metavar="[problems] OUT [OPTIONS] | text [OUT] --source SOURCE [OPTIONS]",
)
def datagen() -> None:
    """Make data to train on: arithmetic problems or plain text.

    `datagen OUT` makes problems; `datagen text --help` lists the options for text. To use a folder
    named problems or text as OUT, write ./problems or ./text.
    """


@datagen.command(short_help="Arithmetic problems (the default).")
@click.argument("out", type=PATH)
@click.option("--train", default=3_000_000, show_default=True, help="Training problems.")
@click.option("--val", default=10_000, show_default=True, help="Validation problems.")
@click.option("--test", default=10_000, show_default=True, help="Test problems.")
@click.option("--seed", default=0, show_default=True, help="Seed of the data set.")
@click.option(
    "--distribution",
    default="blog",
    show_default=True,
    help="blog, calculator, everyday, tricky-5, wide, wide-12, wide-16 or wide-40.",
)
@click.option(
    "--format",
    "format_",
    default="direct",
    show_default=True,
    help="direct: the answer alone; scratchpad: worked steps before the answer; "
    "scratchpad-second-choices, for training: the same, but some digits of quotients are the "
    "second nearest.",
)
@click.option(
    "--places",
    type=int,
    help="Decimal places that all problems ask for, 0 to 30.  [default: those of the distribution]",
)
@click.option(
    "--engine",
    default="local",
    show_default=True,
    help="What computes the problems: local or ray. Both write the same bytes.",
)
@click.option("--workers", type=int, help="local: processes; ray: CPUs.  [default: 1; ray: all]")
@click.option(
    "--ray-address",
    metavar="HOST:PORT",
    help="ray: a running cluster.  [default: start one on this machine]",
)
@force_option("another data set in OUT")
@quiet_option
@plugin_option
def problems(
    out: Path,
    train: int,
    val: int,
    test: int,
    seed: int,
    distribution: str,
    format_: str,
    places: int | None,
    engine: str,
    workers: int | None,
    ray_address: str | None,
    force: bool,
    quiet: bool,
) -> None:
    """Write a data set to OUT: train.txt, val.txt, test.txt and manifest.json.

    No validation or test problem occurs in the training data, and none occurs twice. The files
    appear when all of them are whole.
    """
    from calcgpt_lab.data.dataset import DatasetPlan, generate

    if ray_address is not None and engine == "local":
        raise UserError("--ray-address is for --engine ray")
    plan = DatasetPlan(train, val, test, seed, distribution, format_, places)
    generate(
        out,
        plan,
        workers=workers,
        engine=engine,
        ray_address=ray_address,
        force=force,
        progress=not quiet,
    )
    click.echo(f"{out}: {train:,} training, {val:,} validation and {test:,} test problems")


@datagen.command(short_help="Plain text, from a file.")
@click.argument("out", required=False, type=PATH)
@click.option("--source", required=True, type=PATH, help="A file in UTF-8.")
@click.option(
    "--val-share",
    default=0.1,
    show_default=True,
    help="Share of the characters for validation, taken from the end.",
)
@force_option("another data set in OUT")
def text(out: Path | None, source: Path, val_share: float, force: bool) -> None:
    """Write a text to OUT: train.txt, val.txt and source.json.

    The text is cut once and not changed otherwise. OUT defaults to data/NAME, where NAME is the
    source's file name without its suffix.
    """
    from calcgpt_lab.data.text import default_folder, prepare_text

    out = out or default_folder(source)
    record = prepare_text(out, source, val_share=val_share, force=force)
    train, val = record.files.train.characters, record.files.val.characters
    click.echo(f"{out}: {train:,} training and {val:,} validation characters")
    click.echo(f"SHA-256 of the source: {record.sha256}")
