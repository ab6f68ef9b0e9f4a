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
from calcgpt.inference.drafts import Reading
from calcgpt.inference.generate import Floats, Ints
from calcgpt.lab import case_lines, certify
from calcgpt.lab.certify_plots import maps
from datagen.line_cases import line_cases, quotient_choices
from datagen.local_steps import (
    LOCAL_STEPS,
    N_CASES,
    OFFSETS,
    SAMPLED,
)
from datagen.notation import parse_prompt
from datagen.work import render

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
    monkeypatch.setattr(case_lines, "BLOCK", 40)


@pytest.fixture
def lines() -> list[bytes]:
    chosen, drawn = case_lines.choose_lines(2, 40, 200, seed=3)
    assert 0 < len(chosen) <= drawn == 40
    return [
        *chosen,
        b"$(0000000025+0000000007)=+520+700+230:230+=2300000000$",
        b"$(0000000035+0000000017)=+530+710+250:250+=2500000000$",
    ]


def test_a_context_too_short_for_any_problem_is_refused() -> None:
    with pytest.raises(DataError, match="no problem fits in the model's context, 20 characters"):
        case_lines.choose_lines(2, 40, 21, seed=3)


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
    counter = case_lines.CaseCounter(1)
    lines = case_lines.draw_cases(0, 0)[:50]
    assert counter.select(lines)
    assert counter.select(lines) == []


def test_variants_have_the_shape_of_their_original() -> None:
    lines = case_lines.draw_lines(1, 0)
    prompts = [line[: line.index(b"=")] for line in lines[: case_lines.VARIANTS]]
    assert len(set(prompts)) > 1
    assert len({len(line.rpartition(b"=")[0]) for line in lines[: case_lines.VARIANTS]}) == 1


@pytest.mark.parametrize("block", range(len(case_lines.SOURCES)))
def test_the_lines_of_every_source_are_in_the_notation(block: int) -> None:
    lines = [line.decode() for line in case_lines.draw_lines(1, block)]
    for line in lines:
        parse_prompt(line[: line.index("=") + 1])
    assert len(set(lines)) > case_lines.BLOCK // 4


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


def test_certified_cases_were_right_in_enough_contexts() -> None:
    tried, right = np.zeros(N_CASES, np.int64), np.zeros(N_CASES, np.int64)
    names = ("digit of a sum", *SAMPLED)
    for name in names:
        tried[OFFSETS[name] :][:3], right[OFFSETS[name] :][:3] = (2, 2, 1), (2, 1, 1)
    certificate = certify.Certificate("mine", 0, 2, 9, 9, tried, right, np.ones(N_CASES), [])
    found = {
        rule["rule"]: (rule["tried"], rule["certified"], rule["wrong"])
        for rule in certificate.summaries()
    }
    assert found[names[0]] == (3, 1, 1)
    assert {found[name] for name in SAMPLED} == {(3, 2, 1)}  # one context is enough


def test_a_line_is_read_if_any_of_its_cases_needs_more_contexts() -> None:
    counter = case_lines.CaseCounter(1)
    cases = {b"one": [1, 2], b"two": [2, 3], b"three": [1, 3]}
    drawn = [case_lines.LineCases(line, np.array(numbers)) for line, numbers in cases.items()]
    assert counter.select(drawn) == [b"one", b"two"]


def test_whole_rounds_of_sources_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(case_lines.CaseCounter, "missing", lambda self: 0)
    assert (
        case_lines.choose_lines(1, 10_000, 200, seed=3)[1]
        == len(case_lines.SOURCES) * case_lines.BLOCK
    )


def test_every_other_round_has_second_nearest_quotient_digits() -> None:
    index = case_lines.SOURCES.index("$(1111111111.11/111111111111)=")
    for round_ in range(2):
        lines = case_lines.draw_lines(1, round_ * len(case_lines.SOURCES) + index)
        nearest = render([line[: line.index(b"=") + 1] for line in lines])
        assert (lines == nearest) == (round_ == 0)


def test_the_longest_line_that_fits_is_read() -> None:
    longest = max(map(len, case_lines.choose_lines(1, 40, 200, seed=3)[0]))
    assert max(map(len, case_lines.choose_lines(1, 40, longest, seed=3)[0])) == longest


def test_all_right_digits_of_a_quotient_count() -> None:
    [line] = render([b"$8(0000000001/0000000003)="])
    n, digits = len(line) - line.index(b"=") - 1, np.arange(10) + 1
    position, valid = next((p, v) for p, v in quotient_choices(line) if v.sum() > 1)
    logits, targets = np.zeros((n, 12), np.float32), np.zeros(n, np.int64)
    logits[position, digits[valid]], targets[position] = 20, digits[valid][-1]
    reading = Reading(np.array([0]), [n], targets, logits)
    right, probability = certify.check_reading(reading, [line], digits)
    assert right[position]
    assert probability[position] == pytest.approx(1, abs=1e-4)
