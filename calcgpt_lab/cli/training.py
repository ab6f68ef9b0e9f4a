"""Commands that train models and show what can be trained."""

from __future__ import annotations

import logging
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from calcgpt.base.errors import UserError, unknown_name
from calcgpt.cli import options
from calcgpt_lab.cli import lab_options

if TYPE_CHECKING:
    from calcgpt.config import TrainConfig
    from calcgpt_lab.training.trackers import TrackerFactory

log = logging.getLogger(__name__)
RUN_LOG = "calcgpt_lab.training.run_folder"  # says whether --resume begins a new run


@click.command()
@click.option(
    "--recipe",
    required=True,
    shell_complete=lab_options.complete_recipe,
    help="A name (see `calcgpt recipes`) or a TOML file.",
)
@options.plugin_option
@lab_options.data_option
@lab_options.task_option
@click.option("--out", required=True, type=options.PATH, help="The folder of the run.")
@lab_options.set_option("Override a field of the recipe: model.n_layer=4.")
@click.option(
    "--seed", type=lab_options.SEED, help="Seed of every random draw, the same as train.seed."
)
@click.option("--resume", is_flag=True, help="Continue the run in --out, or begin one.")
@options.force_option("a run in --out")
@lab_options.device_option
@lab_options.threads_option("CPU threads.  [default: 1 or one for each core, what is faster]")
@click.option(
    "--wandb",
    "wandb_project",
    is_flag=False,
    flag_value="calcgpt",
    metavar="[PROJECT]",
    help="Also log to Weights & Biases; PROJECT defaults to calcgpt.",
)
@options.quiet_option
def train(
    recipe: str,
    data: Path | None,
    task: str | None,
    out: Path,
    overrides: tuple[str, ...],
    seed: int | None,
    resume: bool,
    force: bool,
    device: str,
    threads: int | None,
    wandb_project: str | None,
    quiet: bool,
) -> None:
    """Train a model. SIGINT and SIGTERM save a checkpoint first; --resume continues exactly.

    On two cores, the recipe nano takes seconds, adder a minute and calculator a quarter of an hour.
    """
    if resume and force:
        raise click.UsageError("--resume continues, --force replaces a run: use only one of them")
    from calcgpt.base.extras import require
    from calcgpt_lab.recipe import load_recipe

    require("training", "torch", *(["wandb"] if wandb_project is not None else []))

    from calcgpt_lab.data.task import load_task
    from calcgpt_lab.training.train import train as run

    if task and data:
        raise click.UsageError("use only one of --data and --task")
    logging.getLogger(RUN_LOG).setLevel(logging.INFO)
    overrides += () if seed is None else (f"train.seed={seed}",)
    loaded, source = load_recipe(recipe, overrides), load_task(task) if task else data
    _note_short_run(loaded.train)
    trackers = _trackers(wandb_project)
    with _exit_codes():
        last = run(
            loaded,
            source,
            out,
            resume=resume,
            force=force,
            device=device,
            progress=not quiet,
            trackers=trackers,
            threads=threads or 0,
        )
    click.echo(f"the run is complete; its last checkpoint is {last}")
    if not quiet:
        click.echo("\n".join(["next:", *_next_commands(last, data, task)]))


def _next_commands(last: Path, data: Path | None, task: str | None) -> list[str]:
    """Returns three commands, ready to be pasted: how good the model is, and its use."""
    from calcgpt.checkpoint import Checkpoint
    from calcgpt.variants import loaded_plugins
    from calcgpt_lab.evaluation.evaluate import predicts_text

    checkpoint, run = Checkpoint.load(last), str(last.parent)
    recipe, examples = checkpoint.recipe, checkpoint.metrics.get("examples", ["12.5+3"])
    use = [["calc", *examples[:1], "--checkpoint", run], ["serve", "--checkpoint", run]]
    if predicts_text(checkpoint):
        commands = [["generate", run], ["info", run], ["compare", run]]
    elif recipe.train.batches == "cases":
        commands = [["prove", run], *use]
    elif task or data:
        commands = [["eval", run, *(["--task", task] if task else ["--data", str(data)])], *use]
    else:
        assert recipe.data
        made = ["datagen", f"{run}-data", "--train", "1", "--distribution", recipe.data.validation]
        commands = [made, ["eval", run, "--data", f"{run}-data"], use[0]]
    plugins = [word for path in loaded_plugins() for word in ("--plugin", str(path))]
    return [shlex.join([*options.program(), *command, *plugins]) for command in commands]


def _note_short_run(config: TrainConfig) -> None:
    if config.warmup_steps >= config.steps:
        log.warning(
            "train.warmup_steps (%d) is not below train.steps (%d): the run ends in its warm-up",
            config.warmup_steps,
            config.steps,
        )


@contextmanager
def _exit_codes() -> Iterator[None]:
    """Ends this process with the number of the signal that stopped the run. A full disk is
    reported with the command that continues the run."""
    from calcgpt_lab.training.run_folder import FullDiskError
    from calcgpt_lab.training.stopping import Interrupted

    try:
        yield
    except Interrupted as stop:
        click.echo(str(stop), err=True)
        sys.exit(128 + stop.signum)
    except FullDiskError as error:
        raise FullDiskError(f"{error}: {lab_options.resuming()}") from error


def _trackers(wandb_project: str | None) -> list[TrackerFactory]:
    """Returns the trackers that the options ask for. Raises UserError before any work begins."""
    if wandb_project is None:
        return []
    from calcgpt_lab.training.trackers import wandb_tracker

    return [wandb_tracker(wandb_project)]


@click.command()
@click.argument(
    "name", required=False, type=options.NAME, shell_complete=lab_options.complete_recipe
)
@options.plugin_option
def recipes(name: str | None) -> None:
    """List the recipes, or show every field of the recipe NAME as TOML, with its meaning.

    NAME can also be a preset: an architecture, for the [model] of a recipe.
    """
    from calcgpt.base.plugins import load_installed
    from calcgpt_lab.recipe import PRESETS, RECIPES, commented_toml, load_recipe, preset_toml

    load_installed()
    recipes = sorted(RECIPES)
    if name and name not in RECIPES and name not in PRESETS and not name.endswith(".toml"):
        names = dict.fromkeys([*recipes, *PRESETS])
        raise UserError(unknown_name("recipe or preset", name, names))
    if name in PRESETS and name not in RECIPES:
        click.echo(preset_toml(name), nl=False)
        return
    if name:
        click.echo(commented_toml(load_recipe(name)), nl=False)
        return
    width = max(map(len, recipes))
    for recipe in recipes:
        click.echo(f"{recipe:<{width}}  {load_recipe(recipe).description}")
    click.echo(f"presets, for --set model.preset=NAME: {', '.join(PRESETS)}")
