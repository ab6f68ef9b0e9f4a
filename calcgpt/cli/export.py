"""The command that exports a checkpoint."""

from pathlib import Path

import click

from calcgpt.base.errors import UserError
from calcgpt.cli import options

EXPORTERS = "calcgpt.exporters"  # entry points: formats, see `calcgpt_lab.export`


@click.command()
@options.checkpoint_argument
@options.out_argument
@options.plugin_option
@click.option(
    "--to",
    "target",
    required=True,
    help="The format: hf (transformers), gguf (llama.cpp), web, or example (what the page plays "
    "when it opens).",
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
    from calcgpt.base.plugins import extension, extensions, look_up
    from calcgpt.checkpoint import Checkpoint
    from calcgpt.export.web import export_page
    from calcgpt.inference.browser import page_address

    others = extensions(EXPORTERS)
    look_up(dict.fromkeys(("web", *others)), target, "export target")
    for option, value in {"--also": also, "--address": address}.items():
        if value and target != "web":
            raise UserError(f"{option} is for --to web")
    address = None if address is None else page_address(address)
    exporter = extension(EXPORTERS, target) if target in others else None
    models = [Checkpoint.load(options.chosen(name)) for name in (checkpoint, *also)]
    if exporter:
        written = exporter(models[0], out, force)
    else:
        written = export_page(models, out, force, address)
    names = ", ".join(model.name for model in models)
    click.echo(f"{out}: {names} as {written}")
