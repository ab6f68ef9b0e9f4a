"""Commands that train many models, and compare runs."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path
from typing import Any, Literal

import click

from calcgpt.cli.options import (
    PATH,
    SEED,
    checkpoint_argument,
    complete_recipe,
    complete_space,
    complete_suite,
    data_option,
    device_option,
    drawing_option,
    engine_option,
    json_option,
    named_paths,
    quiet_option,
    seed_option,
    set_option,
)


@click.command()
@click.option(
    "--suite",
    required=True,
    shell_complete=complete_suite,
    help="A name from the list above, or a TOML file.",
)
@click.option("--out", required=True, type=PATH, help="The folder for all runs and the report.")
@click.option(
    "--data",
    multiple=True,
    metavar="TASK=FOLDER",
    callback=named_paths,
    help="Use this data for a task, instead of the suite's. Repeatable.",
)
@click.option("--only", multiple=True, metavar="TASK[/VARIANT]", help="Run only these. Repeatable.")
@click.option(
    "--seed",
    "seeds",
    multiple=True,
    type=SEED,
    help="Use this seed, instead of the suite's. Repeatable.",
)
@set_option("Override a field in every run: train.steps=500.")
@click.option(
    "--jobs", type=click.IntRange(1, 256), help="Runs at a time.  [default: one per GPU or core]"
)
@click.option(
    "--threads",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    help="CPU threads of each run.",
)
@device_option
@quiet_option
def ablate(
    suite: str,
    out: Path,
    data: dict[str, Path],
    only: tuple[str, ...],
    seeds: tuple[int, ...],
    overrides: tuple[str, ...],
    jobs: int | None,
    threads: int,
    device: str,
    quiet: bool,
) -> None:
    """Train every variant of a suite with several seeds, and compare them in OUT/report.md.

    The same command continues after an interruption and does not repeat finished runs. Other seeds
    add runs. Suites: attention, blog, feedforward, nano, positions.
    """
    from datagen.extras import require

    require("an ablation", "torch", "matplotlib")
    from calcgpt.lab.ablate import ablate as run
    from calcgpt.lab.suite import load_suite

    loaded = load_suite(suite)
    if seeds:
        loaded = loaded.model_copy(update={"seeds": list(dict.fromkeys(seeds))})
    files = run(
        loaded,
        out,
        data=data,
        only=only,
        overrides=overrides,
        device=device,
        n_process=jobs,
        threads=threads,
        progress=not quiet,
    )
    click.echo(tables_of(out / "report.md"))
    for file in files:
        click.echo(str(file))


def tables_of(report: Path) -> str:
    """Returns the tables of a report in Markdown, each with its heading."""
    from datagen.files import read_text

    parts = read_text(report).split("\n\n") if report.is_file() else []
    return "\n\n".join(part.strip() for part in parts if part.startswith(("## ", "| ")))


@click.command()
@click.argument("space", shell_complete=complete_space)
@click.option("--out", required=True, type=PATH, help="The folder of the sweep.")
@data_option
@click.option(
    "--trials", type=click.IntRange(1, 100_000), help="Trials, instead of the space's number."
)
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), help="Seed, instead of the space's.")
@click.option(
    "--concurrent",
    type=click.IntRange(1, 10_000),
    help="Trials at a time.  [default: as many as fit]",
)
@click.option(
    "--cpus-per-trial",
    default=1,
    show_default=True,
    type=click.IntRange(1, 4096),
    help="CPUs, and threads, of each trial.",
)
@click.option(
    "--gpus-per-trial",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0, 64),
    help="GPUs of each trial; with 0.5, two trials share one.",
)
@click.option(
    "--address",
    help="A running Ray cluster: 10.0.0.1:6379 or auto. All its machines must share --out and "
    "--data.  [default: start Ray on this machine]",
)
@quiet_option
def sweep(
    space: str,
    out: Path,
    data: Path | None,
    trials: int | None,
    seed: int | None,
    concurrent: int | None,
    cpus_per_trial: int,
    gpus_per_trial: float,
    address: str | None,
    quiet: bool,
) -> None:
    """Search the hyperparameters of SPACE, a name or a TOML file, with Ray Tune.

    OUT/report.md lists the trials and OUT/best.toml is the best one as a recipe. The same command
    continues after an interruption. Spaces: blog, nano.
    """
    from datagen.extras import require

    require("a sweep", "torch", "ray", "optuna", "matplotlib")
    from calcgpt.lab.space import load_space
    from calcgpt.lab.sweep import sweep as run
    from calcgpt.lab.sweep_report import MAX_ROWS, summary, table
    from calcgpt.lab.trials import Resources

    loaded = load_space(space, trials=trials, seed=seed)
    resources = Resources(cpus_per_trial, gpus_per_trial, concurrent)
    try:
        result = run(loaded, out, data, resources, address=address, progress=not quiet)
    except KeyboardInterrupt as stop:
        click.echo("interrupted; the same command continues", err=True)
        sys.exit(128 + (stop.args[0] if stop.args else signal.SIGINT))
    click.echo(summary(loaded, result.trials, result.algorithm))
    click.echo(table(loaded, result.trials, MAX_ROWS))
    for file in result.files:
        click.echo(str(file))


@click.command()
@click.argument("folders", nargs=-1, required=True, type=PATH)
@drawing_option("the curves as compare.png")
@json_option("Write the numbers to this file.")
def compare(folders: tuple[Path, ...], out: Path | None, json_file: Path | None) -> None:
    """Compare runs: their results, and how their recipes differ.

    FOLDERS are the folders of `train --out`. The table gives the lowest validation loss, and the
    scores of the validation with the highest exact match.
    """
    from calcgpt.lab.compare import comparison, comparison_text, draw_comparison, read_runs

    runs = read_runs(folders)
    files = draw_comparison(runs, out) if out else []
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    _report(comparison_text(runs, width), files, json_file, comparison(runs))


@click.command()
@click.argument("recipe", shell_complete=complete_recipe)
@click.option(
    "--n",
    default=100_000,
    show_default=True,
    type=click.IntRange(1, 10**8),
    help="Number of problems to draw.",
)
@seed_option("problems")
@click.option(
    "--digits",
    type=click.IntRange(1, 100),
    help="Count only problems whose operands have at most this many digits.  [default: all]",
)
@click.option(
    "--scored", type=PATH, help="A file of scored problems: how exact a model is in each class."
)
@drawing_option("heat maps")
@set_option("Override a field of the recipe: data.mixture.edge=0.5.")
@json_option("Write the numbers to this file.")
@quiet_option
def coverage(
    recipe: str,
    n: int,
    seed: int,
    digits: int | None,
    scored: Path | None,
    out: Path | None,
    overrides: tuple[str, ...],
    json_file: Path | None,
    quiet: bool,
) -> None:
    """Count how often RECIPE draws each class of problems in training.

    The classes are those of each operation by lengths, places and signs of the operands, longest
    chain of carries, nearness to a power of ten, and zeros and nines in a row. A class is rare if
    it is drawn less than once in 20,000 problems.

    A file of scored problems has a JSON object a line, with `prompt`, such as
    $(0000000012+0000000003)=, and `right`, true or false.
    """
    from calcgpt.errors import ConfigError
    from calcgpt.lab.coverage import draw_coverage, measure
    from calcgpt.plots import check_matplotlib
    from calcgpt.recipe import load_recipe
    from datagen.progress import progress_bar

    if out:
        check_matplotlib()
    data = load_recipe(recipe, overrides).data
    if data is None:
        raise ConfigError(f"the recipe {recipe} has no [data] section: it draws no problems")
    with progress_bar(n, not quiet, unit="problem", leave=False) as bar:
        measured = measure(recipe, data, n, seed, digits, scored, bar.update)
    files = draw_coverage(out, measured) if out else []
    _report(measured.table(), files, json_file, measured.record())


@click.command()
@checkpoint_argument
@click.option(
    "--contexts",
    default=3,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="In so many places a case must be right.",
)
@click.option(
    "--n",
    "most",
    default=100_000,
    show_default=True,
    type=click.IntRange(1, 10**8),
    help="Draw at most this many problems. The model reads those with cases that are still needed.",
)
@seed_option("problems")
@engine_option
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    help="Processes, with one thread each.  [default: this one]",
)
@drawing_option("heat maps")
@json_option("Write the numbers, and what is wrong, to this file.")
@quiet_option
def certify(
    checkpoint: str,
    contexts: int,
    most: int,
    seed: int,
    engine: str,
    workers: int | None,
    out: Path | None,
    json_file: Path | None,
    quiet: bool,
) -> None:
    """Test the rules of CHECKPOINT's worked steps in all their cases.

    A rule writes one character from a few earlier ones, such as a digit of a product from two
    digits, a carry and the digit above. The model reads correct work and predicts each character
    from those before it. A case is certified if it occurs at --contexts positions or more and the
    most probable character is right at all of them. Quotient digits have too many cases: only those
    that occur are tested.
    """
    from calcgpt.checkpoint import Checkpoint
    from calcgpt.lab.certify import certify as run
    from calcgpt.lab.certify import check_certifiable, choose_lines
    from calcgpt.lab.certify_plots import draw_certificate
    from calcgpt.plots import check_matplotlib
    from calcgpt.registry import resolve
    from datagen.progress import progress_bar

    if out:
        check_matplotlib()
    folder = resolve(checkpoint)
    loaded = Checkpoint.load(folder)
    check_certifiable(loaded)
    longest = loaded.recipe.model.block_size + 1
    with progress_bar(most, not quiet, desc="drawing", unit="problem", leave=False) as bar:
        lines, drawn = choose_lines(contexts, most, longest, seed, bar.update)
    with progress_bar(len(lines), not quiet, desc="reading", unit="problem", leave=False) as bar:
        certificate = run(
            loaded,
            folder,
            lines,
            drawn=drawn,
            seed=seed,
            contexts=contexts,
            engine=engine,
            workers=workers,
            progress=bar.update,
        )
    files = draw_certificate(out, certificate) if out else []
    _report(certificate.table(), files, json_file, certificate.record())


@click.command()
@checkpoint_argument
@click.option(
    "--n",
    default=1_000,
    show_default=True,
    type=click.IntRange(20, 100_000),
    help="Problems: half give the means and choose the neurons, half are measured.",
)
@click.option(
    "--ablation",
    default="mean",
    show_default=True,
    type=click.Choice(["mean", "zero"]),
    help="What replaces the output of a head.",
)
@seed_option("problems")
@drawing_option("the tables and the neurons")
@json_option("Write the numbers to this file.")
@quiet_option
def circuits(
    checkpoint: str,
    n: int,
    ablation: Literal["mean", "zero"],
    seed: int,
    out: Path | None,
    json_file: Path | None,
    quiet: bool,
) -> None:
    """Show what each attention head of CHECKPOINT does.

    The command replaces the output of one head at a time, and of all heads of a layer, while the
    model reads correct work. The table shows, by rule, how many characters the model would then
    write wrongly. --out and --json also show how much each head attends to the characters that a
    rule reads, and which neurons best tell whether there is a carry or a borrow.
    """
    from datagen.extras import require

    require("a look inside a model", "torch")
    import torch

    from calcgpt.checkpoint import Checkpoint
    from calcgpt.lab.circuits import find_circuits, n_passes
    from calcgpt.lab.circuits_plots import draw_circuits
    from calcgpt.plots import check_matplotlib
    from calcgpt.registry import resolve
    from datagen.progress import progress_bar

    if out:
        check_matplotlib()
    torch.set_num_threads(1)  # as `inspect`
    loaded = Checkpoint.load(resolve(checkpoint))
    with progress_bar(
        n_passes(loaded.recipe.model), not quiet, desc="heads", unit="pass", leave=False
    ) as bar:
        circuits = find_circuits(loaded, n, ablation, seed, bar.update)
    _report(
        circuits.table(),
        draw_circuits(out, circuits) if out else [],
        json_file,
        circuits.record(),
    )


@click.command()
@click.argument("files", nargs=-1, required=True, type=PATH)
@click.option(
    "--target",
    "targets",
    multiple=True,
    default=(1e-3, 1e-4, 1e-5),
    show_default=True,
    type=click.FloatRange(1e-9, 0.5),
    help="The share of problems that may be answered wrongly above a threshold. Repeatable.",
)
@click.option(
    "--by",
    "measure",
    default="whole",
    show_default=True,
    type=click.Choice(["whole", "weakest_step", "answer"]),
    help="Which number of the confidence.",
)
@drawing_option("the curves as confidence.png")
@json_option("Write the numbers to this file.")
def confidence(
    files: tuple[Path, ...],
    targets: tuple[float, ...],
    measure: str,
    out: Path | None,
    json_file: Path | None,
) -> None:
    """Measure how far a model's confidence can be trusted, from FILES of scored problems.

    FILES are those of `eval --scored`. For each target there is a threshold with a guarantee on
    average (conformal), and one that holds with 95% confidence. Both are for problems like those of
    the file. The tables compare the confidence with the wrong answers, by class and by decade.
    """
    from calcgpt.lab.confidence import class_table, draw_confidence, guarantee_table, read_trust
    from calcgpt.plots import check_matplotlib

    if out:
        check_matplotlib()
    trusts = [read_trust(file, measure) for file in files]
    drawn = draw_confidence(out, trusts) if out else []
    tables = [*(f"{class_table(trust)}\n" for trust in trusts), guarantee_table(trusts, targets)]
    record = {trust.name: trust.record(targets) for trust in trusts}
    _report("\n".join(tables), drawn, json_file, record)


def _report(text: str, drawn: list[Path], json_file: Path | None, record: dict[str, Any]) -> None:
    """Writes the record if --json is given. Prints the text, and then the files that there are."""
    from datagen.files import write_json

    if json_file:
        write_json(json_file, record)
    click.echo(text)
    for file in filter(None, (*drawn, json_file)):
        click.echo(str(file))


COMMANDS = [ablate, certify, circuits, compare, confidence, coverage, sweep]
