"""Commands that look at a model: its parts, its internals, and the files of other commands."""

from pathlib import Path
from typing import Any

import click

from calcgpt.cli import options
from calcgpt.cli.completion import complete_checkpoint, complete_recipe


@click.command()
@click.argument("checkpoint", required=False, type=options.NAME, shell_complete=complete_checkpoint)
@click.option(
    "--recipe",
    shell_complete=complete_recipe,
    help="Show a recipe instead of a checkpoint: a name or a TOML file.",
)
@options.set_option("With --recipe: override a field: model.preset=llama.")
@options.plugin_option
def info(checkpoint: str | None, recipe: str | None, overrides: tuple[str, ...]) -> None:
    """Show the parts of a checkpoint or a recipe, its parameters, and how it was trained.

    CHECKPOINT may also be a run, of which the best checkpoint is shown. Parameters, and the
    operations that a token takes, are given as closed formulas.
    """
    from calcgpt.checkpoint import Checkpoint
    from calcgpt.lab.info import describe, training, vocabulary_size
    from calcgpt.recipe import load_recipe

    if (checkpoint is None) == (recipe is None):
        raise click.UsageError("give either CHECKPOINT or --recipe")
    if checkpoint is None:
        shown = load_recipe(str(recipe), overrides)
        click.echo(describe(shown.model, vocabulary_size(shown)))
        return
    if overrides:
        raise click.UsageError("--set is for --recipe")
    folder = options.chosen(checkpoint)
    loaded = Checkpoint.load(folder)
    description = describe(loaded.recipe.model, len(loaded.tokenizer))
    click.echo(f"{description}\n\n{training(loaded, folder)}")


@click.command()
@options.out_argument
@click.argument("files", nargs=-1, required=True, type=options.PATH)
def plot(out: Path, files: tuple[Path, ...]) -> None:
    """Draw FILES that other commands wrote, as PNGs in the folder OUT.

    For a run's metrics.jsonl: loss and exact match against tokens. For a file of `eval --json`:
    reliability, exact match by operand lengths and, for worked steps, the first wrong steps.
    """
    from calcgpt.plots import plot as draw

    for file in draw(out, files):
        click.echo(str(file))


@click.command(name="inspect", cls=options.ExpressionCommand)
@options.checkpoint_argument
@options.plugin_option
@click.argument("expression", required=False)
@click.option(
    "--switches",
    is_flag=True,
    help="Instead, switch off one part of the model after the other, and write what breaks to "
    "switches.json in the folder of CHECKPOINT. Only --n and --seed apply.",
)
@click.option(
    "--out",
    default="inspection",
    type=options.PATH,
    callback=options.output_folder,
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
    type=options.PATH,
    help="Activations over this file of problems.  [default: draw problems as the model's recipe "
    "does, else the blog's]",
)
@click.option(
    "--n",
    default=256,
    type=click.IntRange(1, 100_000),
    help="Number of problems for the activations or the switches.",
)
@options.seed_option("problems")
@options.json_option("Write the numbers to this file.")
def inspect_(
    checkpoint: str,
    expression: str | None,
    switches: bool,
    out: Path,
    layer: int | None,
    head: int | None,
    json_file: Path | None,
    **problems: Any,
) -> None:
    """Draw the attention of CHECKPOINT as it answers EXPRESSION, and its activations.

    attention.png and attention-layer-N.png show how much each character attends to each earlier
    one. activations.png shows each feed-forward network before and after its nonlinearity, over
    many problems with their exact answers. A unit is dead if its input to the nonlinearity is never
    above 0: a dead ReLU never fires. The bias shift is the mean after the nonlinearity.

    With --switches, the parts are the attention heads, the feed-forward steps, and the neurons that
    matter. The page lets its readers switch them off, and shows the file.
    """
    from datagen.extras import require

    if switches == bool(expression):
        raise click.UsageError("give either EXPRESSION or --switches")
    require("a look inside a model", "torch", "matplotlib")
    if switches:
        _map_switches(checkpoint, problems["n"], problems["seed"])
        return
    assert expression
    import torch

    from calcgpt.checkpoint import Checkpoint
    from calcgpt.lab.inspection import inspect, select_heads
    from calcgpt.lab.inspection_plots import draw_inspection

    torch.set_num_threads(1)  # a token has too little work for more: they wait for each other
    loaded = Checkpoint.load(options.chosen(checkpoint))
    layers, heads = select_heads(loaded.recipe.model, layer, head)
    inspection = inspect(loaded, expression, **problems)
    files = draw_inspection(out, inspection, layers, heads)
    options.echo_report(inspection.answer.written, files, json_file, inspection.record())
    click.echo(inspection.table())
    for error in inspection.answer.errors:
        click.echo(error, err=True)


def _map_switches(checkpoint: str, n: int, seed: int) -> None:
    from calcgpt.lab.switches import measure, table
    from calcgpt.switches import SWITCHES
    from datagen.files import write_json

    folder = options.chosen(checkpoint)
    switches = measure(folder, n, seed)
    write_json(folder / SWITCHES, switches.model_dump())
    click.echo(f"{table(switches)}\n{folder / SWITCHES}")


COMMANDS = [info, inspect_, plot]
