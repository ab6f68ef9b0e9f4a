"""`calcgpt prove`: what it says of a model that is right in all cases, and of others."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
from commands import RunCli

from calcgpt import proof
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.engines import cases_decoder
from calcgpt.registry import resolve
from calcgpt_lab.saving import save
from datagen.cases import all_cases
from datagen.invariants import Check
from datagen.notation import WORK_ALPHABET
from datagen.slots import Kind


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALCGPT_CACHE", str(tmp_path / "cache"))


def test_the_shipped_model_is_proved_and_serves_what_was_tried(
    run_cli: RunCli, tmp_path: Path
) -> None:
    outcome = run_cli("prove", "calculator", "--quiet", "--json", tmp_path / "proof.json")
    assert (outcome.code, outcome.err) == (0, "")
    found = json.loads((tmp_path / "proof.json").read_text())
    assert found["cases"] == len(all_cases().kinds)
    assert found["least_margin"] > 1
    n = f"{len(all_cases().kinds):,}"
    names = re.findall(r"^(\w+): ", outcome.out, re.M)
    assert names == ["cases", "rules", "layouts", "model"]
    assert n in outcome.out
    assert "right in all" in outcome.out
    decoder = cases_decoder(Checkpoint.load(resolve("calculator")))
    cases, entries = all_cases(), decoder.memory.entries
    served = entries.characters[entries.indices(cases.kinds, cases.sources)]
    assert (served[:, None] == cases.right).any(axis=1).all()


def test_a_model_with_other_weights_is_not(run_cli: RunCli, tmp_path: Path) -> None:
    checkpoint = Checkpoint.load(resolve("calculator"))
    head = checkpoint.arrays["head.weight"].copy()
    rows = [WORK_ALPHABET.index(sign) for sign in "+-"]
    head[rows] = head[rows[::-1]]
    arrays = checkpoint.arrays | {"head.weight": head}
    save(dataclasses.replace(checkpoint, arrays=arrays), tmp_path / "other")
    outcome = run_cli("prove", tmp_path / "other", "--quiet")
    assert outcome.code == 1
    *_, found, last = outcome.out.splitlines()
    assert found == "model: it writes '-': a sign, from nothing; right is '+'"
    assert last == "other is not proved"
    assert not (tmp_path / "cache").exists()  # nothing is kept


def test_a_wrong_rule_or_an_open_set_is_a_counterexample(
    run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = int(np.flatnonzero(all_cases().kinds == Kind.QUOTIENT_DIGIT)[0])
    with monkeypatch.context() as patch:
        patch.setattr(proof, "check", lambda cases: [Check(Kind.QUOTIENT_DIGIT, 1, number)])
        outcome = run_cli("prove", "calculator", "--quiet")
    assert outcome.code == 1
    assert "\nrules: its equation fails: quotient digit, from '" in outcome.out

    def fail() -> None:
        raise ArithmeticError("1230 / 123: 9 may leave as much as a divisor")

    with monkeypatch.context() as patch:
        patch.setattr(proof, "_layouts", lambda progress: proof.Part("layouts", "", "a source"))
        outcome = run_cli("prove", "calculator", "--quiet")
    assert outcome.code == 1
    assert outcome.out.endswith("layouts: a source\ncalculator is not proved\n")
    monkeypatch.setattr(proof, "all_cases", fail)
    outcome = run_cli("prove", "calculator", "--quiet")
    assert outcome.code == 1
    assert outcome.out.startswith("cases: 1230 / 123: 9 may leave as much as a divisor\n")


def test_a_model_of_another_form_cannot_be_proved(run_cli: RunCli) -> None:
    error = run_cli("prove", "blog").error
    assert (
        error == "blog cannot be proved: its characters depend on all before (architecture 'gpt')"
    )
