"""Standard streams that are closed, readers that end early, and arguments that are not text."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import RunCli

CALCGPT = f"{sys.executable} -m calcgpt"


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of bash, which ends with the code of the first program that failed."""
    script = ["bash", "--norc", "-o", "pipefail", "-c", command.format(calcgpt=CALCGPT)]
    return subprocess.run(script, capture_output=True, text=True)


@pytest.mark.parametrize("command", ["recipes", "train --help"])
def test_a_reader_that_ends_early_is_no_failure(command: str) -> None:
    ended = shell(f"{{calcgpt}} {command} | true")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("command", "code", "reason"),
    [
        ("calc <&-", 2, "error: standard input is closed: give an EXPRESSION\n"),
        ("mcp <&-", 2, "error: standard input is closed\n"),
        ("calc 6/3 <&-", 0, ""),
        ("compare absent absent >&-", 2, "error: standard output is closed\n"),
        ("recipes >&-", 2, "error: standard output is closed\n"),
        ("recipes 2>&-", 0, ""),
        ("recipes absent 2>&-", 2, ""),
    ],
)
def test_a_closed_stream_is_refused_where_it_is_needed(
    command: str, code: int, reason: str
) -> None:
    ended = shell(f"{{calcgpt}} {command}")
    assert (ended.returncode, ended.stderr) == (code, reason)


def test_an_argument_that_is_not_text_is_refused(run_cli: RunCli, here: Path) -> None:
    name = os.fsdecode(b"t\xff.txt")
    outcome = run_cli("datagen", name, "--train", "10", "--val", "1", "--test", "1", "--quiet")
    assert outcome == (2, "", "error: the argument t\\udcff.txt is not UTF-8\n")
    assert list(here.iterdir()) == []
    ended = subprocess.run([sys.executable, "-m", "calcgpt", "recipes", name], capture_output=True)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert ended.stderr.count(b"\n") == 1


def test_a_pipe_other_than_the_output_is_an_error(
    run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("calcgpt_lab.recipe.load_recipe", fail)
    outcome = run_cli("recipes")
    assert (outcome.code, outcome.err) == (2, "error: cannot write: Broken pipe\n")
