"""Commands that train many models, and compare runs."""

import signal
import sys
from pathlib import Path
from typing import Any

import click

from calcgpt.cli import options
from calcgpt_lab.cli import lab_options


@click.command()
@click.option(
    "--suite",
    required=True,
    shell_complete=lab_options.complete_suite,
    help="A name from the list above, or a TOML file.",
)
@lab_options.out_option("The folder for all runs and the report.")
@click.option(
    "--data",
    multiple=True,
    metavar="TASK=FOLDER",
    callback=lab_options.named_paths,
    help="Use this data for a task, instead of the suite's. Repeatable.",
)
@click.option("--only", multiple=True, metavar="TASK[/VARIANT]", help="Run only these. Repeatable.")
@click.option(
    "--seed",
    "seeds",
    multiple=True,
    type=lab_options.SEED,
    help="Use this seed, instead of the suite's. Repeatable.",
)
@lab_options.set_option("Override a field in every run: train.steps=500.")
@click.option(
    "--jobs",
    "n_process",
    type=click.IntRange(1, 256),
    help="Runs at a time.  [default: one per GPU or core]",
)
@lab_options.threads_option("CPU threads of each run.", default=1)
@lab_options.device_option
@options.plugin_option
@options.quiet_option
def ablate(suite: str, out: Path, seeds: tuple[int, ...], quiet: bool, **choices: Any) -> None:
    """Train every variant of a suite with several seeds, and compare them in OUT/report.md.

    The same command continues after an interruption and does not repeat finished runs. Other seeds
    add runs. Suites: attention, blog, feedforward, nano, positions,
    presets.
    """
    from calcgpt.base.extras import require

    require("an ablation", "torch", "matplotlib")
    from calcgpt_lab.studies.ablate import ablate as run
    from calcgpt_lab.studies.suite import load_suite

    loaded = load_suite(suite)
    if seeds:
        loaded = loaded.model_copy(update={"seeds": list(dict.fromkeys(seeds))})
    files = run(loaded, out, progress=not quiet, **choices)
    lab_options.echo_report(tables_of(out / "report.md"), files)


def tables_of(report: Path) -> str:
    """Returns the tables of a report in Markdown, each with its heading."""
    from calcgpt.base.files import read_text

    parts = read_text(report).split("\n\n") if report.is_file() else []
    return "\n\n".join(part.strip() for part in parts if part.startswith(("## ", "| ")))


@click.command()
@click.argument("space", shell_complete=lab_options.complete_space)
@lab_options.out_option("The folder of the sweep.")
@lab_options.data_option
@click.option(
    "--trials", type=click.IntRange(1, 100_000), help="Number of trials.  [default: the space's]"
)
@click.option(
    "--seed", type=click.IntRange(0, 2**31 - 1), help="Seed of the search.  [default: the space's]"
)
@click.option(
    "--concurrent",
    type=click.IntRange(1, 10_000),
    help="Trials at a time.  [default: as many as fit]",
)
@click.option(
    "--cpus-per-trial",
    "cpus",
    default=1,
    type=click.IntRange(1, 4096),
    help="CPUs, and threads, of each trial.",
)
@click.option(
    "--gpus-per-trial",
    "gpus",
    default=0.0,
    type=options.Number(0, 64),
    help="GPUs of each trial; with 0.5, two trials share one.",
)
@click.option(
    "--address",
    help="A running Ray cluster: 10.0.0.1:6379 or auto. All its machines must share --out and "
    "--data.  [default: start Ray on this machine]",
)
@options.quiet_option
def sweep(
    space: str,
    out: Path,
    data: Path | None,
    trials: int | None,
    seed: int | None,
    address: str | None,
    quiet: bool,
    **resources: Any,
) -> None:
    """Search the hyperparameters of SPACE, a name or a TOML file, with Ray Tune.

    OUT/report.md lists the trials and OUT/best.toml is the best one as a recipe. The same command
    continues after an interruption. Spaces: blog, nano.
    """
    from calcgpt.base.extras import require

    require("a sweep", "torch", "ray", "optuna")
    from calcgpt_lab.studies.space import load_space
    from calcgpt_lab.studies.sweep import Resources
    from calcgpt_lab.studies.sweep import sweep as run

    loaded = load_space(space, trials=trials, seed=seed)
    try:
        files = run(loaded, out, data, Resources(**resources), address=address, progress=not quiet)
    except KeyboardInterrupt:
        click.echo("interrupted; the same command continues", err=True)
        sys.exit(128 + signal.SIGINT)
    lab_options.echo_report(tables_of(out / "report.md"), files)


@click.command()
@click.argument("folders", nargs=-1, required=True, type=options.PATH)
@click.option(
    "--out",
    type=options.PATH,
    callback=options.output_folder,
    help="Draw the curves as compare.png in this folder.",
)
@lab_options.json_option("Write the numbers to this file.")
@options.plugin_option
def compare(folders: tuple[Path, ...], out: Path | None, json_file: Path | None) -> None:
    """Compare runs: their results, and how their recipes differ.

    FOLDERS are the folders of `train --out`. The table gives the lowest validation loss, and the
    scores of the validation with the highest exact match.
    """
    from calcgpt_lab.plots import check_matplotlib, draw_curves, save_figures
    from calcgpt_lab.records import curves
    from calcgpt_lab.studies.compare import comparison, comparison_text, read_runs

    if out:
        check_matplotlib()

    runs = read_runs(folders)
    drawn = {run.name: curves(run.rows) for run in runs}
    files = save_figures(out, {"compare": lambda: draw_curves(drawn)}) if out else []
    lab_options.echo_report(comparison_text(runs), files, json_file, comparison(runs))
