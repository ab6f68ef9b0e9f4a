"""How sure a model is of what it wrote, and whether it is right to be.

Three numbers are taken from the probabilities of the characters that the model chose:
- `answer`: the product over the answer field (after the last `=`, the closing `$` included);
- `weakest_step`: the smallest over the work before it (1 where there is none);
- `whole`: the product over everything that was written.

Quotient digits are left out of the last two: there the notation leaves a choice, and how a model
divides its probability among digits that will do says nothing about its answer. All else must
follow from what stands before, so `whole` is the probability that the model holds it does.
What no `$` closes is no answer: there all three are 0.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from datagen.steps import quotient_digits

N_BINS = 10
EDGES = [index / N_BINS for index in range(N_BINS + 1)]


class Confidence(BaseModel):
    """The probabilities that the model gave to what it wrote, from 0 to 1."""

    model_config = ConfigDict(frozen=True)

    answer: float = Field(
        description="probability of the answer, given the work", examples=[0.9999971]
    )
    weakest_step: float = Field(
        description="probability of the least probable character of the work, the digits of a "
        "quotient left out; 1 if there is no work",
        examples=[0.9999929],
    )
    whole: float = Field(
        description="probability of the work and the answer together, the digits of a quotient "
        "left out",
        examples=[0.9999812],
    )


NOT_CONFIDENT = Confidence(answer=0.0, weakest_step=0.0, whole=0.0)


def confidence(output: str, probabilities: Sequence[float]) -> Confidence:
    """The confidence in an output, given the probability of each of its characters."""
    if not output.endswith("$"):
        return NOT_CONFIDENT
    start = output.rfind("=") + 1
    chosen = quotient_digits(output[:start])
    steps = [p for place, p in enumerate(probabilities[:start]) if place not in chosen]
    answer = math.prod(probabilities[start:])
    return Confidence(
        answer=answer, weakest_step=min(steps, default=1.0), whole=math.prod(steps) * answer
    )


def reliability(confidences: Sequence[float], right: Sequence[bool]) -> dict[str, Any]:
    """Confidence against accuracy (Guo et al. 2017), for at least one answer.

    `bins`: N_BINS of equal width, each with `low` (inclusive) and `high` (exclusive, but for the
    last), `n`, and the mean `confidence` and the `accuracy` in it, None where it is empty.
    `expected_calibration_error`: the mean distance of the two, weighted by `n`.
    """
    rows: list[list[tuple[float, bool]]] = [[] for _ in range(N_BINS)]
    for value, ok in zip(confidences, right, strict=True):
        rows[bisect_right(EDGES, value, 1, N_BINS) - 1].append((value, ok))
    bins, distance = [], 0.0
    for (low, high), group in zip(pairwise(EDGES), rows, strict=True):
        n, sure, correct = len(group), sum(v for v, _ in group), sum(ok for _, ok in group)
        mean, accuracy = (sure / n, correct / n) if n else (None, None)
        distance += abs(sure - correct)  # n times that of the means
        bins.append({"low": low, "high": high, "n": n, "confidence": mean, "accuracy": accuracy})
    return {"bins": bins, "expected_calibration_error": distance / len(confidences)}


@dataclass(frozen=True)
class Threshold:
    """Above `confidence`, every answer of the sample was right; that was `kept` of it."""

    confidence: float
    kept: float


def threshold_without_error(confidences: Sequence[float], right: Sequence[bool]) -> Threshold:
    """The highest confidence of a wrong answer, and the share of problems strictly above it.

    Where nothing is wrong, that is 0, and everything is kept. What holds for these n problems need
    not hold for others like them: of those, a share of up to 3/n may be both wrong and above the
    threshold, at 95% (the rule of three). For were the share p larger, none of the n would be
    among the p most confidently wrong, which has probability (1 - p)^n < 5%.
    """
    highest = max((c for c, ok in zip(confidences, right, strict=True) if not ok), default=0.0)
    everything = all(right)
    kept = sum(everything or c > highest for c in confidences)
    return Threshold(highest, kept / len(confidences))


def confidence_record(
    outputs: Sequence[str], probabilities: Sequence[Sequence[float]], right: Sequence[bool]
) -> dict[str, Any]:
    """What `calcgpt eval` reports: `reliability` of `whole`, and in `no_error_above` the threshold
    of each number."""
    each = [confidence(o, p) for o, p in zip(outputs, probabilities, strict=True)]
    columns = {name: [getattr(row, name) for row in each] for name in Confidence.model_fields}
    return {
        "reliability": reliability(columns["whole"], right),
        "no_error_above": {
            name: asdict(threshold_without_error(values, right)) for name, values in columns.items()
        },
    }
