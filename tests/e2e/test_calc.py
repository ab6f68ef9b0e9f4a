"""`calcgpt calc` with a model of any width."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fake_decoder import completing_decoder, right_at_any_width, wide_checkpoint

from calcgpt.checkpoint import save_domain
from calcgpt.cli import cli
from calcgpt.config import Domain
from calcgpt.inference import calculator
from calcgpt.inference.native import machine_code

UNPROVEN = "this model was measured for numbers of at most 12 digits, 8 places"


@pytest.fixture
def wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a model that was measured for 12 digits and 8 places, and is right."""
    folder = tmp_path / "wide"
    wide_checkpoint(block_size=512).save(folder)
    save_domain(folder, Domain(digits=12, places=8))

    class Right(calculator.Calculator):
        def __init__(self, checkpoint: Any, decoder: Any) -> None:
            super().__init__(
                checkpoint, completing_decoder(checkpoint.tokenizer, right_at_any_width)
            )

    monkeypatch.setattr(calculator, "Calculator", Right)
    return folder


@pytest.mark.parametrize(
    ("args", "out", "err"),
    [
        (["1/3"], "0.33333333", "rounded to 8 places"),
        (["(1/3)*3"], "0.99999999", "rounded to 8 places"),
        (["1/3", "--places", "4"], "0.3333", "rounded to 4 places"),
        (["100000.001+1"], "100001.001", ""),
        (["-80457.28-19551.06"], "-100008.34", ""),
        (
            ["1/3", "--places", "9", "--unproven"],
            "0.333333333",
            "rounded to 9 places\nthe model was not measured for such numbers",
        ),
    ],
    ids=str,
)
def test_an_answer_has_the_places_asked_for(
    run_cli: Callable[..., Any], wide: Path, args: list[str], out: str, err: str
) -> None:
    outcome = run_cli("calc", *args, "--checkpoint", wide)
    assert (outcome.code, outcome.out.strip(), outcome.err.strip()) == (0, out, err)


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["1+1234567890123"], f"a number of 13 digits; {UNPROVEN} (position 2); --unproven asks"),
        (["1/3", "--places", "9"], f"an answer to 9 places; {UNPROVEN}"),
        (["1/3", "--places", "10"], "10 is not in the range 1<=x<=9"),
        (["1/3", "--places", "0"], "0 is not in the range 1<=x<=9"),
        (["1+0.0123456789"], "more than 9 decimal places (position 13)"),
        (["1+" + "1" * 101, "--unproven"], "a number of more than 100 characters (position 2)"),
        (["1" * 25 + "*" + "1" * 25, "--unproven"], "this model's context holds 512"),
    ],
    ids=str,
)
def test_what_cannot_be_asked_is_one_line(
    run_cli: Callable[..., Any], wide: Path, args: list[str], reason: str
) -> None:
    outcome = run_cli("calc", *args, "--checkpoint", wide)
    assert (outcome.code, outcome.out) == (2, "")
    (line,) = outcome.err.splitlines()
    assert line.startswith("error: ")
    assert reason in line


def test_an_answer_by_the_native_engine_needs_neither_torch_nor_numba(tiny_folder: Path) -> None:
    program = f"""
import sys
from calcgpt.cli import cli
cli.main(["calc", "782+21", "--checkpoint", {str(tiny_folder)!r}, "--engine", "native"])
print(sorted({{"torch", "numba", "llvmlite"}} & sys.modules.keys()))
"""
    machine_code.object_code()  # is cached from now on
    by_torch = ["calc", "782+21", "--checkpoint", str(tiny_folder), "--engine", "torch"]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    answer, imported = done.stdout.splitlines()
    assert imported == "['llvmlite']", done.stderr
    assert answer == CliRunner().invoke(cli, by_torch).stdout.strip()
