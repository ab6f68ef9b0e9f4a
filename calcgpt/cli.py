"""The command line. Every command is a thin wrapper around one function of the packages."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from datagen.errors import UserError


class OneLineErrors(click.Group):
    """Whatever a person can get wrong ends in one line on stderr and exit code 2."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["standalone_mode"] = False
        logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
        try:
            return super().main(*args, **kwargs)
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            sys.exit(2)
        except click.ClickException as error:
            _fail(error.format_message())
        except UserError as error:
            _fail(str(error))
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted", err=True)
            sys.exit(130)
        except BrokenPipeError:  # the reader of our output has gone, as `| head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        except OSError as error:
            _fail(f"{error.filename or 'file'}: {error.strerror or error}")


def _fail(message: str) -> NoReturn:
    click.echo(f"error: {' '.join(message.split())}", err=True)
    sys.exit(2)


@click.group(cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="calcgpt")
def cli() -> None:
    """A calculator whose answers come from a small GPT, and the laboratory it is made in.

    CHECKPOINT is everywhere a folder, a name under checkpoints/, or `best`: the one with the
    highest validation exact match.
    """


@cli.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--train", default=3_000_000, show_default=True, help="Training problems.")
@click.option("--val", default=10_000, show_default=True, help="Validation problems.")
@click.option("--test", default=10_000, show_default=True, help="Test problems.")
@click.option("--seed", default=0, show_default=True, help="The data's seed.")
@click.option("--distribution", default="blog", show_default=True, help="Which problems.")
@click.option("--format", "format_", default="direct", show_default=True,
              help="How written: direct, or steps, the work in between.")  # fmt: skip
@click.option("--digits", type=int, help="steps: digits of a number, in hundredths.  [default: 7]")
@click.option("--workers", default=1, show_default=True, help="Processes; the bytes are the same.")
@click.option("--force", is_flag=True, help="Replace another data set in OUT.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def datagen(
    out: Path, train: int, val: int, test: int, seed: int, distribution: str, format_: str,
    digits: int | None, workers: int, force: bool, quiet: bool,
) -> None:  # fmt: skip
    """Write a data set to OUT: train.txt, val.txt, test.txt and manifest.json.

    No validation or test problem occurs in training, or twice. The same command continues what
    was interrupted.
    """
    from datagen.dataset import DatasetPlan, generate

    plan = DatasetPlan(train, val, test, seed, distribution, format_, digits)
    generate(out, plan, workers=workers, force=force, progress=not quiet)
    click.echo(f"{out}: {train:,} training, {val:,} validation and {test:,} test problems")


@cli.command()
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


@cli.command()
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


@cli.command()
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


@cli.command(name="eval")
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
    from calcgpt import report
    from calcgpt.checkpoint import Checkpoint, resolve
    from calcgpt.generate import Sampling
    from calcgpt.train import pick_device
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


def _named_files(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, Path]:
    """NAME=FILE, repeated, as a dict; click.BadParameter for what is not, or not once."""
    files: dict[str, Path] = {}
    for value in values:
        name, _, file = value.partition("=")
        if not (re.fullmatch(r"[\w.-]+", name) and file):
            raise click.BadParameter(f"{value!r} is not of the form NAME=FILE")
        if name in files:
            raise click.BadParameter(f"{name!r} is given twice")
        files[name] = Path(file)
    return files


@cli.command()
@click.argument("run")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--data", required=True, type=click.Path(path_type=Path), help="The data's folder.")
@click.option("--also", multiple=True, metavar="NAME=FILE", callback=_named_files,
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
    from calcgpt.report import publish as write
    from calcgpt.train import pick_device

    loaded = Checkpoint.load(resolve(run), pick_device(device))
    write(loaded, data, out, force, also=also, progress=not quiet)
    click.echo(f"{loaded.name} is published as {out}")


@cli.command()
@click.argument("checkpoint")
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--to", "target", required=True, help="What for: hf, the library transformers; onnx.")
@click.option("--force", is_flag=True, help="Replace an earlier export at OUT.")
def export(checkpoint: str, out: Path, target: str, force: bool) -> None:
    """Write CHECKPOINT to the folder OUT in a format of others.

    What is written is read back and compared first: a wrong export is none.
    """
    from calcgpt.checkpoint import Checkpoint, resolve
    from calcgpt.export import EXPORTERS

    write = EXPORTERS[target]
    loaded = Checkpoint.load(resolve(checkpoint))
    click.echo(f"{out}: {loaded.name} as {write(loaded, out, force)}")


@cli.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
def report(folders: tuple[Path, ...]) -> None:
    """Print the scores in the metrics.json of FOLDERS as a Markdown table."""
    from calcgpt.report import comparison_table

    click.echo(comparison_table(folders))


@cli.command()
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


@cli.command(context_settings={"ignore_unknown_options": True})  # -5+3 is no option
@click.argument("expression")
@click.option("--checkpoint", default="best", show_default=True, help="A folder, name or `best`.")
@click.option("--work", is_flag=True, help="Also show all that it wrote, and how sure it was.")
def calc(expression: str, checkpoint: str, work: bool) -> None:
    """Answer EXPRESSION: calcgpt calc "(12.5+3)*4".

    Numbers have at most two decimal places; + - * /, parentheses and a minus sign are understood.
    The model answers each operation. Its answer goes to stdout; where it is wrong, stderr says so.
    """
    from calcgpt.calculator import Calculator
    from calcgpt.checkpoint import Checkpoint, resolve

    answer = Calculator(Checkpoint.load(resolve(checkpoint))).calculate(expression)
    click.echo(answer.written)
    for node in answer.nodes if work else ():
        if node.confidence:
            sure = node.confidence
            click.echo(f"{node.prompt}{node.output}")
            click.echo(f"probability of the answer {sure.answer:.4f}, of all {sure.whole:.4f}; "
                       f"least of a step {sure.weakest_step:.4f}")  # fmt: skip
    for fault in answer.faults:
        click.echo(fault, err=True)


@cli.command(name="inspect", context_settings={"ignore_unknown_options": True})  # -5+3 again
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
    from calcgpt.inspection import choose, inspect
    from calcgpt.inspection_plots import draw_inspection
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
    for fault in found.answer.faults:
        click.echo(fault, err=True)


class ServeCommand(click.Command):
    """Its options are the service's settings, looked up only when they are needed: no other
    command imports what the service is made of."""

    def get_params(self, context: click.Context) -> list[click.Parameter]:
        from api.options import options

        return [*options(), *super().get_params(context)]


@cli.command(cls=ServeCommand)
@click.option("--show-config", is_flag=True, help="Print the settings, secrets masked, and end.")
def serve(show_config: bool, **flags: Any) -> None:
    """Serve the calculator over HTTP, and a page to use it on.

    What no flag says is read from the environment: CALCGPT_PORT for --port, and so on.
    """
    from api.server import run
    from api.settings import load_settings

    settings = load_settings({name: value for name, value in flags.items() if value is not None})
    if show_config:
        click.echo(json.dumps(settings.shown(), indent=2))
    else:
        run(settings)
