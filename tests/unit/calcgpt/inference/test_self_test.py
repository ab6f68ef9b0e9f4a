"""A model that computes worse than its metrics say is not served."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fake_decoder import FakeDecoder, completing_decoder, right_with_work, worked_checkpoint

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


CERTAIN = {"cases": {"wrong": 0}}


@pytest.mark.parametrize(
    ("signs", "metrics"),
    [("", CERTAIN), ("+-*/", {}), ("+-*/", {"cases": {"wrong": 1}})],
)
def test_a_model_that_is_as_good_as_its_metrics_passes(signs: str, metrics: dict[str, Any]) -> None:
    check(wrong_for(signs), metrics, worked_checkpoint())


def test_a_model_is_asked_what_its_recipe_teaches() -> None:
    checkpoint = worked_checkpoint()
    assert checkpoint.recipe.data
    operations = {"+": 1.0, "-": 0.0, "*": 0.0, "/": 1.0}
    data = checkpoint.recipe.data.model_copy(update={"operations": operations})
    recipe = checkpoint.recipe.model_copy(update={"data": data})
    check(wrong_for("-*"), CERTAIN, replace(checkpoint, recipe=recipe))


def test_what_does_not_fit_into_a_small_context_is_not_asked() -> None:
    checkpoint = worked_checkpoint()
    checkpoint.metrics.update(CERTAIN)
    decoder = completing_decoder(checkpoint.tokenizer, wrong_for("/"), block_size=64)
    self_test(Calculator(checkpoint, decoder))


@pytest.mark.parametrize("sign", SELF_TEST)
def test_a_model_that_was_never_wrong_and_is_now_is_refused(sign: str) -> None:
    with pytest.raises(CheckpointError, match="and by its metrics it was right in every case"):
        check(wrong_for(sign), CERTAIN, worked_checkpoint())


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("logit", [math.nan, math.inf])
def test_probabilities_that_are_not_finite_are_refused(logit: float) -> None:
    checkpoint = worked_checkpoint()
    decoder = FakeDecoder(checkpoint.tokenizer, lambda ids: 0, logit=logit)
    with pytest.raises(CheckpointError, match="logits are not finite"):
        self_test(Calculator(checkpoint, decoder))
