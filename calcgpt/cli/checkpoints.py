"""Commands that use a checkpoint: write with it, export it."""

from pathlib import Path
from typing import Any

import click

from calcgpt.cli import options
from datagen.errors import UserError


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
@options.seed_option("sampling")
def generate(checkpoint: str, prompt: str | None, tokens: int, **choices: Any) -> None:
    """Write a text with CHECKPOINT, token by token: calcgpt generate runs/play --prompt "To be".

    The text ends after --tokens, or when the model's context is full.
    """
    from calcgpt.checkpoint import Checkpoint
    from calcgpt.inference.engines import load_decoder
    from calcgpt.inference.generate import Sampling, sample

    sampling = Sampling(**choices)
    stored = Checkpoint.load(options.chosen(checkpoint))
    name, decoder = load_decoder(stored)
    if name == "torch":
        from calcgpt.inference.threads import choose_threads

        choose_threads(stored.model, n_token=1)
    try:  # a bad prompt is refused before anything is written
        parts = sample(stored, "\n" if prompt is None else prompt, tokens, sampling, decoder)
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


@click.command()
@options.checkpoint_argument
@options.out_argument
@options.plugin_option
@click.option(
    "--to",
    "target",
    required=True,
    help="The format: hf (transformers), gguf (llama.cpp), web, snapshots (of a run, for the page) "
    "or example (what the page plays when it opens).",
)
@click.option(
    "--also",
    multiple=True,
    type=options.NAME,
    metavar="CHECKPOINT",
    help="Another checkpoint for the same page. Repeatable; for `--to web`.",
)
@click.option(
    "--address", help="The URL of the page, for `--to web`: link previews then show a picture."
)
@options.force_option("an earlier export at OUT")
def export(
    checkpoint: str, out: Path, target: str, also: tuple[str, ...], address: str | None, force: bool
) -> None:
    """Write CHECKPOINT to the folder OUT in the format of another library, or as a page.

    The command loads the export with that library and compares it with CHECKPOINT. OUT appears only
    if the two are equal. With `--to web`, OUT is the calculator's page for any static host: the
    model runs in the browser.
    """
    from calcgpt.checkpoint import Checkpoint
    from calcgpt.errors import look_up
    from calcgpt.export import EXPORTERS, LIBRARIES
    from calcgpt.export.web import export_page, export_snapshots
    from calcgpt.inference.browser import page_address
    from datagen.extras import require

    look_up(dict.fromkeys((*EXPORTERS, "web", "snapshots", "example")), target, "export target")
    for option, value in {"--also": also, "--address": address}.items():
        if value and target != "web":
            raise UserError(f"{option} is for --to web")
    address = None if address is None else page_address(address)
    if target == "snapshots":
        click.echo(f"{out}: {export_snapshots(Path(checkpoint), out, force)}")
        return
    if target == "example":
        require(f"export to {target}", "torch")
        from calcgpt.lab.example import export_example

        loaded = Checkpoint.load(options.chosen(checkpoint))
        click.echo(f"{out}: {export_example(loaded, out, force)}")
        return
    require(f"export to {target}", *LIBRARIES.get(target, ()))
    models = [Checkpoint.load(options.chosen(name)) for name in (checkpoint, *also)]
    if target == "web":
        written = export_page(models, out, force, address)
    else:
        written = EXPORTERS[target](models[0], out, force)
    names = ", ".join(model.name for model in models)
    click.echo(f"{out}: {names} as {written}")


COMMANDS = [generate, export]
