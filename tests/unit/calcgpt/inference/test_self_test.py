"""A model that computes worse than its scores say is not served."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fake_decoder import (
    FakeDecoder,
    completing_decoder,
    notation_checkpoint,
    right_with_work,
    worked_checkpoint,
)

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import CheckpointError
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.self_test import SELF_TEST, self_test


def check(answers: Callable[[str], str], metrics: dict[str, Any], checkpoint: Checkpoint) -> None:
    checkpoint.metrics.update(metrics)
    decoder = completing_decoder(checkpoint.tokenizer, answers)
    self_test(Calculator(checkpoint, decoder))


def wrong_for(signs: str) -> Callable[[str], str]:
    """The completions of a model that is wrong for these operations."""

    def completion(prompt: str) -> str:
        is_wrong = any(sign in prompt for sign in signs)
        return "=2400000000$" if is_wrong else right_with_work(prompt)

    return completion


def scores(exact_match: float, n: int = 10_000) -> dict[str, Any]:
    return {"test": {"n": n, "exact_match": exact_match}}


@pytest.mark.parametrize(
    ("signs", "metrics"),
    [
        ("", scores(1.0)),
        ("/", scores(0.9999)),  # one of four may happen
        ("+-*/", scores(0.0023)),
        ("+-*/", scores(1.0, n=4)),  # four problems say little
        ("+-*/", {}),
    ],
)
def test_a_model_that_is_as_good_as_its_scores_passes(signs: str, metrics: dict[str, Any]) -> None:
    check(wrong_for(signs), metrics, worked_checkpoint())


def test_a_model_is_asked_what_its_recipe_teaches() -> None:
    checkpoint = worked_checkpoint()
    assert checkpoint.recipe.data
    operations = {"+": 1.0, "-": 0.0, "*": 0.0, "/": 1.0}
    data = checkpoint.recipe.data.model_copy(update={"operations": operations})
    recipe = checkpoint.recipe.model_copy(update={"data": data})
    adder = replace(checkpoint, recipe=recipe, metrics=scores(1.0))
    decoder = completing_decoder(adder.tokenizer, wrong_for("-*"))
    self_test(Calculator(adder, decoder))
    decoder = completing_decoder(adder.tokenizer, wrong_for("+/"))
    with pytest.raises(CheckpointError, match="0 of 2 answers of the self-test"):
        self_test(Calculator(adder, decoder))


@pytest.mark.parametrize(("signs", "n_right"), [("*/", 2), ("+-*/", 0)])
@pytest.mark.parametrize("key", ["test", "validation"])
def test_a_model_that_is_much_worse_is_refused(signs: str, n_right: int, key: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        check(wrong_for(signs), {key: scores(0.9999)["test"]}, worked_checkpoint())
    message = str(caught.value)
    assert f"{n_right} of {len(SELF_TEST)} answers of the self-test are right" in message
    assert "0.9998 by its metrics" in message


def test_a_model_that_learned_from_files_may_know_other_problems() -> None:
    check(lambda prompt: "2400000000$", scores(1.0), notation_checkpoint())


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("logit", [math.nan, math.inf])
def test_probabilities_that_are_not_finite_are_refused(logit: float) -> None:
    checkpoint = worked_checkpoint()
    decoder = FakeDecoder(checkpoint.tokenizer, lambda ids: 0, logit=logit)
    with pytest.raises(CheckpointError, match="logits are not finite"):
        self_test(Calculator(checkpoint, decoder))
