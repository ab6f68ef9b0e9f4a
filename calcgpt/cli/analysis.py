"""Commands that look at a model: its parts, its internals, and the files of other commands."""

from __future__ import annotations

from pathlib import Path

import click

from calcgpt.cli.completion import complete_checkpoint, complete_recipe
from calcgpt.cli.options import (
    NAME,
    PATH,
    ExpressionCommand,
    checkpoint_argument,
    given_options,
    json_option,
    out_argument,
    output_folder,
    seed_option,
    set_option,
)


@click.command()
@click.argument("checkpoint", required=False, type=NAME, shell_complete=complete_checkpoint)
@click.option(
    "--recipe",
    shell_complete=complete_recipe,
    help="Show a recipe instead of a checkpoint: a name or a TOML file.",
)
@set_option("With --recipe: override a field: model.preset=llama.")
@click.option(
    "--vocabulary",
    type=click.IntRange(min=1),
    help="With --recipe: the number of tokens.  [default: the tokenizer's; chars: 21]",
)
def info(
    checkpoint: str | None, recipe: str | None, overrides: tuple[str, ...], vocabulary: int | None
) -> None:
    """Show the parts of a checkpoint or a recipe, its parameters, and how it was trained.

    CHECKPOINT may also be a run, of which the best checkpoint is shown. Parameters, and the
    operations that a token takes, are given as closed formulas.
    """
    from datagen.extras import require

    require("a table of formulas", "sympy")
    from calcgpt.checkpoint import Checkpoint
    from calcgpt.lab.info import (
        choices,
        operation_table,
        parameter_table,
        training,
        vocabulary_size,
    )
    from calcgpt.recipe import load_recipe
    from calcgpt.registry import resolve

    if (checkpoint is None) == (recipe is None):
        raise click.UsageError("give either CHECKPOINT or --recipe")
    if recipe is None and given_options() & {"overrides", "vocabulary"}:
        raise click.UsageError("--set and --vocabulary are for --recipe")
    trained = ""
    if checkpoint is not None:
        folder = resolve(checkpoint)
        loaded = Checkpoint.load(folder)
        model, vocabulary = loaded.recipe.model, len(loaded.tokenizer)
        trained = f"\n\n{training(loaded, folder)}"
    else:
        loaded_recipe = load_recipe(str(recipe), overrides)
        model, vocabulary = loaded_recipe.model, vocabulary or vocabulary_size(loaded_recipe)
    tables = f"{parameter_table(model, vocabulary)}\n\n{operation_table(model, vocabulary)}"
    click.echo(f"{choices(model)}\n\n{tables}{trained}")


@click.command()
@out_argument
@click.argument("files", nargs=-1, required=True, type=PATH)
def plot(out: Path, files: tuple[Path, ...]) -> None:
    """Draw FILES that other commands wrote, as PNGs in the folder OUT.

    For a run's metrics.jsonl: loss and exact match against tokens. For a file of `eval --json`:
    reliability, exact match by operand lengths and, for worked steps, the first wrong steps.
    """
    from calcgpt.plots import plot as draw

    for file in draw(out, files):
        click.echo(str(file))


@click.command(name="inspect", cls=ExpressionCommand)
@checkpoint_argument
@click.argument("expression")
@click.option(
    "--out",
    default="inspection",
    show_default=True,
    type=PATH,
    callback=output_folder,
    help="The folder of the plots.",
)
@click.option(
    "--layer",
    type=int,
    help="Draw the large plots for this layer only. 0 is the first.  [default: all]",
)
@click.option(
    "--head",
    type=int,
    help="Draw the large plots for this head only. 0 is the first.  [default: all]",
)
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
@seed_option("problems")
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
    from datagen.extras import require

    require("a look inside a model", "torch", "matplotlib")
    import torch

    from calcgpt.checkpoint import Checkpoint
    from calcgpt.lab.inspection import inspect, select_heads
    from calcgpt.lab.inspection_plots import draw_inspection
    from calcgpt.registry import resolve
    from datagen.files import write_json

    torch.set_num_threads(1)  # a token has too little work for more: they wait for each other
    loaded = Checkpoint.load(resolve(checkpoint))
    layers, heads = select_heads(loaded.recipe.model, layer, head)
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


COMMANDS = [info, inspect_, plot]
