"""Commands that tabulate and draw what others wrote, and what a model does."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
def report(folders: tuple[Path, ...]) -> None:
    """Print the scores in the metrics.json of FOLDERS as a Markdown table."""
    from calcgpt.evaluation.report import comparison_table

    click.echo(comparison_table(folders))


@click.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def plot(out: Path, files: tuple[Path, ...]) -> None:
    """Draw what commands wrote to FILES, as PNGs in the folder OUT.

    A run's metrics.jsonl: loss and exact match against tokens. A record of `eval --json`:
    reliability, exact match by operand lengths and, for worked steps, which goes wrong first.
    """
    from calcgpt.plots import plot as draw

    for file in draw(out, files):
        click.echo(str(file))


@click.command(name="inspect", context_settings={"ignore_unknown_options": True})  # -5+3 again
@click.argument("checkpoint")
@click.argument("expression")
@click.option("--out", default="inspection", show_default=True, type=click.Path(path_type=Path),
              help="The pictures' folder.")  # fmt: skip
@click.option("--layer", type=int, help="Draw only this layer large, from 0.  [default: all]")
@click.option("--head", type=int, help="Draw only this head large, from 0.  [default: all]")
@click.option("--data", type=click.Path(path_type=Path),
              help="Activations over this file of problems; default: drawn as the model's recipe "
              "says, else as the blog.")  # fmt: skip
@click.option("--n", default=256, show_default=True, type=click.IntRange(1, 100_000),
              help="Problems: drawn, or the first of --data.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**63 - 1),
              help="Of the drawing.")  # fmt: skip
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the numbers.")
def inspect_(
    checkpoint: str, expression: str, out: Path, layer: int | None, head: int | None,
    data: Path | None, n: int, seed: int, json_file: Path | None,
) -> None:  # fmt: skip
    """Draw where CHECKPOINT looks as it answers EXPRESSION, and what its activations do.

    attention.png, attention-layer-N.png: how much each character that it read, its own output
    included, looked at those before it. activations.png: each feed-forward network before and after
    its nonlinearity, over many problems with their exact answers. A unit is dead if its input to
    the nonlinearity is never above 0 on any token of them; a dead ReLU never fires. A mean after
    the nonlinearity that is not 0 is the bias shift.
    """
    from calcgpt.checkpoint import Checkpoint, resolve
    from calcgpt.lab.inspection import choose, inspect
    from calcgpt.lab.inspection_plots import draw_inspection
    from datagen.files import write_json

    if json_file and not json_file.parent.is_dir():
        raise click.UsageError(f"{json_file.parent} is no folder to write {json_file.name} to")
    loaded = Checkpoint.load(resolve(checkpoint))
    layers, heads = choose(loaded.recipe.model, layer, head)
    found = inspect(loaded, expression, data, n, seed)
    files = draw_inspection(out, found, layers, heads)
    if json_file:
        write_json(json_file, found.record())
        files.append(json_file)
    click.echo(found.answer.written)
    for file in files:
        click.echo(str(file))
    click.echo(found.table())
    for error in found.answer.errors:
        click.echo(error, err=True)


COMMANDS = [report, plot, inspect_]
