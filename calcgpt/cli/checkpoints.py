"""Commands that score, publish, export and use a checkpoint."""

from __future__ import annotations

from pathlib import Path

import click

from calcgpt.cli.options import named_paths


@click.command(name="eval")
@click.argument("checkpoint")
@click.option("--data", required=True, type=click.Path(path_type=Path), help="A file of problems.")
@click.option("--n", "limit", type=click.IntRange(min=1), help="Only the first problems.")
@click.option("--temperature", default=0.0, show_default=True, type=click.FloatRange(min=0),
              help="0 is greedy; the blog sampled at 1.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**63 - 1),
              help="Of the sampling.")  # fmt: skip
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write a record here.")
@click.option("--errors", default=0, show_default=True, type=click.IntRange(min=0),
              help="Show this many wrong answers.")  # fmt: skip
@click.option("--device", default="auto", show_default=True)
@click.option("--quiet", is_flag=True, help="No progress bar.")
def evaluate(
    checkpoint: str, data: Path, limit: int | None, temperature: float, seed: int,
    json_file: Path | None, errors: int, device: str, quiet: bool,
) -> None:  # fmt: skip
    """Score CHECKPOINT on a file of problems: character accuracy and exact match.

    Beside them stands what its probabilities are worth, and, for a model that works in steps, which
    steps are the first to go wrong. `calcgpt plot` draws what --json writes.
    """
    from calcgpt.checkpoint import Checkpoint, resolve
    from calcgpt.evaluation import report
    from calcgpt.inference.generate import Sampling
    from calcgpt.training.train import pick_device
    from datagen.files import write_json

    if json_file and not json_file.parent.is_dir():
        raise click.UsageError(f"{json_file.parent} is no folder to write {json_file.name} to")
    loaded = Checkpoint.load(resolve(checkpoint), pick_device(device))
    sampling = Sampling(temperature, seed=seed)
    record, evaluation = report.evaluation_record(loaded, data, sampling, limit, progress=not quiet)
    if json_file:
        write_json(json_file, record)
    how = "greedy" if temperature == 0 else f"sampled at temperature {temperature:g}, seed {seed}"
    click.echo(f"{loaded.name} on {data}: {how} decoding")
    click.echo(report.score_table(record))
    click.echo(f"{evaluation.problems_per_second:,.0f} problems/s")
    click.echo(report.confidence_line(record))
    if "first_faults" in record:
        click.echo(report.fault_table(record))
    if errors:
        click.echo(report.wrong_answers(evaluation, errors, loaded.recipe.work_digits))


@click.command()
@click.argument("run")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--data", required=True, type=click.Path(path_type=Path), help="The data's folder.")
@click.option("--also", multiple=True, metavar="NAME=FILE", callback=named_paths,
              help="Score another file too, under this name. Repeatable.")  # fmt: skip
@click.option("--device", default="auto", show_default=True)
@click.option("--force", is_flag=True, help="Replace a checkpoint at OUT.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def publish(
    run: str, out: Path, data: Path, also: dict[str, Path], device: str, force: bool, quiet: bool
) -> None:
    """Score the best checkpoint of RUN on validation and test, and write it to OUT.

    OUT holds what is needed to use the model, its scores and its model card.
    """
    from calcgpt.checkpoint import Checkpoint, resolve
    from calcgpt.evaluation.report import publish as write
    from calcgpt.training.train import pick_device

    loaded = Checkpoint.load(resolve(run), pick_device(device))
    write(loaded, data, out, force, also=also, progress=not quiet)
    click.echo(f"{loaded.name} is published as {out}")


@click.command()
@click.argument("checkpoint")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--to", "target", required=True, help="What for: hf, the library transformers; onnx.")
@click.option("--force", is_flag=True, help="Replace an earlier export at OUT.")
def export(checkpoint: str, out: Path, target: str, force: bool) -> None:
    """Write CHECKPOINT to the folder OUT in a format of others.

    What is written is read back and compared first: a wrong export is none.
    """
    from calcgpt.checkpoint import Checkpoint, resolve
    from calcgpt.errors import look_up
    from calcgpt.export import EXPORTERS

    write = look_up(EXPORTERS, target, "export target")
    loaded = Checkpoint.load(resolve(checkpoint))
    click.echo(f"{out}: {loaded.name} as {write(loaded, out, force)}")


@click.command(context_settings={"ignore_unknown_options": True})  # -5+3 is no option
@click.argument("expression")
@click.option("--checkpoint", default="best", show_default=True, help="A folder, name or `best`.")
@click.option("--work", is_flag=True, help="Also show all that it wrote, and how sure it was.")
def calc(expression: str, checkpoint: str, work: bool) -> None:
    """Answer EXPRESSION: calcgpt calc "(12.5+3)*4".

    Numbers have at most two decimal places; + - * /, parentheses and a minus sign are understood.
    The model answers each operation. Its answer goes to stdout; where it is wrong, stderr says so.
    """
    from calcgpt.checkpoint import Checkpoint, resolve
    from calcgpt.inference.calculator import Calculator

    answer = Calculator(Checkpoint.load(resolve(checkpoint))).calculate(expression)
    click.echo(answer.written)
    for node in answer.nodes if work else ():
        if node.confidence:
            sure = node.confidence
            click.echo(f"{node.prompt}{node.output}")
            click.echo(f"probability of the answer {sure.answer:.4f}, of all {sure.whole:.4f}; "
                       f"least of a step {sure.weakest_step:.4f}")  # fmt: skip
    for error in answer.errors:
        click.echo(error, err=True)


COMMANDS = [evaluate, publish, export, calc]
