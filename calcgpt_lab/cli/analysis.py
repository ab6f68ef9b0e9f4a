"""Commands that look at a model: its parts, its internals, and the files of other commands."""

from pathlib import Path
from typing import Any

import click

from calcgpt.base.errors import UserError
from calcgpt.cli import options
from calcgpt_lab.cli import lab_options


@click.command()
@click.argument(
    "checkpoint", required=False, type=options.NAME, shell_complete=options.complete_checkpoint
)
@click.option(
    "--recipe",
    shell_complete=lab_options.complete_recipe,
    help="Show a recipe instead of a checkpoint: a name or a TOML file.",
)
@lab_options.set_option("With --recipe: override a field: model.preset=llama.")
@options.plugin_option
def info(checkpoint: str | None, recipe: str | None, overrides: tuple[str, ...]) -> None:
    """Show the parts of a checkpoint or a recipe, its parameters, and how it was trained.

    CHECKPOINT may also be a run, of which the best checkpoint is shown. Parameters, and the
    operations that a token takes, are given as closed formulas.
    """
    from calcgpt.checkpoint import Checkpoint
    from calcgpt_lab.recipe import load_recipe
    from calcgpt_lab.studies.info import describe, training, vocabulary_size

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


@click.command(name="inspect", cls=options.ExpressionCommand)
@options.checkpoint_argument
@options.plugin_option
@click.argument("expression", required=False)
@click.option(
    "--switches",
    is_flag=True,
    help="Instead, switch off one part of the model after the other, and write what breaks to "
    "switches.json in the folder of CHECKPOINT.",
)
@click.option(
    "--out",
    default="inspection",
    type=options.PATH,
    callback=options.output_folder,
    help="The folder of the plots.",
)
@click.option(
    "--n",
    default=256,
    type=click.IntRange(1, 100_000),
    help="With --switches: the number of problems.",
)
@lab_options.seed_option("problems of --switches")
def inspect_(
    checkpoint: str, expression: str | None, switches: bool, out: Path, n: int, seed: int
) -> None:
    """Draw the attention of CHECKPOINT as it answers EXPRESSION.

    attention-layer-N.png shows how much each character attends to each earlier one.

    With --switches, the parts are the attention heads, the feed-forward steps, and the neurons that
    matter. The page lets its readers switch them off, and shows the file.
    """
    from calcgpt.base.extras import require

    if switches == bool(expression):
        raise click.UsageError("give either EXPRESSION or --switches")
    require("a look inside a model", "torch", "matplotlib")
    if switches:
        _map_switches(checkpoint, n, seed)
        return
    assert expression
    import torch

    from calcgpt.checkpoint import Checkpoint
    from calcgpt_lab.studies.inspection import draw_inspection, inspect

    torch.set_num_threads(1)  # a token has too little work for more: they wait for each other
    loaded = Checkpoint.load(options.chosen(checkpoint))
    inspection = inspect(loaded, expression)
    lab_options.echo_report(inspection.answer.written, draw_inspection(out, inspection))
    for error in inspection.answer.errors:
        click.echo(error, err=True)


def _map_switches(checkpoint: str, n: int, seed: int) -> None:
    from calcgpt.base.files import write_json
    from calcgpt.switches import SWITCHES
    from calcgpt_lab.studies.switches import measure, table

    folder = options.chosen(checkpoint)
    switches = measure(folder, n, seed)
    write_json(folder / SWITCHES, switches.model_dump())
    click.echo(f"{table(switches)}\n{folder / SWITCHES}")


@click.command()
@options.checkpoint_argument
@options.plugin_option
@click.option("--prompt", help="The text to continue.  [default: an empty line]")
@click.option("--tokens", default=500, type=click.IntRange(min=1), help="Maximum number of tokens.")
@click.option(
    "--temperature",
    default=0.8,
    type=options.Number(min=0),
    help="Temperature of sampling. 0 always writes the most probable token.",
)
@click.option("--top-k", type=click.IntRange(min=1), help="Sample from the K most probable tokens.")
@click.option(
    "--top-p",
    default=1.0,
    type=options.Number(0, 1, min_open=True),
    help="Sample only from the most probable tokens whose probabilities add up to this.",
)
@lab_options.seed_option("sampling")
def generate(checkpoint: str, prompt: str | None, tokens: int, **choices: Any) -> None:
    """Write a text with CHECKPOINT, token by token: calcgpt generate runs/play --prompt "To be".

    The text ends after --tokens, or when the model's context is full.
    """
    from calcgpt.base.extras import require

    require("to generate", "torch")
    import torch

    from calcgpt.checkpoint import Checkpoint
    from calcgpt_lab.model.decoding import Sampling, sample

    sampling = Sampling(**choices)
    stored = Checkpoint.load(options.chosen(checkpoint))
    torch.set_num_threads(1)  # a token has too little work for more
    try:  # a bad prompt is refused before anything is written
        parts = sample(stored, "\n" if prompt is None else prompt, tokens, sampling)
        first = next(parts, "")
    except UserError as error:
        if prompt is None:  # a model that was not trained on lines of text
            raise UserError(
                f"{stored.name} needs a --prompt: it was not trained on lines of text"
            ) from error
        raise
    click.echo(f"{(prompt or '').removeprefix(chr(10))}{first}", nl=False)
    for part in parts:
        click.echo(part, nl=False)
    click.echo()
