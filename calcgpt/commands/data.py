"""Commands that make data."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--train", default=3_000_000, show_default=True, help="Training problems.")
@click.option("--val", default=10_000, show_default=True, help="Validation problems.")
@click.option("--test", default=10_000, show_default=True, help="Test problems.")
@click.option("--seed", default=0, show_default=True, help="The data's seed.")
@click.option("--distribution", default="blog", show_default=True, help="Which problems.")
@click.option("--format", "format_", default="direct", show_default=True,
              help="How written: direct, or steps, the work in between.")  # fmt: skip
@click.option("--digits", type=int, help="steps: digits of a number, in hundredths.  [default: 7]")
@click.option("--workers", default=1, show_default=True, help="Processes; the bytes are the same.")
@click.option("--force", is_flag=True, help="Replace another data set in OUT.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def datagen(
    out: Path, train: int, val: int, test: int, seed: int, distribution: str, format_: str,
    digits: int | None, workers: int, force: bool, quiet: bool,
) -> None:  # fmt: skip
    """Write a data set to OUT: train.txt, val.txt, test.txt and manifest.json.

    No validation or test problem occurs in training, or twice. The same command continues what
    was interrupted.
    """
    from datagen.dataset import DatasetPlan, generate

    plan = DatasetPlan(train, val, test, seed, distribution, format_, digits)
    generate(out, plan, workers=workers, force=force, progress=not quiet)
    click.echo(f"{out}: {train:,} training, {val:,} validation and {test:,} test problems")


COMMANDS = [datagen]
