"""`calcgpt inspect` as a process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from forks import run

REPOSITORY = Path(__file__).parents[2]


def calcgpt(*args: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "calcgpt", *map(str, args)]
    return run(command, ("calcgpt.lab.inspection_plots",), cwd=cwd)


def test_a_shipped_model_is_inspected(tmp_path: Path) -> None:
    checkpoint = REPOSITORY / "checkpoints" / "scratchpad-small"
    options = ("--layer", "2", "--head", "0", "--n", "8", "--json", "numbers.json")
    ended = calcgpt("inspect", checkpoint, "12.5*3", *options, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    answer, *files = ended.stdout.splitlines()[:4]
    assert answer == "37.5"
    assert {path.name for path in (tmp_path / "inspection").iterdir()} == {
        Path(file).name for file in files
    }
    assert all((tmp_path / file).read_bytes().startswith(b"\x89PNG") for file in files)
    record = json.loads((tmp_path / "numbers.json").read_text())
    assert record["read"].startswith("$8(00000012.5*0000000003)=+521+")
    assert len(record["activations"]["layers"]) == 4


def test_a_bad_expression_is_one_line_and_exit_code_2(tiny_folder: Path, tmp_path: Path) -> None:
    ended = calcgpt("inspect", tiny_folder, "12.5&3", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == "error: '&' is not an operation; valid are + - * / ^ (position 4)\n"
    assert list(tmp_path.iterdir()) == []
