"""docs/course/calcgpt_in_one_file.py is the package in small: equal lines and losses."""

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calcgpt import ModelConfig
from calcgpt.tokenizer import CharTokenizer
from calcgpt_lab import build_model
from calcgpt_lab.data.batches import ProblemLines
from calcgpt_lab.model.base import summed_loss
from calcgpt_lab.model.decoding import generate
from datagen.arithmetic import Number, Problem
from datagen.notation import ALPHABET, render
from datagen.operations import ADDITION

FILE = Path(__file__).parents[2] / "docs" / "course" / "calcgpt_in_one_file.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location(FILE.stem, FILE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[FILE.stem] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


one = load()
whole = st.integers(0, 999_999_999)


def drawn(count: int) -> list[str]:
    lines: list[str] = one.draw_lines(random.Random(5), count, digits=5)
    return lines


@given(whole, whole)
def test_a_line_is_the_notation(a: int, b: int) -> None:
    assert one.line(a, b) == render(Problem(Number(a), ADDITION, Number(b)))


def test_batches_are_those_of_the_package() -> None:
    assert one.VOCABULARY == ALPHABET
    lines = [*drawn(4), "$(1+2)=3$"]  # of two lengths
    tokens, targets = one.batch(lines, one.Tokenizer())
    problems = ProblemLines("\n".join(lines), CharTokenizer(ALPHABET))
    their_tokens, their_targets = problems.batch(torch.arange(5).numpy())
    assert torch.equal(targets, their_targets)
    width = len(lines[-1]) - 1
    assert torch.equal(tokens[:4], their_tokens[:4])
    assert torch.equal(tokens[4, :width], their_tokens[4, :width])


@pytest.mark.parametrize(
    "variant",
    [
        {},
        {"position": "rope"},
        {"n_kv_head": 2},
        {"n_kv_head": 1, "position": "rope"},
        {"feedforward": "swiglu"},
        {"n_kv_head": 2, "position": "rope", "feedforward": "swiglu"},
    ],
    ids=lambda variant: "-".join(map(str, variant.values())) or "baseline",
)
def test_the_same_weights_give_the_same_loss_and_answers(variant: dict[str, Any]) -> None:
    sizes = {"block_size": 40, "n_layer": 2, "n_embd": 32, "n_head": 4}
    torch.manual_seed(3)
    model = one.GPT(one.Config(**{**sizes, "n_kv_head": 4, **variant}), len(ALPHABET))
    theirs = build_model(ModelConfig(**{**sizes, **variant}), len(ALPHABET))
    theirs.load_state_dict(model.state_dict())  # every name and shape is the package's
    tokens, targets = one.batch(drawn(8), one.Tokenizer())
    their_loss = summed_loss(theirs)(tokens, targets) / (targets != -100).sum()
    torch.testing.assert_close(model.loss(tokens, targets), their_loss)
    prompts = tokens[:, :25]
    written = one.sample(model, prompts, 8)[:, 25:]
    completions = generate(theirs, prompts.numpy(), stop_token=-1, max_new_tokens=8)
    assert written.tolist() == [list(completion.ids) for completion in completions]


def test_it_learns_and_scores(capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(1)
    tokenizer, rng = one.Tokenizer(), random.Random(1)
    test = one.draw_lines(rng, 40, digits=1)
    model = one.GPT(one.Config(n_layer=1, n_embd=32), len(ALPHABET))
    losses = one.train(
        model, lambda: one.batch(one.draw_lines(rng, 16, 1, set(test)), tokenizer), 80, lr=5e-3
    )
    assert losses[0] > 2.5  # ln 21 = 3.04
    assert losses[-1] < 0.8
    share = one.exact_match(model, tokenizer, test)
    questions = [text[:25] for text in test]
    written = one.answers(model, tokenizer, questions, 11)
    right = [f"{q}{w}$" == text for q, w, text in zip(questions, written, test, strict=True)]
    assert share == sum(right) / 40


def test_it_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    threads = torch.get_num_threads()
    monkeypatch.setattr(sys, "argv", [FILE.name, "--steps", "2", "--test", "5", "--digits", "2"])
    try:
        one.main()
    finally:
        torch.set_num_threads(threads)
    out = capsys.readouterr().out
    assert out.startswith("229,845 parameters\n")
    assert "exact match on 5 problems" in out


def test_it_fits_and_needs_torch_alone() -> None:
    lines = FILE.read_text("utf-8").splitlines()
    assert len(lines) <= 300
    imported = {
        line.split()[1].split(".")[0] for line in lines if line.startswith(("from ", "import "))
    }
    assert imported - sys.stdlib_module_names == {"torch"}
