"""The certificate of a model, from decoders that are right except for the errors of a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from calcgpt.checkpoint import Checkpoint
from calcgpt.cli import cli
from calcgpt.config import ModelConfig
from calcgpt.errors import DataError
from calcgpt.inference.generate import Floats, Ints
from calcgpt.lab import certify
from calcgpt.lab.certify_plots import maps
from datagen.local_steps import LOCAL_STEPS, OFFSETS, line_cases
from datagen.notation import parse_prompt

SHIPPED = Path(__file__).parents[4] / "checkpoints" / "scratchpad-small"
PLUS_5_AND_7 = {"writes": "sum lowest", "operation": "+", "A": "5", "B": "7"} | dict.fromkeys(
    ("A before", "B before", "sum before"), "none"
)


class Reader:
    """A decoder that writes the right lines, except in one case of the rules."""

    def __init__(self, checkpoint: Checkpoint, wrong_case: int) -> None:
        self.config: ModelConfig = checkpoint.recipe.model
        self.tokenizer = checkpoint.tokenizer
        self.wrong_case = wrong_case

    def new_array_cache(self, batch: int, n_token: int) -> None:
        return None

    def __call__(self, tokens_BT: Ints, cache: Any, last_only: bool) -> Floats:
        logits = np.zeros((*tokens_BT.shape, len(self.tokenizer)), np.float32)
        for row, tokens in enumerate(tokens_BT):
            line = self.tokenizer.decode(tokens).partition("=")
            text = f"{line[0]}={line[2].split('$')[0]}$".encode()
            [cases] = line_cases([text])
            start = len(text) - len(cases)
            following = self.tokenizer.encode(text.decode())
            for position in range(len(text) - 1):
                is_wrong = position + 1 >= start and cases[position + 1 - start] == self.wrong_case
                written = (following[position + 1] + is_wrong) % len(self.tokenizer)
                logits[row, position, written] = 9
        return logits


def case_of(name: str, values: dict[str, str]) -> int:
    [step] = [step for step in LOCAL_STEPS if step.name == name]
    return OFFSETS[name] + next(
        case for case in range(step.size) if step.describe(case).items() >= values.items()
    )


@pytest.fixture(autouse=True)
def few_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certify, "BLOCK", 40)


@pytest.fixture
def lines() -> list[bytes]:
    chosen, drawn = certify.choose_lines(2, 40, 200, seed=3)
    assert 0 < len(chosen) <= drawn == 40
    return [
        *chosen,
        b"$(0000000025+0000000007)=+520+700+230:230+=2300000000$",
        b"$(0000000035+0000000017)=+530+710+250:250+=2500000000$",
    ]


def test_a_context_too_short_for_any_problem_is_refused() -> None:
    with pytest.raises(DataError, match="no problem fits in the model's context, 20 characters"):
        certify.choose_lines(2, 40, 21, seed=3)


def test_one_wrong_case_is_found(lines: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = Checkpoint.load(SHIPPED)
    wrong_case = case_of("digit of a sum", PLUS_5_AND_7)
    reader = Reader(checkpoint, wrong_case)
    monkeypatch.setattr(certify, "load_for_scoring", lambda *args: (checkpoint, reader))
    seen: list[int] = []
    certificate = certify.certify(
        checkpoint, SHIPPED, lines, drawn=40, seed=3, contexts=2, progress=seen.append
    )
    assert sum(seen) == len(lines)
    assert np.flatnonzero(certificate.right < certificate.tried).tolist() == [wrong_case]
    assert certificate.tried.sum() == sum(len(line) - line.index(b"=") - 1 for line in lines)

    record = json.loads(json.dumps(certificate.record()))
    rules = {rule["rule"]: rule for rule in record["rules"]}
    sums = rules.pop("digit of a sum")
    assert (sums["wrong"], sums["wrong_places"]) == (1, certificate.tried[wrong_case])
    tried = [rule["lowest"] for rule in rules.values() if rule["tried"]]
    assert sums["lowest"] < 0.01 < 0.8 < min(tried)
    assert {rule["lowest"] for rule in rules.values() if not rule["tried"]} == {None}
    assert len(tried) < len(rules)
    wrong = sums["wrong_at"][-1]
    assert (wrong["line"], wrong["position"]) == (lines[-1].decode(), lines[-1].index(b"+250") + 1)
    assert wrong["written"] != "2"
    assert wrong["case"].items() >= PLUS_5_AND_7.items()
    assert not any(rule["wrong_at"] for rule in rules.values())

    added = maps(certificate)[0]
    assert (added.rows[5], added.columns[7]) == ("5", "7")
    assert np.argwhere(added.wrong).tolist() == [[5, 7]]


def test_lines_without_a_wanted_case_are_not_read() -> None:
    counter = certify.CaseCounter(1)
    lines = certify.draw_cases(0, 0)[:50]
    assert counter.select(lines)
    assert counter.select(lines) == []


def test_variants_have_the_shape_of_their_original() -> None:
    lines = certify.draw_lines(1, 0)
    prompts = [line[: line.index(b"=")] for line in lines[: certify.VARIANTS]]
    assert len(set(prompts)) > 1
    assert len({len(line.rpartition(b"=")[0]) for line in lines[: certify.VARIANTS]}) == 1


@pytest.mark.parametrize("block", range(len(certify.SOURCES)))
def test_the_lines_of_every_source_are_in_the_notation(block: int) -> None:
    lines = [line.decode() for line in certify.draw_lines(1, block)]
    for line in lines:
        parse_prompt(line[: line.index("=") + 1])
    assert len(set(lines)) > certify.BLOCK // 4


def test_the_shipped_model(tmp_path: Path) -> None:
    options = ["--n", "12", "--engine", "torch", "--out", str(tmp_path / "plots")]
    numbers = tmp_path / "numbers.json"
    result = CliRunner().invoke(
        cli, ["certify", str(SHIPPED), *options, "--json", str(numbers), "--quiet"]
    )
    assert result.exit_code == 0, result.output
    assert (tmp_path / "plots" / "scratchpad-small-certified.png").is_file()
    record = json.loads(numbers.read_text())
    assert sum(rule["places"] for rule in record["rules"]) > 100
    assert record["drawn"] == 12


def test_a_model_without_such_steps_is_refused(tiny_folder: Path) -> None:
    result = CliRunner().invoke(cli, ["certify", str(tiny_folder)])
    assert result.exit_code == 2
    assert "does not write worked steps" in result.output
