"""The command that proves a model."""

import sys
from pathlib import Path

import click

from calcgpt.cli import options


@click.command()
@click.argument(
    "checkpoint", type=options.NAME, default="best", shell_complete=options.complete_checkpoint
)
@click.option(
    "--json", "json_file", type=options.PATH, help="Also write what was found to this file."
)
@options.quiet_option
def prove(checkpoint: str, json_file: Path | None, quiet: bool) -> None:
    """Try every case of every rule on CHECKPOINT, so that no step of its work can be wrong.

    The network answers each case once and is remembered, as a person remembers 7 x 8. So what is
    served is what was tried. Prints a line for each part, and what is trusted and not proved.
    Exit code 1, with the first counterexample, if a part fails. docs/PROOF.md explains the proof.
    """
    from calcgpt import proof
    from calcgpt.base.files import write_json
    from calcgpt.base.progress import progress_bar
    from calcgpt.checkpoint import Checkpoint
    from calcgpt.registry import resolve

    stored = Checkpoint.load(resolve(checkpoint))
    found: dict[str, float | str] = {"checkpoint": stored.name}
    with progress_bar(0, not quiet, unit="case", leave=False) as bar:
        for part in proof.prove(stored, bar.update):
            if part.name == "rules":
                bar.reset(proof.n_steps())
            if part.counterexample:
                click.echo(f"{part.name}: {part.counterexample}")
                click.echo(f"{stored.name} is not proved")
                sys.exit(1)
            click.echo(f"{part.name}: {part.finding}")
            found |= part.numbers
    if json_file:
        write_json(json_file, found)
    click.echo(
        "from one case to a whole line, for all numbers (tests/unit/datagen/test_theorems.py):"
    )
    for name, statement in proof.THEOREMS:
        click.echo(f"- {name}: {statement}")
    click.echo(f"{stored.name} is proved, for work of any length, but for what is trusted:")
    for line in proof.TRUSTED:
        click.echo(f"- {line}")
