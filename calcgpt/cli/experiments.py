"""The command that compares variants.

The command that searches hyperparameters.

Commands for people who run experiments.
"""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

import click

from calcgpt.cli.options import named_paths


@click.command()
@click.option("--suite", required=True, help="A name, as below, or a TOML file.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of the runs.")
@click.option("--data", multiple=True, metavar="TASK=FOLDER", callback=named_paths,
              help="A task's data, in place of what the suite says. Repeatable.")  # fmt: skip
@click.option("--only", multiple=True, metavar="TASK[/VARIANT]",
              help="Only these of the suite. Repeatable.")  # fmt: skip
@click.option("--seed", "seeds", multiple=True, type=click.IntRange(0, 2**63 - 1),
              help="In place of the suite's seeds. Repeatable.")  # fmt: skip
@click.option("--set", "overrides", multiple=True, metavar="FIELD=VALUE",
              help="Override a field in every run, as train.steps=500. Repeatable.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(1, 256),
              help="Runs at a time.  [default: as there are GPUs, or cores]")  # fmt: skip
@click.option("--threads", default=1, show_default=True, type=click.IntRange(min=1),
              help="CPU threads of a run.")  # fmt: skip
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1 ...")
@click.option("--quiet", is_flag=True, help="No progress.")
def ablate(
    suite: str, out: Path, data: dict[str, Path], only: tuple[str, ...], seeds: tuple[int, ...],
    overrides: tuple[str, ...], jobs: int | None, threads: int, device: str, quiet: bool,
) -> None:  # fmt: skip
    """Train every variant of a suite with several seeds, and compare them in OUT/report.md.

    The same command continues what was interrupted, and repeats no run that is done; with other
    seeds it adds to them. Suites: attention, blog, feedforward, nano, positions.
    """
    from calcgpt.lab.ablate import ablate as run
    from calcgpt.lab.suite import load_suite

    loaded = load_suite(suite)
    if seeds:
        loaded = loaded.model_copy(update={"seeds": list(dict.fromkeys(seeds))})
    files = run(
        loaded, out, data=data, only=only, overrides=overrides, device=device, n_process=jobs,
        threads=threads, progress=not quiet,
    )  # fmt: skip
    for file in files:
        click.echo(str(file))


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
    from calcgpt.lab.space import load_space
    from calcgpt.lab.sweep import Resources, prepare

    loaded = load_space(space, trials=trials, seed=seed)
    prepare(address)  # before Ray is imported
    from calcgpt.lab.sweep import sweep as run
    from calcgpt.lab.sweep_report import MOST_ROWS, counts, how, table

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


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path),
              help="Draw the curves over each other, as compare.png in this folder.")  # fmt: skip
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the numbers.")
def compare(folders: tuple[Path, ...], out: Path | None, json_file: Path | None) -> None:
    """Compare runs: what each came to, and in what their recipes differ.

    FOLDERS are what `train --out` named. The validation loss is the lowest; scores are those of the
    validation with the highest exact match, as a checkpoint is chosen.
    """
    from calcgpt.lab.compare import comparison, comparison_text, draw_comparison, read_runs
    from datagen.files import write_json

    if json_file and not json_file.parent.is_dir():
        raise click.UsageError(f"{json_file.parent} is no folder to write {json_file.name} to")
    runs = read_runs(folders)
    files = draw_comparison(runs, out) if out else []
    if json_file:
        write_json(json_file, comparison(runs))
        files.append(json_file)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    click.echo(comparison_text(runs, width))
    for file in files:
        click.echo(str(file))


COMMANDS = [ablate, compare, sweep]
