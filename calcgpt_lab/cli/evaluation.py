"""Commands that score a checkpoint, and publish it with its scores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calcgpt.base.errors import DataError, UserError
from calcgpt.cli import options
from calcgpt_lab.cli import lab_options

if TYPE_CHECKING:
    from calcgpt.checkpoint import Checkpoint
    from calcgpt_lab.data.task import AnyTask
    from calcgpt_lab.evaluation.report import Evaluate
    from calcgpt_lab.model.decoding import Sampling


@click.command(name="eval")
@options.checkpoint_argument
@options.plugin_option
@click.option(
    "--data",
    type=options.PATH,
    help="A file of problems, or a folder with such a test.txt.",
)
@lab_options.task_option
@click.option(
    "--split",
    type=click.Choice(["train", "val", "test", "all"]),
    help="With --task: the questions to score. Those of val and test were held out.  "
    "[default: test]",
)
@click.option("--n", "limit", type=click.IntRange(min=1), help="Use only the first N problems.")
@click.option(
    "--temperature",
    default=0.0,
    type=options.Number(min=0),
    help="Temperature of sampling. 0 decodes greedily; the blog used 1.",
)
@lab_options.seed_option("sampling")
@lab_options.scoring_engine_option
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    help="Number of processes.  [default: this one]",
)
@click.option(
    "--scored",
    type=options.PATH,
    callback=lab_options.output_file,
    help="Write each problem and its answer to this file.",
)
@lab_options.json_option("Write all scores to this file.")
@click.option(
    "--plots",
    type=options.PATH,
    callback=options.output_folder,
    help="Draw confidence against accuracy as reliability.png in this folder.",
)
@click.option(
    "--errors", default=0, type=click.IntRange(min=0), help="Show this many wrong answers."
)
@lab_options.device_option
@options.quiet_option
def eval_(
    checkpoint: str,
    data: Path | None,
    task: str | None,
    split: str | None,
    limit: int | None,
    temperature: float,
    seed: int,
    scored: Path | None,
    json_file: Path | None,
    plots: Path | None,
    errors: int,
    quiet: bool,
    workers: int | None,
    engine: str,
    device: str,
) -> None:
    """Score CHECKPOINT on a file of problems, or on a task: character accuracy and exact match.

    The report also says how far the model's confidence can be trusted and, for a model that writes
    worked steps, where each wrong answer goes wrong first (--errors).
    """
    from calcgpt.base.files import write_json, write_text
    from calcgpt_lab.evaluation import report
    from calcgpt_lab.model.decoding import Sampling
    from calcgpt_lab.plots import check_matplotlib, draw_reliability, save_figures

    if plots:
        check_matplotlib()
    data = _test_file(data)
    source = _source_of(data, task)
    if (workers or scored) if task else split:
        raise click.UsageError("--split is for --task; --workers and --scored for --data")
    if scored and json_file and scored.resolve() == json_file.resolve():
        raise click.UsageError(f"--scored and --json both name {scored}")
    if temperature and workers:
        raise UserError("--workers is for greedy decoding, at temperature 0")
    sampling, split = Sampling(temperature, seed=seed), split or "test"
    loaded, score = _scorer(checkpoint, sampling, workers, engine, device)
    with _explained_errors(loaded, data, task):
        record, evaluation = report.evaluation_record(
            loaded, source, sampling, limit, not quiet, score, split
        )
    _note_other_task(loaded, source)
    if scored:
        write_text(scored, report.scored_lines(evaluation))
    if json_file:
        write_json(json_file, record)
    if plots:
        save_figures(plots, {"reliability": lambda: draw_reliability(record)})
    if limit and record["n"] < limit:
        click.echo(f"there are only {record['n']:,} problems, not {limit:,}", err=True)
    what = f"{task}, {split}" if task else str(data)
    click.echo(report.score_text(f"{loaded.name} on {what}", record, evaluation))
    if errors:
        click.echo(report.wrong_answers(evaluation, errors, loaded.recipe.has_work))


def _scorer(
    checkpoint: str, sampling: Sampling, workers: int | None, engine: str, device: str
) -> tuple[Checkpoint, Evaluate]:
    """Returns the checkpoint, and what scores it: this process, or several."""
    from calcgpt_lab.evaluation import scoring
    from calcgpt_lab.evaluation.evaluate import evaluate

    folder = options.chosen(checkpoint)
    if sampling.temperature and engine == "auto":
        engine = "torch"  # others write the most probable character
    loaded, engine, decoder = scoring.load_for_scoring(folder, device, engine)
    if not workers:
        return loaded, partial(evaluate, decoder, loaded.tokenizer, sampling=sampling)
    how = scoring.Scoring(folder, device, engine)
    return loaded, partial(scoring.evaluate_in_shards, how, workers=workers)


@contextmanager
def _explained_errors(loaded: Checkpoint, data: Path | None, task: str | None) -> Iterator[None]:
    """Errors in the block say which file they are about, and what may be meant instead."""
    from calcgpt.tokenizer import UnknownCharacterError

    try:
        yield
    except UnknownCharacterError as error:
        raise UserError(
            f"{task or data}: {loaded.name} does not know the character {error.character!r}"
        ) from None
    except DataError as error:
        recipe = loaded.recipe  # characters of lines: perhaps of a user's own task
        of_task = recipe.tokenizer == "chars" and recipe.train.batches == "problems"
        if of_task and str(error).startswith(f"{data}, line "):
            raise UserError(f"{error}; for the file of a task, use --task") from None
        raise


def _test_file(data: Path | None) -> Path | None:
    """Returns the file of problems that `data` means: itself, or in a folder its test.txt."""
    if not data or not data.is_dir():
        return data
    if not (data / "test.txt").is_file():
        val = data / "val.txt"
        raise UserError(f"{data} is a folder without test.txt: name a file in it, such as {val}")
    return data / "test.txt"


@click.command()
@click.argument("run", type=options.NAME, shell_complete=options.complete_checkpoint)
@options.out_argument
@options.plugin_option
@click.option("--data", type=options.PATH, help="The folder of the data set.")
@lab_options.task_option
@click.option(
    "--also",
    multiple=True,
    metavar="NAME=FILE",
    callback=lab_options.named_paths,
    help="Also score this file, under this name. Repeatable.",
)
@lab_options.scoring_engine_option
@lab_options.device_option
@options.force_option("a checkpoint at OUT")
@options.quiet_option
def publish(
    run: str,
    out: Path,
    data: Path | None,
    task: str | None,
    also: dict[str, Path],
    engine: str,
    device: str,
    force: bool,
    quiet: bool,
) -> None:
    """Score the best checkpoint of RUN on validation and test, and write it to OUT.

    OUT holds the model, its scores and its model card, without the state of the training.
    """
    from calcgpt_lab.evaluation.report import publish as write
    from calcgpt_lab.evaluation.scoring import load_for_scoring

    source = _source_of(data, task)
    loaded, _, decoder = load_for_scoring(options.chosen(run), device, engine)
    _note_other_task(loaded, source)
    write(loaded, source, out, force, also=also, decoder=decoder, progress=not quiet)
    click.echo(f"{loaded.name} is published as {out}")


def _source_of(data: Path | None, task: str | None) -> Path | AnyTask:
    """Returns the path of --data or the task of --task. Raises UsageError unless exactly one of
    them is given."""
    from calcgpt_lab.data.task import load_task

    if data and not task:
        return data
    if task and not data:
        return load_task(task)
    both = data and task
    reason = "use only one of --data and --task" if both else "give either --data or --task"
    raise click.UsageError(reason)


def _note_other_task(checkpoint: Checkpoint, source: Path | AnyTask) -> None:
    if isinstance(source, Path) or checkpoint.metrics.get("data_sha256") == source.fingerprint:
        return
    click.echo(f"{checkpoint.name} was not trained on the data of {source.name}", err=True)
