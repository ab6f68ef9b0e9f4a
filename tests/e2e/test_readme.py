"""The commands of the README and the pages exist, their links lead somewhere, and the figures of
their tables are in files that a command wrote."""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from commands import RunCli

from calcgpt.base.errors import UserError
from calcgpt.base.plugins import extensions
from calcgpt.cli import cli
from calcgpt.cli.export import EXPORTERS
from calcgpt_lab.data.tokenizers import TOKENIZERS
from calcgpt_lab.model.attention import ATTENTIONS
from calcgpt_lab.model.base import BLOCKS
from calcgpt_lab.model.gpt import MODELS
from calcgpt_lab.model.layers import FEEDFORWARDS, NORMS
from calcgpt_lab.model.positions import POSITIONS
from calcgpt_lab.recipe import PRESETS, RECIPES
from datagen.distributions import DISTRIBUTIONS

ROOT = Path(__file__).parents[2]
PAGES = {
    str(page.relative_to(ROOT)): page.read_text("utf-8")
    for folder in (".", "docs", "docs/course", "docs/guide", "research")
    for page in sorted((ROOT / folder).glob("*.md"))
}
USERS = [name for name in PAGES if not name.startswith(("research/", "CHANGELOG"))]
README = PAGES["README.md"]


def shell_blocks(text: str) -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    return [block.replace("\\\n", " ").splitlines() for block in blocks]


def test_the_two_commands_come_first() -> None:
    first = [line.split("#")[0].strip() for line in shell_blocks(README)[0]]
    assert first == ["make serve", "make test"]


def test_the_short_walk_works_as_written(here: Path, run_cli: RunCli) -> None:
    [block] = [
        lines for lines in shell_blocks(README) if any("data/nano" in line for line in lines)
    ]
    assert len(block) == 3
    for line in block:
        program, *arguments = shlex.split(line)
        assert program == ".venv/bin/calcgpt"
        outcome = run_cli(*arguments)
        assert outcome.code == 0, outcome.err
    assert "exact match" in outcome.out


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command of calcgpt: in boxes, and in indented lines."""
    text = text.replace("\\\n", " ")
    for line in re.findall(r"^(?: {4})?(?:\.venv/bin/)?calcgpt ([^\n]+)", text, flags=re.M):
        with suppress(ValueError):  # an apostrophe in a line that is not a command
            yield shlex.split(line, comments=True)


@pytest.mark.parametrize("page", USERS)
def test_every_command_exists(page: str, here: Path) -> None:
    for name, *words in commands(PAGES[page]):
        if name[0].isdigit() or " " in name:  # an expression
            name, words = "calc", [name, *words]
        context = cli.make_context("calcgpt", [name])
        command = cli.get_command(context, name)
        assert command is not None, (name, words)
        if words[:1] == ["text"]:
            assert isinstance(command, click.Group)
            name, *words = words
            command = command.commands[name]
        with suppress(UserError):  # files of the example do not exist
            command.make_context(name, words, parent=context)
        if "--recipe" in words:
            assert words[words.index("--recipe") + 1] in RECIPES


def test_every_module_that_is_named_exists() -> None:
    text = "\n".join([*(PAGES[page] for page in USERS), (ROOT / "Makefile").read_text("utf-8")])
    named = set(re.findall(r"-m (benchmarks|tools|research)\.(\w+)", text))
    assert ("tools", "fuzz") in named
    for folder, name in named - {
        (folder, "NAME") for folder in ("benchmarks", "tools", "research")
    }:
        assert find_spec(f"{folder}.{name}"), f"{folder}.{name}"


def test_the_names_that_can_be_chosen_are_all_there() -> None:
    variants = [*MODELS, *POSITIONS, *ATTENTIONS, *FEEDFORWARDS, *NORMS, *BLOCKS]
    for name in [*variants, *TOKENIZERS, *PRESETS]:
        assert f"`{name}`" in PAGES["docs/VARIANTS.md"], name
    for name in DISTRIBUTIONS:
        assert f"`{name}`" in PAGES["docs/guide/data.md"], name
    for target in (*extensions(EXPORTERS), "web"):
        assert f"--to {target}" in PAGES["docs/COMMANDS.md"]


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", PAGES[page]):
        if not target.startswith(("https:", "http:", "mailto:")):
            file = (ROOT / page).parent / target if target else ROOT / page
            assert file.exists(), target
            if anchor:
                assert anchor in anchors(file.read_text("utf-8")), f"{target}#{anchor}"


def numbers(value: Any) -> Iterator[float]:
    """All numbers in what a JSON file holds, shares in percent and as "one in N", too."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from numbers(part)
    elif isinstance(value, int | float):
        yield from (value, 100 * value)
        if 0.9 < value < 1:
            yield round(1 / (1 - value), -4)


def measured(pattern: str) -> Iterator[float]:
    """The numbers in the files of a pattern."""
    files = sorted(ROOT.glob(pattern))
    assert files, pattern
    for file in files:
        text = file.read_text("utf-8")
        figures = re.findall(r"\d[\d,]*(?:\.\d+)?", text)
        is_json = file.suffix == ".json"
        yield from numbers(
            json.loads(text) if is_json else [float(n.replace(",", "")) for n in figures]
        )


TABLES = [
    (page, table, files)
    for page in USERS
    for table, files in re.findall(
        r"((?:^\|[^\n]*\n)+)\n(?:<!-- )?Files: ([^\n]*)\.(?: -->)?$", PAGES[page], flags=re.M
    )
]


@pytest.mark.parametrize(("page", "table", "files"), TABLES)
def test_every_figure_of_a_table_is_in_its_files(page: str, table: str, files: str) -> None:
    """A cell may be rounded. The first column has names."""
    found = np.array([n for pattern in re.findall(r"`(.*?)`", files) for n in measured(pattern)])
    rows = [row for row in table.splitlines()[2:] if not row.startswith("| the blog post |")]
    for row in rows:
        for cell in row.strip("|").split("|")[1:]:
            for figure in re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w.])", cell):
                error = np.abs(np.abs(found) - float(figure.replace(",", ""))).min()
                assert error <= 0.5001 * 10.0 ** -len(figure.partition(".")[2]), (figure, row)
