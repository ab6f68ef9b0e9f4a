"""The command that compares variants."""

from __future__ import annotations

from pathlib import Path

import click

from calcgpt.commands.options import named_paths


@click.command()
@click.option("--suite", required=True, help="A name, as below, or a TOML file.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder of the runs.")
@click.option("--data", multiple=True, metavar="TASK=FOLDER", callback=named_paths,
              help="A task's data, in place of what the suite says. Repeatable.")  # fmt: skip
@click.option("--only", multiple=True, metavar="TASK[/VARIANT]",
              help="Only these of the suite. Repeatable.")  # fmt: skip
@click.option("--seed", "seeds", multiple=True, type=click.IntRange(0, 2**63 - 1),
              help="In place of the suite's seeds. Repeatable.")  # fmt: skip
@click.option("--set", "overrides", multiple=True, metavar="FIELD=VALUE",
              help="Override a field in every run, as train.steps=500. Repeatable.")  # fmt: skip
@click.option("--jobs", type=click.IntRange(1, 256),
              help="Runs at a time.  [default: as there are GPUs, or cores]")  # fmt: skip
@click.option("--threads", default=1, show_default=True, type=click.IntRange(min=1),
              help="CPU threads of a run.")  # fmt: skip
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1 ...")
@click.option("--quiet", is_flag=True, help="No progress.")
def ablate(
    suite: str, out: Path, data: dict[str, Path], only: tuple[str, ...], seeds: tuple[int, ...],
    overrides: tuple[str, ...], jobs: int | None, threads: int, device: str, quiet: bool,
) -> None:  # fmt: skip
    """Train every variant of a suite with several seeds, and compare them in OUT/report.md.

    The same command continues what was interrupted, and repeats no run that is done; with other
    seeds it adds to them. Suites: attention, blog, feedforward, nano, positions.
    """
    from calcgpt.ablation.ablate import ablate as run
    from calcgpt.ablation.suite import load_suite

    loaded = load_suite(suite)
    if seeds:
        loaded = loaded.model_copy(update={"seeds": list(dict.fromkeys(seeds))})
    files = run(
        loaded, out, data=data, only=only, overrides=overrides, device=device, n_process=jobs,
        threads=threads, progress=not quiet,
    )  # fmt: skip
    for file in files:
        click.echo(str(file))


COMMANDS = [ablate]
