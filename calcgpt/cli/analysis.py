"""Commands that analyse a model: its rules, its data and its internals."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from calcgpt.cli.completion import complete_checkpoint, complete_recipe
from calcgpt.cli.options import (
    NAME,
    PATH,
    ExpressionCommand,
    checkpoint_argument,
    drawing_option,
    echo_report,
    engine_option,
    given_options,
    json_option,
    out_argument,
    output_folder,
    quiet_option,
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


@click.command()
@checkpoint_argument
@click.option(
    "--contexts",
    default=3,
    show_default=True,
    type=click.IntRange(1, 1000),
    help="A case must occur at this many positions, all predicted right.",
)
@click.option(
    "--n",
    "most",
    default=100_000,
    show_default=True,
    type=click.IntRange(1, 10**8),
    help="Draw at most this many problems. The model reads those with cases that are still needed.",
)
@seed_option("problems")
@engine_option
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    help="Number of processes, with one thread each.  [default: this process]",
)
@drawing_option("heat maps")
@json_option("Write the numbers, and what is wrong, to this file.")
@quiet_option
def certify(
    checkpoint: str,
    contexts: int,
    most: int,
    seed: int,
    engine: str,
    workers: int | None,
    out: Path | None,
    json_file: Path | None,
    quiet: bool,
) -> None:
    """Test the rules of CHECKPOINT's worked steps in all their cases.

    A rule writes one character from a few earlier ones, such as a digit of a product from two
    digits, a carry and the digit above. The model reads correct work and predicts each character
    from those before it. A case is certified if it occurs at --contexts positions or more and the
    most probable character is right at all of them. Quotient digits have too many cases: only those
    that occur are tested.
    """
    from calcgpt.checkpoint import Checkpoint
    from calcgpt.lab.case_lines import choose_lines
    from calcgpt.lab.certify import certify as run
    from calcgpt.lab.certify import check_certifiable
    from calcgpt.lab.certify_plots import draw_certificate
    from calcgpt.registry import resolve
    from datagen.progress import progress_bar

    folder = resolve(checkpoint)
    loaded = Checkpoint.load(folder)
    check_certifiable(loaded)
    longest = loaded.recipe.model.block_size + 1
    with progress_bar(most, not quiet, desc="drawing", unit="problem", leave=False) as bar:
        lines, drawn = choose_lines(
            contexts, most, longest, seed, workers=workers, progress=bar.update
        )
    with progress_bar(len(lines), not quiet, desc="reading", unit="problem", leave=False) as bar:
        certificate = run(
            loaded,
            folder,
            lines,
            drawn=drawn,
            seed=seed,
            contexts=contexts,
            engine=engine,
            workers=workers,
            progress=bar.update,
        )
    files = draw_certificate(out, certificate) if out else []
    echo_report(certificate.table(), files, json_file, certificate.record())


@click.command()
@click.argument("recipe", shell_complete=complete_recipe)
@click.option(
    "--n",
    default=100_000,
    show_default=True,
    type=click.IntRange(1, 10**8),
    help="Number of problems to draw.",
)
@seed_option("problems")
@click.option(
    "--digits",
    type=click.IntRange(1, 100),
    help="Count only problems whose operands have at most this many digits.  [default: all]",
)
@click.option(
    "--scored", type=PATH, help="A file of scored problems: how accurate a model is in each class."
)
@drawing_option("heat maps")
@set_option("Override a field of the recipe: data.mixture.edge=0.5.")
@json_option("Write the numbers to this file.")
@quiet_option
def coverage(
    recipe: str,
    n: int,
    seed: int,
    digits: int | None,
    scored: Path | None,
    out: Path | None,
    overrides: tuple[str, ...],
    json_file: Path | None,
    quiet: bool,
) -> None:
    """Count how often RECIPE draws each class of problems in training.

    The classes are those of each operation by lengths, places and signs of the operands, longest
    chain of carries, nearness to a power of ten, and zeros and nines in a row. A class is rare if
    it is drawn less than once in 20,000 problems.

    A file of scored problems has one JSON object per line, with `prompt`, such as
    $(0000000012+0000000003)=, and `right`, true or false.
    """
    from calcgpt.errors import ConfigError
    from calcgpt.lab.coverage import draw_coverage, measure
    from calcgpt.recipe import load_recipe
    from datagen.progress import progress_bar

    data = load_recipe(recipe, overrides).data
    if data is None:
        raise ConfigError(f"the recipe {recipe} has no [data] section: it draws no problems")
    with progress_bar(n, not quiet, unit="problem", leave=False) as bar:
        measured = measure(recipe, data, n, seed, digits, scored, bar.update)
    files = draw_coverage(out, measured) if out else []
    echo_report(measured.table(), files, json_file, measured.record())


@click.command()
@checkpoint_argument
@click.option(
    "--n",
    default=1_000,
    show_default=True,
    type=click.IntRange(20, 100_000),
    help="Problems: half give the means and choose the neurons, half are measured.",
)
@click.option(
    "--ablation",
    default="mean",
    show_default=True,
    type=click.Choice(["mean", "zero"]),
    help="What replaces the output of a head.",
)
@seed_option("problems")
@drawing_option("the tables and the neurons")
@json_option("Write the numbers to this file.")
@quiet_option
def circuits(
    checkpoint: str,
    n: int,
    ablation: Literal["mean", "zero"],
    seed: int,
    out: Path | None,
    json_file: Path | None,
    quiet: bool,
) -> None:
    """Show what each attention head of CHECKPOINT does.

    The command replaces the output of one head at a time, and of all heads of a layer, while the
    model reads correct work. The table shows, by rule, how many characters the model would then
    write wrongly. --out and --json also show how much each head attends to the characters that a
    rule reads, and which neurons best predict a carry or a borrow.
    """
    from datagen.extras import require

    require("a look inside a model", "torch")
    import torch

    from calcgpt.checkpoint import Checkpoint
    from calcgpt.lab.circuits import find_circuits, n_passes
    from calcgpt.lab.circuits_plots import draw_circuits
    from calcgpt.registry import resolve
    from datagen.progress import progress_bar

    torch.set_num_threads(1)  # as `inspect`
    loaded = Checkpoint.load(resolve(checkpoint))
    with progress_bar(
        n_passes(loaded.recipe.model), not quiet, desc="heads", unit="pass", leave=False
    ) as bar:
        circuits = find_circuits(loaded, n, ablation, seed, bar.update)
    echo_report(
        circuits.table(),
        draw_circuits(out, circuits) if out else [],
        json_file,
        circuits.record(),
    )


COMMANDS = [info, inspect_, plot, certify, coverage, circuits]
