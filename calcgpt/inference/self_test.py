"""What a model must do before others are given its answers.

It answers a few problems. So weights that are whole but wrong, and an engine that computes wrongly
on this processor, are noticed before anybody gets an answer.
"""

from __future__ import annotations

from itertools import groupby
from math import comb

import numpy as np

from calcgpt.checkpoint import AnyCheckpoint
from calcgpt.errors import CheckpointError, ExpressionError
from calcgpt.inference.calculator import Calculator, Computation
from calcgpt.inference.generate import Decoder, generate
from datagen.arithmetic import USUAL_PLACES

PROBLEMS = ("12.5+3", "2-136.25", "88*7", "7/8")
CHANCE = 1e-6  # that a model which is as good as its scores is refused


def self_test(checkpoint: AnyCheckpoint, decoder: Decoder, calculator: Calculator | None) -> None:
    """Raises CheckpointError if a decoder's probabilities are not finite, or if the model answers
    PROBLEMS worse than its scores can explain.

    `calculator` is None for a model of plain text, which only writes a token. How many answers must
    be right is known of a model that learned from the distributions of its recipe: a model that
    learned from files may never have seen such problems.
    """
    if calculator is None:
        (completion,) = generate(
            decoder, np.zeros((1, 1), np.int64), stop_token=-1, max_new_tokens=1
        )
        _check_finite(checkpoint, completion.probabilities)
        return
    computations = _computations(calculator)
    n_right = sum(_is_right(calculator, computations))
    expected = _exact_match(checkpoint)
    if expected is not None and _at_most(n_right, len(computations), expected) < CHANCE:
        raise CheckpointError(
            f"{checkpoint.name}: {n_right} of {len(computations)} answers of the self-test are "
            f"right; its exact match is {expected:.4f} by its metrics"
        )


def _computations(calculator: Calculator) -> list[Computation]:
    """Returns those of PROBLEMS that are within the limits of the model."""
    computations = []
    for problem in PROBLEMS:
        try:
            computations.append(calculator.begin(problem, USUAL_PLACES))  # short work
        except ExpressionError:  # a small model may take only short numbers
            continue
    return computations


def _is_right(calculator: Calculator, computations: list[Computation]) -> list[bool]:
    """Returns whether each is answered right. Prompts of one length are one batch."""
    tokenizer, checkpoint = calculator.checkpoint.tokenizer, calculator.checkpoint
    asked = [(c, question) for c in computations for question in c.questions()]
    right = []
    for _, group in groupby(asked, key=lambda pair: len(pair[1].prompt)):
        batch = list(group)
        prompts = np.array([tokenizer.encode(q.prompt).tolist() for _, q in batch])
        completions = generate(calculator.decoder, prompts, calculator.stop)
        for (computation, question), completion in zip(batch, completions, strict=True):
            _check_finite(checkpoint, completion.probabilities)
            text = tokenizer.decode(completion.ids)
            right.append(computation.answer(question.node, text, completion.probabilities).agrees)
    return right


def _check_finite(checkpoint: AnyCheckpoint, probabilities: list[float]) -> None:
    if not np.isfinite(probabilities).all():
        raise CheckpointError(f"{checkpoint.name}: its probabilities are not finite")


def _exact_match(checkpoint: AnyCheckpoint) -> float | None:
    """Returns the exact match to expect, or None if nothing can be expected.

    It is Laplace's estimate (right + 1) / (n + 2), so that a perfect score of few problems does not
    promise that a model is never wrong.
    """
    scores = checkpoint.metrics.get("test", checkpoint.metrics.get("validation"))
    if checkpoint.recipe.data is None or not isinstance(scores, dict):
        return None
    n, exact_match = scores.get("n", 0), scores.get("exact_match", 0.0)
    return float((n * exact_match + 1) / (n + 2))


def _at_most(n_right: int, n: int, p: float) -> float:
    """Returns the probability of at most `n_right` right answers of `n`, each right with `p`."""
    return sum(comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n_right + 1))
