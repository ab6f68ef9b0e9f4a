"""Commands that make data."""

from __future__ import annotations

from pathlib import Path

import click

DEFAULT = "problems"


class Datagen(click.Group):
    """Where no subcommand is named, DEFAULT is meant: `datagen OUT` is `datagen problems OUT`."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        named = args and args[0] in (*self.commands, *context.help_option_names)
        return super().parse_args(context, args if named else [DEFAULT, *args])

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """What there is, and the options of DEFAULT: nobody has to know its name."""
        super().format_options(context, formatter)
        options = [o for o in self.commands[DEFAULT].params if isinstance(o, click.Option)]
        rows = [row for option in options if (row := option.get_help_record(context))]
        with formatter.section(f"Options of {DEFAULT}"):
            formatter.write_dl(rows)


@click.group(
    cls=Datagen,
    options_metavar="",
    subcommand_metavar="[problems] OUT [OPTIONS] | text [OUT] --source SOURCE [OPTIONS]",
)
def datagen() -> None:
    """Make data to train on: arithmetic problems, or a plain text.

    `datagen OUT` makes problems; `datagen text --help` has the options of texts. Where OUT is to be
    called problems or text, write ./problems or ./text.
    """


@datagen.command(short_help="Arithmetic problems: what is meant where neither is named.")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--train", default=3_000_000, show_default=True, help="Training problems.")
@click.option("--val", default=10_000, show_default=True, help="Validation problems.")
@click.option("--test", default=10_000, show_default=True, help="Test problems.")
@click.option("--seed", default=0, show_default=True, help="The data's seed.")
@click.option("--distribution", default="blog", show_default=True, help="Which problems.")
@click.option("--format", "format_", default="direct", show_default=True,
              help="How written: direct, or steps, the work in between.")  # fmt: skip
@click.option("--digits", type=int, help="steps: digits of a number, in hundredths.  [default: 7]")
@click.option("--engine", default="local", show_default=True,
              help="Who computes: local or ray. The bytes are the same.")  # fmt: skip
@click.option("--workers", type=int, help="local: processes; ray: CPUs.  [default: 1; ray: all]")
@click.option("--ray-address", metavar="HOST:PORT",
              help="ray: of a cluster that runs.  [default: one is started here]")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace another data set in OUT.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def problems(
    out: Path, train: int, val: int, test: int, seed: int, distribution: str, format_: str,
    digits: int | None, engine: str, workers: int | None, ray_address: str | None, force: bool,
    quiet: bool,
) -> None:  # fmt: skip
    """Write a data set to OUT: train.txt, val.txt, test.txt and manifest.json.

    No validation or test problem occurs in training, or twice. The same command continues what
    was interrupted.
    """
    from datagen.dataset import DatasetPlan, generate

    plan = DatasetPlan(train, val, test, seed, distribution, format_, digits)
    generate(
        out, plan, workers=workers, engine=engine, ray_address=ray_address,
        force=force, progress=not quiet,
    )  # fmt: skip
    click.echo(f"{out}: {train:,} training, {val:,} validation and {test:,} test problems")


@datagen.command(short_help="A text, from the network or a file.")
@click.argument("out", required=False, type=click.Path(path_type=Path))
@click.option("--source", required=True,
              help="tinyshakespeare, an address of http or https, or a file.")  # fmt: skip
@click.option("--sha256", metavar="HEX", help="What the source must have, or nothing is kept.")
@click.option("--val-share", default=0.1, show_default=True,
              help="The last part of the characters, for validation.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace another data set in OUT.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def text(
    out: Path | None, source: str, sha256: str | None, val_share: float, force: bool, quiet: bool
) -> None:
    """Write a text to OUT: train.txt, val.txt and source.json.

    It is cut once, and not changed otherwise. OUT is data/NAME unless it is given, NAME being the
    source's, or that of its file without the ending. A file called tinyshakespeare is written as
    ./tinyshakespeare. The same command finds what is there; nothing is fetched twice.
    """
    from datagen.splits import Split
    from datagen.text import default_folder, prepare_text

    out = out or default_folder(source)
    record = prepare_text(
        out, source, sha256=sha256, val_share=val_share, force=force, progress=not quiet
    )
    train, val = (record.files[part].characters for part in (Split.TRAIN, Split.VAL))
    click.echo(f"{out}: {train:,} training and {val:,} validation characters")
    click.echo(f"SHA-256 of the source: {record.sha256}")


COMMANDS = [datagen]
