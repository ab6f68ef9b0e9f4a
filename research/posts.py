"""The experiments of the posts: every suite of ablations, then the search in the space `blog`.

    python -m research.posts [PART ...] [--runs FOLDER] [--jobs N] [--steps N]

A PART is a suite, or `sweep`; the default is all of them. They train into FOLDER/PART, which the
same command continues after an interruption. `--steps` is the longest trial of the search, instead
of the 5,000 of the space; its grace is a twentieth of that.

Reports and plots go to results/ablations, those of the search to results/sweep. In ABLATIONS.md,
the tables of the old report are replaced by those of the new one.

Ran at commit 874d54e and before.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import tomli_w

from calcgpt.base.errors import unknown_name
from calcgpt.base.files import write_text

HERE = Path(__file__).parent
PAGE = HERE / "ABLATIONS.md"
SUITES = ("blog", "positions", "feedforward", "attention", "presets")
SWEEP = "sweep"
SPACE = HERE.parent / "calcgpt_lab" / "sweeps" / "blog.toml"


def calcgpt(*arguments: str | Path) -> None:
    """Runs a command of calcgpt. Raises CalledProcessError if it fails."""
    command = [sys.executable, "-m", "calcgpt", *map(str, arguments)]
    subprocess.run(command, check=True)  # nosec B603  # this Python


def tables(report: str) -> list[str]:
    """Returns the tables of a report in Markdown, in their order."""
    return [part.rstrip() for part in report.split("\n\n") if part.startswith("| ")]


def replace_tables(text: str, old: str, new: str) -> str:
    """Returns a text with the tables of an old report replaced by those of the new one.

    Raises ValueError unless both have as many tables and the text has all the old ones.
    """
    for before, after in zip(tables(old), tables(new), strict=True):
        if before not in text:
            raise ValueError(f"research/ABLATIONS.md lacks the table that begins {before[:60]!r}")
        text = text.replace(before, after)
    return text


def publish(source: Path, target: Path) -> None:
    """Copies a report, with what it was made from and its plots, and renews its tables."""
    old = target / "report.md"
    if old.exists():
        before, after = (file.read_text("utf-8") for file in (old, source / "report.md"))
        write_text(PAGE, replace_tables(PAGE.read_text("utf-8"), before, after))
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for file in source.glob("report.*"):
        shutil.copy(file, target)
    shutil.copytree(source / "plots", target / "plots")


def ablate(suite: str, runs: Path, jobs: list[str]) -> None:
    """Trains all variants of a suite with all its seeds, and publishes the report."""
    calcgpt("ablate", "--suite", suite, "--out", runs / suite, *jobs)
    publish(runs / suite, HERE / "results" / "ablations" / suite)


def sweep(runs: Path, steps: int | None) -> None:
    """Searches the space `blog` on the blog's data, and publishes the report."""
    space: str | Path = "blog"
    data = runs / "data"
    if not data.exists():
        calcgpt("datagen", data)
    if steps:
        space = runs / "blog.toml"
        table = tomllib.loads(SPACE.read_text("utf-8"))
        table["search"] |= {"max_steps": steps, "grace_steps": max(1, steps // 20)}
        write_text(space, tomli_w.dumps(table))
    calcgpt("sweep", space, "--data", data, "--out", runs / SWEEP)
    publish(runs / SWEEP, HERE / "results" / SWEEP)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    parts = [*SUITES, SWEEP]
    options.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts))
    options.add_argument("--runs", type=Path, default=Path("runs"))
    options.add_argument("--jobs", help="runs at a time; default: one per core")
    options.add_argument("--steps", type=int, help="of the longest trial of the search")
    arguments = options.parse_args()
    if unknown := set(arguments.parts) - set(parts):
        options.error(unknown_name("part", min(unknown), parts))
    jobs = ["--jobs", arguments.jobs] if arguments.jobs else []
    for part in arguments.parts or parts:
        if part == SWEEP:
            sweep(arguments.runs, arguments.steps)
        else:
            ablate(part, arguments.runs, jobs)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
