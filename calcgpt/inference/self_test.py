"""The self-test of a calculator: a few problems, before a model answers users.

It detects weights that are intact but wrong, and an engine that computes wrongly on this processor.
"""

from math import comb

import numpy as np

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import CheckpointError, ExpressionError
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.decoding import Decoder
from datagen.arithmetic import USUAL_PLACES

PROMPT = "$(0000000001+0000000001)="
SELF_TEST = {"+": "12.5+3", "-": "2-136.25", "*": "88*7", "/": "7/8"}
MAX_FALSE_ALARM = 1e-6  # the probability that a model which is as good as its scores is refused


def self_test(calculator: Calculator) -> None:
    """Raises CheckpointError if the model's logits are not finite, or if the model answers
    SELF_TEST worse than its scores can explain.

    Right answers are required only of a model that learned from the distributions of its recipe: a
    model that learned from files may never have seen such problems.
    """
    checkpoint = calculator.checkpoint
    check_finite(checkpoint, calculator.decoder)
    right = _answers(calculator)
    expected = _exact_match(checkpoint)
    if expected is not None and at_most(sum(right), len(right), expected) < MAX_FALSE_ALARM:
        raise CheckpointError(
            f"{checkpoint.name}: {sum(right)} of {len(right)} answers of the self-test are "
            f"right; its exact match is {expected:.4f} by its metrics"
        )


def at_most(n_right: int, n: int, share: float) -> float:
    """Returns the probability of at most `n_right` right answers of n, if this share is right."""
    ways = (comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(n_right + 1))
    return sum(ways)


def check_finite(checkpoint: Checkpoint, decoder: Decoder) -> None:
    """Raises CheckpointError if the model's probabilities are not finite."""
    is_notation = checkpoint.tokenizer.is_notation()
    writing = decoder.begin(PROMPT if is_notation else checkpoint.tokenizer.decode([0]))
    writing.write(1)
    if not np.isfinite(writing.written().probabilities).all():
        raise CheckpointError(f"{checkpoint.name}: its logits are not finite")


def _answers(calculator: Calculator) -> list[bool]:
    """Returns whether the answer is right to each problem of SELF_TEST that is within the limits of
    the model, and whose operation its recipe teaches."""
    data = calculator.checkpoint.recipe.data
    weights = data.operations if data else dict.fromkeys(SELF_TEST, 1)
    right = []
    for problem in (SELF_TEST[op] for op in SELF_TEST if weights[op]):
        try:
            calculation = calculator.calculate(problem, USUAL_PLACES)  # short work
        except ExpressionError:  # a small model may take only short numbers
            continue
        right.append(calculation.verified)
    return right


def _exact_match(checkpoint: Checkpoint) -> float | None:
    """Returns the exact match to expect, or None if nothing can be expected.

    It is Laplace's estimate (right + 1) / (n + 2), so that a perfect score of few problems does not
    promise that a model is never wrong.
    """
    scores = checkpoint.metrics.get("test", checkpoint.metrics.get("validation"))
    if checkpoint.recipe.data is None or not isinstance(scores, dict):
        return None
    n, exact_match = scores.get("n", 0), scores.get("exact_match", 0.0)
    return float((n * exact_match + 1) / (n + 2))
