"""Commands for people who run experiments."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path),
              help="Draw the curves over each other, as compare.png in this folder.")  # fmt: skip
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the numbers.")
def compare(folders: tuple[Path, ...], out: Path | None, json_file: Path | None) -> None:
    """Compare runs: what each came to, and in what their recipes differ.

    FOLDERS are what `train --out` named. The validation loss is the lowest; scores are those of the
    validation with the highest exact match, as a checkpoint is chosen.
    """
    from calcgpt.compare import comparison, comparison_text, read_runs
    from calcgpt.compare_plots import draw_comparison
    from datagen.files import write_json

    if json_file and not json_file.parent.is_dir():
        raise click.UsageError(f"{json_file.parent} is no folder to write {json_file.name} to")
    runs = read_runs(folders)
    files = draw_comparison(runs, out) if out else []
    if json_file:
        write_json(json_file, comparison(runs))
        files.append(json_file)
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    click.echo(comparison_text(runs, width))
    for file in files:
        click.echo(str(file))


COMMANDS = [compare]
