"""`calcgpt calc`: what it understands, writes and returns, also at a prompt."""

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from commands import RunCli, run_apart
from fake_decoder import completing_decoder, right_with_work, worked_checkpoint

from calcgpt.cli import cli
from calcgpt.cli.calc import history
from calcgpt.inference import calculator
from calcgpt_lab.saving import save


@pytest.fixture
def wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a model that is right."""
    folder = tmp_path / "wide"
    save(worked_checkpoint(block_size=512), folder)

    class Right(calculator.Calculator):
        def __init__(self, checkpoint: Any, decoder: Any) -> None:
            super().__init__(checkpoint, completing_decoder(checkpoint.tokenizer, right_with_work))

    monkeypatch.setattr(calculator, "Calculator", Right)
    return folder


def test_the_work_of_a_function_names_its_rows(run_cli: RunCli, wide: Path) -> None:
    lines = run_cli("calc", "1+sqrt(2)", "--places", "2", "--work", "--checkpoint", wide).out
    rows = [line for line in lines.splitlines() if " > " in line]
    assert rows[0] == "sqrt(2) > 1. d = (x/z^m - z)/y"
    assert rows.count(rows[0]) == 3  # a quotient, a difference, a quotient
    assert rows[-1].endswith("z = z + d")


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["1/3", "--places", "31"], "31 is not in the range 0<=x<=30"),
        (["1*2", "--max-work", "20"], "the model would write about 24 characters; the limit is 20"),
        (["1*2", "--max-work", "0"], "0 is not in the range x>=1"),
        (["1*2", "--max-work", "100000001"], "work must be an integer from 1 to 100,000,000"),
        (["100-10%", "--percent", "of"], "'of' is not one of 'relative', 'plain'"),
        (["1" * 25 + "*" + "1" * 25], "this model's context holds 512"),
        (["7", "xor", "3"], "'xor' is not known"),  # a sentence is one expression
    ],
    ids=str,
)
def test_what_cannot_be_asked_is_an_error(
    run_cli: RunCli, wide: Path, args: list[str], reason: str
) -> None:
    outcome = run_cli("calc", *args, "--checkpoint", wide)
    assert (outcome.code, outcome.out, outcome.err.count("error: ")) == (2, "", 1)
    line = outcome.err.splitlines()[0]
    assert line.startswith("error: ")
    assert reason in line


@pytest.mark.parametrize(
    ("args", "out", "err"),
    [
        (["1/3"], "0.33333333", "rounded to 8 places"),
        (["1/3", "--places", "0"], "0", "rounded to 0 places, nothing is left: 1/3 is not 0"),
        (["1/3 to 2 places"], "0.33", "rounded to 2 places"),
        (["1/3", "--places", "4"], "0.3333", "rounded to 4 places"),
        (["√2", "--places", "4"], "1.4142", "rounded to 4 places"),
        (["5/6", "--fraction"], "5/6", ""),
        (["1+2", "--fraction"], "3", ""),
        (["100-10%"], "90", "read as: 100-10% as 100-(10% of 100)"),
        (["100-10%", "--percent", "plain"], "99.9", ""),
        (["12,500*2", "--decimal-comma"], "25", "read as: 12,500 as 12.5"),
        (["sin(30)", "--angle", "degrees", "--places", "1"], "0.5", ""),
        (["1+1", "2*3", "1/3"], "2\n6\n0.33333333", "1/3: rounded to 8 places"),
        (["1", "+", "2"], "3", ""),  # the shell has split it
        (["2*", "(3", "+4)"], "14", ""),
        (["-5+3", "7"], "-2\n7", ""),
        (["-(2^3)"], "-8", ""),
        (["--", "-5"], "-5", ""),
        (["1/3", "--quiet"], "0.33333333", ""),
        (["0.5+0.5", "4/2*5.0", "0.5*20"], "1\n10\n10", ""),  # as people write it
        (["x = 5", "x*ans"], "5\n25", ""),
        (["7", "mod", "3"], "1", ""),
        (["2", "plus", "2", "equals"], "4", ""),
    ],
    ids=str,
)
def test_several_expressions_or_one_that_the_shell_has_split(
    run_cli: RunCli, wide: Path, args: list[str], out: str, err: str
) -> None:
    outcome = run_cli("calc", "--checkpoint", wide, *args)
    assert outcome == (0, f"{out}\n", f"{err}\n" if err else "")


def test_an_expression_needs_no_command(run_cli: RunCli, wide: Path) -> None:
    outcome = run_cli("12.5*3", "--checkpoint", wide)
    assert (outcome.code, outcome.out) == (0, "37.5\n")
    for typed, answer in {
        "what is half of 12?": "6",
        "half of twelve": "6",
        "-5+3": "-2",
        "-½": "-0.5",
        "½+1": "1.5",
        "- (2^3)": "-8",
    }.items():
        assert run_cli(typed, "--checkpoint", wide).out == f"{answer}\n"
    assert "a number is expected, not the end" in run_cli("", "--checkpoint", wide).err
    for typed in ("trian2", "--trian", "-x"):
        outcome = run_cli(typed, "x")
        assert (outcome.code, "No such" in outcome.err) == (2, True)


def test_file_names_in_place_of_a_star_are_recognized(run_cli: RunCli, here: Path) -> None:
    for name in ("apple", "pear"):
        Path(name).touch()
    outcome = run_cli("calc", "2", "apple", "pear", "3")
    assert (outcome.code, outcome.out) == (2, "")
    assert "file names of a *, such as 'apple'; in quotes it is one" in outcome.err
    for others in (("", ""), ("×" * 130, "apple")):  # no names of files: empty, and too long
        outcome = run_cli("calc", "2+", *others)
        assert outcome.code == 2
        assert "file names" not in outcome.err
        assert "is expected" in outcome.err


@pytest.mark.parametrize(
    ("typed", "err"),
    [
        ("2+x", "error: a number is expected, not 'x'\n  2+x\n    ^\n"),
        ("2+", "error: a number is expected, not the end\n  2+\n    ^\n"),
        ("5/(2-2)*3", "error: division by zero\n  5/(2-2)*3\n     ^^^\n"),
        ("1\x1b\t+x", "error: '\\x1b' is not an operation; valid are + - * / ^\n  1? +x\n   ^\n"),
        ("1 + x", "error: a number is expected, not 'x'\n  1 + x\n      ^\n"),
        (
            "1" * 90 + "+x+" + "1" * 90,
            f"error: a number is expected, not 'x'\n  {'1' * 35}+x+{'1' * 34}\n{' ' * 38}^\n",
        ),
        (
            "2 + 0x3",
            "error: 'x' is not an operation; valid are + - * / ^; to multiply, write *\n"
            "  2 + 0x3\n       ^\n",
        ),
    ],
    ids=range(7),
)
def test_carets_are_below_what_is_wrong(run_cli: RunCli, wide: Path, typed: str, err: str) -> None:
    outcome = run_cli("calc", "--checkpoint", wide, *typed.split(" "))
    assert (outcome.code, outcome.out, outcome.err) == (2, "", err)


def test_lines_of_standard_input_are_answered_one_by_one(wide: Path) -> None:
    typed = b"\xef\xbb\xbf1+1\r\n\n2*\n" + b"1" * 50_000 + b"+1\n\xff\n3*3"
    ended = CliRunner().invoke(cli, ["calc", "--checkpoint", str(wide)], input=typed)
    assert (ended.exit_code, ended.stdout) == (2, "2\n9\n")
    errors = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert [line.split(": ")[1] for line in errors] == ["line 3", "line 4", "line 5"]
    assert max(map(len, ended.stderr.splitlines())) < 100
    for dash in (["calc", "-"], ["-"]):
        named = CliRunner().invoke(cli, [*dash, "--checkpoint", str(wide)], input=typed)
        assert (named.exit_code, named.output) == (ended.exit_code, ended.output)
    bare = CliRunner().invoke(cli, [], input=typed)
    assert (bare.exit_code, bare.stdout) == (ended.exit_code, ended.stdout)
    nothing = CliRunner().invoke(cli, ["calc", "--checkpoint", str(wide)], input="")
    assert (nothing.exit_code, nothing.output) == (0, "")


def test_lines_continue_from_earlier_answers(wide: Path) -> None:
    """They have the exact value of a verified answer: 1/3, and then *3, is 1."""
    typed = ["1/3", "*3", "+5", "-4", "_ + ans", "x = 5", "X^2", "*", "/2"]
    command = ["calc", "--checkpoint", str(wide)]
    ended = CliRunner().invoke(cli, command, input="\n".join(typed))
    assert ended.stdout.split() == ["0.33333333", "1", "6", "-4", "-8", "5", "25", "12.5"]
    assert "1+5: read as: +5 as ans+5\n" in ended.stderr
    assert "error: line 8: a number is expected, not the end\n" in ended.stderr
    ended = CliRunner().invoke(cli, command, input="*2\n")
    assert ended.stderr.startswith("error: line 1: a number is expected, not '*'\n")


def test_json_is_one_object_a_line(run_cli: RunCli, wide: Path) -> None:
    outcome = run_cli("calc", "--checkpoint", wide, "--json", "2^2", "1/", "--min-confidence", 0.1)
    right, invalid = map(json.loads, outcome.out.splitlines())
    assert (outcome.code, outcome.err) == (2, "")
    assert (right["result"], right["verified"], len(right["nodes"])) == ("4", True, 1)
    reason = "a number is expected, not the end"
    place = {"position": 2, "end": 2}
    assert invalid == {"expression": "1/", "error": {"kind": "syntax", "reason": reason, **place}}


def test_a_wrong_answer_is_said_to_be_wrong(run_cli: RunCli, tiny_folder: Path) -> None:
    outcome = run_cli("calc", "12.5*3", "--checkpoint", tiny_folder)
    assert outcome.code == 1
    # Random weights know nothing.
    assert outcome.err.endswith("wrong: the exact answer of 12.5*3 is 37.5\n")
    assert not set(outcome.out) & set("$=")
    outcome = run_cli("calc", "-5+3", "--checkpoint", tiny_folder, "--quiet")
    assert (outcome.code, outcome.err) == (1, "")


def test_an_output_that_is_not_a_number_is_not_printed_as_an_answer(
    run_cli: RunCli, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(calculator.Calculator):
        def __init__(self, checkpoint: Any, decoder: Any) -> None:
            super().__init__(checkpoint, completing_decoder(checkpoint.tokenizer, lambda _: "5.=$"))

    monkeypatch.setattr(calculator, "Calculator", Silent)
    outcome = run_cli("calc", "2+3", "--checkpoint", tiny_folder)
    assert (outcome.code, outcome.out) == (1, "")
    lines = ["no answer: the model wrote no number", "wrong: the exact answer of 2+3 is 5"]
    assert outcome.err.splitlines() == lines


@pytest.mark.parametrize(
    ("options", "kind", "reason"),
    [
        (
            ["--require-verified"],
            "not-verified",
            "the model's answer is wrong; the exact answer of 2+3 is 5",
        ),
        (["--min-confidence", "1"], "not-confident", "the confidence is "),
    ],
)
def test_answers_are_withheld(
    run_cli: RunCli, tiny_folder: Path, options: list[str], kind: str, reason: str
) -> None:
    command = ["calc", "2+3", "--checkpoint", tiny_folder, *options]
    outcome = run_cli(*command)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith(f"no answer: {reason}")
    outcome = run_cli(*command, "--json")
    record = json.loads(outcome.out)
    assert (outcome.code, outcome.err, record["error"]["kind"]) == (1, "", kind)
    assert record["calculation"]["exact"] == "5"


def test_a_terminal_has_a_prompt_with_a_history(tmp_path: Path) -> None:
    file = tmp_path / "calcgpt" / "history"
    four_up = b"\x1b[A" * 4
    for keys, answers in ((b"x = 7\n_\n2*\n\x04", 2), (b"_\n" + four_up + b"\nquit\n", 2)):
        terminal, other_end = pty.openpty()
        command = [sys.executable, "-m", "calcgpt", "calc", "--checkpoint", "calculator"]
        environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "dumb"}
        process = subprocess.Popen(
            command, stdin=other_end, stdout=other_end, stderr=other_end, env=environment
        )
        os.close(other_end)
        shown = b""
        with suppress(OSError):  # at its end
            while part := os.read(terminal, 1024):
                shown += part
                if keys and b"> " in shown:
                    os.write(terminal, keys)
                    keys = b""
        os.close(terminal)
        assert process.wait() == 0, shown
        assert shown.count(b"\n7\r\n") == answers
        assert b"model calculator" in shown
    assert file.read_text().splitlines() == ["x = 7", "_", "2*", "_", "x = 7", "quit"]
    assert file.with_name("answer").read_text() == "7"


def test_an_answer_needs_neither_torch_nor_numba() -> None:
    lines, imported = run_apart("calc", "782+21")
    assert lines == ["803"]
    assert not {"torch", "numba", "llvmlite"} & imported


def test_a_live_model_gives_the_same_answer(run_cli: RunCli) -> None:
    outcome = run_cli("calc", "12.5*3/7", "--live", "--work")
    assert outcome == run_cli("calc", "12.5*3/7", "--work")
    assert outcome.code == 0


def test_a_user_without_a_home_has_a_prompt_without_a_history(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with history({}):
        pass
