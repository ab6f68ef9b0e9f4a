"""Commands that train models, and show what can be trained."""

from __future__ import annotations

import signal
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
@click.option("--engine", type=click.Choice(["torch", "ray"]), default="torch", show_default=True,
              help="What starts the processes: you (one, or torchrun), or Ray Train.")  # fmt: skip
@click.option("--num-workers", type=click.IntRange(min=1),
              help="ray: processes. --data and --out must be seen by all of them: one machine, or "
              "shared storage.")  # fmt: skip
@click.option("--ray-address", help="ray: a running cluster; default: one on this machine alone.")
@click.option("--wandb", "wandb_project", is_flag=False, flag_value="calcgpt", metavar="[PROJECT]",
              help="Also tell Weights & Biases; PROJECT is calcgpt unless named.")  # fmt: skip
@click.option("--quiet", is_flag=True, help="No progress bar.")
def train(
    recipe: str, data: Path | None, out: Path, overrides: tuple[str, ...], resume: bool,
    force: bool, device: str, threads: int | None, engine: str, num_workers: int | None,
    ray_address: str | None, wandb_project: str | None, quiet: bool,
) -> None:  # fmt: skip
    """Train a model. SIGINT and SIGTERM save first; --resume continues exactly.

    `torchrun --nproc-per-node N -m calcgpt train ...` trains with N processes, which share each
    batch.
    """
    import torch

    from calcgpt.errors import TrainingError
    from calcgpt.recipe import load_recipe
    from calcgpt.training.distributed import launched_rank
    from calcgpt.training.interruption import Interrupted
    from calcgpt.training.train import train as run

    main = launched_rank() == 0
    if threads:
        torch.set_num_threads(threads)
    try:
        chosen = load_recipe(recipe, overrides)
        trackers = []
        if wandb_project is not None and main:
            from calcgpt.training.trackers import wandb_tracker

            trackers.append(wandb_tracker(wandb_project))  # refuses before anything is begun
        if engine == "ray":
            from calcgpt.training.ray_launcher import train_on_ray

            last = train_on_ray(
                chosen, data, out, workers=num_workers or 1, address=ray_address, threads=threads,
                resume=resume, force=force, device=device, progress=not quiet, trackers=trackers,
            )  # fmt: skip
        elif num_workers or ray_address:
            raise click.UsageError(
                "--num-workers and --ray-address are for --engine ray; without it, "
                "torchrun --nproc-per-node N -m calcgpt train ... starts N processes"
            )
        else:
            last = run(
                chosen, data, out,
                resume=resume, force=force, device=device, progress=not quiet, trackers=trackers,
            )  # fmt: skip
    except Interrupted as stop:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun sends one when another has ended
        if main:
            click.echo(str(stop), err=True)
        sys.exit(128 + stop.signum)
    except TrainingError:  # ends all processes, of which one says it
        if not main:
            sys.exit(2)
        raise
    if main:
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
    """Show what CHECKPOINT, the best of a run, or a recipe is made of, its parameters as closed
    formulas, and how it was trained."""
    from calcgpt.checkpoint import Checkpoint, resolve
    from calcgpt.lab.info import choices, parameter_table, training
    from calcgpt.recipe import load_recipe

    if (checkpoint is None) == (recipe is None):
        raise click.UsageError("one of CHECKPOINT and --recipe is needed")
    told = ""
    if checkpoint is not None:
        folder = resolve(checkpoint)
        loaded = Checkpoint.load(folder)
        model, vocabulary = loaded.recipe.model, len(loaded.tokenizer)
        told = f"\n\n{training(loaded, folder)}"
    else:
        model = load_recipe(str(recipe), overrides).model
    click.echo(f"{choices(model)}\n\n{parameter_table(model, vocabulary)}{told}")


COMMANDS = [train, recipes, info]
