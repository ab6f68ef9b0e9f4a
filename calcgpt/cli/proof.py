"""The command that proves a model."""

import sys

import click

from calcgpt.cli import options
from calcgpt.cli.completion import complete_checkpoint


@click.command()
@click.argument(
    "checkpoint", type=options.NAME, default="proved", shell_complete=complete_checkpoint
)
@options.quiet_option
def prove(checkpoint: str, quiet: bool) -> None:
    """Try every case of every rule on CHECKPOINT, so that no answer can be wrong: calcgpt prove

    The network answers each case once and is remembered, as a person remembers 7 x 8. So what is
    served is what was tried. Prints a line for each part, and what is trusted and not proved.
    Exit code 1, with the first counterexample, if a part fails. docs/PROOF.md explains the proof.
    """
    from calcgpt.checkpoint import Checkpoint
    from calcgpt.evaluation import proof
    from calcgpt.registry import resolve
    from datagen.cases import all_cases
    from datagen.progress import progress_bar

    stored = Checkpoint.load(resolve(checkpoint))
    with progress_bar(0, not quiet, unit="case", unit_scale=True, leave=False) as bar:
        for part in proof.prove(stored, bar.update):
            if part.name == "rules":
                bar.reset(len(all_cases().kinds))
            if part.counterexample:
                click.echo(f"{part.name}: {part.counterexample}")
                click.echo(f"{stored.name} is not proved")
                sys.exit(1)
            click.echo(f"{part.name}: {part.finding}")
    click.echo(f"{stored.name} is proved, for work of any length, but for what is trusted:")
    for line in proof.TRUSTED:
        click.echo(f"- {line}")


COMMANDS = [prove]
