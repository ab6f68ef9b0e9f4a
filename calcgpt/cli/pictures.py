"""Commands that show results: tables, plots, and a look inside a model."""

from __future__ import annotations

from pathlib import Path

import click

from calcgpt.cli.options import PATH, SEED, json_option


@click.command()
@click.argument("folders", nargs=-1, required=True, type=PATH)
def report(folders: tuple[Path, ...]) -> None:
    """Print the scores in the metrics.json of FOLDERS as a Markdown table."""
    from calcgpt.evaluation.report import comparison_table

    click.echo(comparison_table(folders))


@click.command()
@click.argument("out", type=PATH)
@click.argument("files", nargs=-1, required=True, type=PATH)
def plot(out: Path, files: tuple[Path, ...]) -> None:
    """Draw FILES that other commands wrote, as PNGs in the folder OUT.

    For a run's metrics.jsonl: loss and exact match against tokens. For a file of `eval --json`:
    reliability, exact match by operand lengths and, for worked steps, the first wrong steps.
    """
    from calcgpt.plots import plot as draw

    for file in draw(out, files):
        click.echo(str(file))


@click.command(
    name="inspect", context_settings={"ignore_unknown_options": True}
)  # -5+3 is not an option
@click.argument("checkpoint")
@click.argument("expression")
@click.option("--out", default="inspection", show_default=True, type=PATH, help="Where to draw.")
@click.option("--layer", type=int, help="Draw only this layer large, from 0.  [default: all]")
@click.option("--head", type=int, help="Draw only this head large, from 0.  [default: all]")
@click.option(
    "--data",
    type=PATH,
    help="Activations over this file of problems.  [default: draw problems as the model's recipe "
    "does, else the blog's]",
)
@click.option(
    "--n",
    default=256,
    show_default=True,
    type=click.IntRange(1, 100_000),
    help="Number of problems for the activations.",
)
@click.option("--seed", default=0, show_default=True, type=SEED, help="Seed of the problems.")
@json_option("Write the numbers to this file.")
def inspect_(
    checkpoint: str,
    expression: str,
    out: Path,
    layer: int | None,
    head: int | None,
    data: Path | None,
    n: int,
    seed: int,
    json_file: Path | None,
) -> None:
    """Draw the attention of CHECKPOINT as it answers EXPRESSION, and its activations.

    attention.png and attention-layer-N.png show how much each character attends to each earlier
    one. activations.png shows each feed-forward network before and after its nonlinearity, over
    many problems with their exact answers. A unit is dead if its input to the nonlinearity is never
    above 0: a dead ReLU never fires. The bias shift is the mean after the nonlinearity.
    """
    from calcgpt.checkpoint import Checkpoint, resolve
    from calcgpt.lab.inspection import choose, inspect
    from calcgpt.lab.inspection_plots import draw_inspection
    from datagen.files import write_json

    loaded = Checkpoint.load(resolve(checkpoint))
    layers, heads = choose(loaded.recipe.model, layer, head)
    inspection = inspect(loaded, expression, data, n, seed)
    files = draw_inspection(out, inspection, layers, heads)
    if json_file:
        write_json(json_file, inspection.record())
        files.append(json_file)
    click.echo(inspection.answer.written)
    for file in files:
        click.echo(str(file))
    click.echo(inspection.table())
    for error in inspection.answer.errors:
        click.echo(error, err=True)


COMMANDS = [report, plot, inspect_]
