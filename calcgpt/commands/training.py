"""Commands that train models, and show what can be trained."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command()
@click.option("--recipe", required=True, help="A name (see `calcgpt recipes`) or a TOML file.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="The data's folder; default: problems drawn anew, as the recipe's [data] says.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The run's folder.")
@click.option("--set", "overrides", multiple=True, metavar="FIELD=VALUE",
              help="Override a field, as model.n_layer=4. Repeatable.")  # fmt: skip
@click.option("--resume", is_flag=True, help="Continue the run in --out.")
@click.option("--force", is_flag=True, help="Start afresh where --out holds a run.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1 ...")
@click.option("--threads", type=click.IntRange(min=1), help="CPU threads; default: all cores.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def train(
    recipe: str, data: Path | None, out: Path, overrides: tuple[str, ...], resume: bool,
    force: bool, device: str, threads: int | None, quiet: bool,
) -> None:  # fmt: skip
    """Train a model. SIGINT and SIGTERM save first; --resume continues exactly."""
    import torch

    from calcgpt.recipe import load_recipe
    from calcgpt.train import Interrupted
    from calcgpt.train import train as run

    if threads:
        torch.set_num_threads(threads)
    try:
        last = run(
            load_recipe(recipe, overrides), data, out,
            resume=resume, force=force, device=device, progress=not quiet,
        )  # fmt: skip
    except Interrupted as stop:
        click.echo(str(stop), err=True)
        sys.exit(128 + stop.signum)
    click.echo(f"the run is complete; its last checkpoint is {last}")


@click.command()
@click.argument("name", required=False)
def recipes(name: str | None) -> None:
    """List the recipes, or show every field of the recipe NAME."""
    from calcgpt.recipe import load_recipe, preset_names, recipe_names

    if name:
        click.echo(load_recipe(name).model_dump_json(indent=2))
        return
    width = max(map(len, recipe_names()))
    for known in recipe_names():
        click.echo(f"{known:<{width}}  {load_recipe(known).description}")
    click.echo(f"architectures, for --set model.preset=NAME: {', '.join(preset_names())}")


@click.command()
@click.argument("checkpoint", required=False)
@click.option("--recipe", help="Instead of a checkpoint: a recipe's name, or a TOML file.")
@click.option("--set", "overrides", multiple=True, metavar="FIELD=VALUE",
              help="With --recipe: override a field: model.preset=llama. Repeatable.")  # fmt: skip
@click.option("--vocabulary", default=21, show_default=True, type=click.IntRange(min=1),
              help="With --recipe: tokens, where the recipe leaves them to the data.")  # fmt: skip
def info(
    checkpoint: str | None, recipe: str | None, overrides: tuple[str, ...], vocabulary: int
) -> None:  # fmt: skip
    """Show what CHECKPOINT, or a recipe, is made of, and its parameters as closed formulas."""
    from calcgpt.checkpoint import Checkpoint, resolve
    from calcgpt.info import choices, parameter_table
    from calcgpt.recipe import load_recipe

    if (checkpoint is None) == (recipe is None):
        raise click.UsageError("one of CHECKPOINT and --recipe is needed")
    if checkpoint is not None:
        loaded = Checkpoint.load(resolve(checkpoint))
        model, vocabulary = loaded.recipe.model, len(loaded.tokenizer)
    else:
        model = load_recipe(str(recipe), overrides).model
    click.echo(f"{choices(model)}\n\n{parameter_table(model, vocabulary)}")


COMMANDS = [train, recipes, info]
