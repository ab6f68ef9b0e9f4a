"""What the command line says of itself: its help, its recipes, and what a shell completes."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from commands import RunCli

from calcgpt import __version__
from calcgpt.cli import cli

REPOSITORY = Path(__file__).parents[2]


def test_help_names_every_command_in_its_section(run_cli: RunCli) -> None:
    outcome = run_cli("--help")
    assert outcome.code == 0
    assert "..." not in outcome.out.partition("Options:")[2]  # nothing is cut off
    assert "Others:" not in outcome.out
    for command in cli.list_commands(click.Context(cli)):
        assert outcome.out.count(f"\n  {command} ") == 1


def test_every_option_that_the_pages_name_exists(run_cli: RunCli) -> None:
    """In backticks, alone or after a command. Those of other programs stand in code blocks."""
    option = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
    commands = [[], *([name] for name in cli.list_commands(click.Context(cli)))]
    names = {name for words in commands for name in option.findall(run_cli(*words, "--help").out)}
    for page in [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")]:
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        for quoted in re.findall(r"`((?:--|calcgpt )[^`\n]+)`", text):
            assert {*option.findall(quoted)} <= names, f"{page}: {quoted}"


def test_recipes_are_listed_and_shown(run_cli: RunCli) -> None:
    assert "\nblog-rope " in run_cli("recipes").out
    shown = run_cli("recipes", "blog").out
    assert "n_embd = 96  # width of the residual stream\n" in shown
    assert 'norm = "layernorm"  # normalisation (layernorm, rmsnorm)\n' in shown
    assert tomllib.loads(shown)["model"]["n_embd"] == 96
    preset = tomllib.loads(run_cli("recipes", "llama").out)["model"]
    assert (preset["position"], preset["feedforward"]) == ("rope", "swiglu")


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("train --recipe add", ["adder"]),
        ("recipes blog-s", ["blog-swiglu"]),
        ("eval b", ["best", "blog"]),
        ("export d", ["direct"]),
        ("inspect dir", ["direct"]),
        ("calc 1+1 --engine ca", ["cases"]),
        ("calc 1+1 --checkpoint dir", ["direct"]),
        ("serve --checkpoint dir", ["direct"]),
        ("ablate --suite po", ["positions"]),
        ("sweep na", ["nano"]),
        ("eval runs/", ["runs/"]),  # the shell completes the path
    ],
)
def test_the_shell_completes_names(
    words: str, completed: list[str], run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_CALCGPT_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"calcgpt {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    outcome = run_cli()
    kind = "file" if completed == ["runs/"] else "plain"
    assert sorted(outcome.out.split()) == sorted(f"{kind},{word}" for word in completed)


def test_bash_completes_after_the_line_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (REPOSITORY / "docs" / "COMMANDS.md").read_text("utf-8")
    (line,) = re.findall(r"`(eval .*bash_source.*)` \|", page)
    words = "COMP_WORDS=(calcgpt recipes add) COMP_CWORD=2"
    script = f"{line}; {words}; _calcgpt_completion calcgpt; echo ${{COMPREPLY[@]}}"
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("adder\n", "")


def test_a_checkout_that_is_not_installed_has_a_version(
    run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("importlib.metadata.version")
    assert run_cli("--version").out == f"calcgpt, version {__version__}\n"


def test_the_command_is_installed() -> None:
    ended = subprocess.run(
        [Path(sys.executable).with_name("calcgpt"), "--version"], capture_output=True, text=True
    )
    assert ended.returncode == 0
    assert "version" in ended.stdout
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([*ended.args], stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 2
    assert ended.stderr == "error: cannot write: No space left on device\n"
