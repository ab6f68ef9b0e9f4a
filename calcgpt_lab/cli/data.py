"""The command that makes data sets."""

from pathlib import Path
from typing import Any

import click

from calcgpt.cli.options import PATH, force_option, plugin_option, quiet_option


@click.command()
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
@click.option("--workers", default=1, show_default=True, help="Number of processes.")
@force_option("another data set in OUT")
@quiet_option
@plugin_option
def datagen(out: Path, workers: int, force: bool, quiet: bool, **fields: Any) -> None:
    """Write a data set to OUT: train.txt, val.txt, test.txt and manifest.json.

    No validation or test problem occurs in the training data, and none occurs twice. The files
    appear when all of them are whole.
    """
    from calcgpt.section import build
    from calcgpt_lab.data.dataset import DatasetPlan, generate

    plan = build(DatasetPlan, fields, "datagen")
    generate(out, plan, workers=workers, force=force, progress=not quiet)
    sizes = f"{plan.train:,} training, {plan.val:,} validation and {plan.test:,} test problems"
    click.echo(f"{out}: {sizes}")
