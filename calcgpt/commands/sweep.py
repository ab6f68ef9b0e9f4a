"""The command that searches hyperparameters."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import click


@click.command()
@click.argument("space")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The sweep's folder.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="The data's folder; default: problems drawn anew, as the recipe's [data] says.",
)
@click.option("--trials", type=click.IntRange(1, 100_000), help="In place of the space's number.")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), help="In place of the space's seed.")
@click.option("--concurrent", type=click.IntRange(1, 10_000),
              help="Trials at a time.  [default: as there is room]")  # fmt: skip
@click.option("--cpus-per-trial", default=1, show_default=True, type=click.IntRange(1, 4096),
              help="Of Ray's CPUs; a trial has as many threads.")  # fmt: skip
@click.option("--gpus-per-trial", default=0.0, show_default=True, type=click.FloatRange(0, 64),
              help="0.5: two trials share a GPU.")  # fmt: skip
@click.option(
    "--address",
    help="A Ray cluster's, as 10.0.0.1:6379 or auto; --out and --data must lie on storage that all "
    "its machines share.  [default: Ray on this machine alone]",
)
@click.option("--quiet", is_flag=True, help="No progress.")
def sweep(
    space: str, out: Path, data: Path | None, trials: int | None, seed: int | None,
    concurrent: int | None, cpus_per_trial: int, gpus_per_trial: float, address: str | None,
    quiet: bool,
) -> None:  # fmt: skip
    """Search the hyperparameters of SPACE with Ray Tune: a name, or a TOML file.

    The table of trials is OUT/report.md, the best of them, as a recipe, OUT/best.toml. The same
    command continues what was interrupted. Spaces: blog, nano.
    """
    from calcgpt.sweep.cluster import Resources, prepare
    from calcgpt.sweep.space import load_space

    loaded = load_space(space, trials=trials, seed=seed)
    prepare(address)  # before Ray is imported
    from calcgpt.sweep.report import MOST_ROWS, counts, how, table
    from calcgpt.sweep.run import sweep as run

    resources = Resources(cpus_per_trial, gpus_per_trial, concurrent)
    try:
        found = run(loaded, out, data, resources, address=address, progress=not quiet)
    except KeyboardInterrupt as stop:
        click.echo("interrupted: the same command continues", err=True)
        sys.exit(128 + (stop.args[0] if stop.args else signal.SIGINT))
    click.echo(f"{counts(found.trials)}. {how(loaded, found.algorithm)}")
    click.echo(table(loaded, found.trials, MOST_ROWS))
    for file in found.files:
        click.echo(str(file))


COMMANDS = [sweep]
