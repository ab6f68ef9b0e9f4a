"""Calibration: how well a model's confidence predicts how often it is right."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from calcgpt.inference.results import Confidence

N_BINS = 10
EDGES = [index / N_BINS for index in range(N_BINS + 1)]


def reliability(confidences: Sequence[float], right: Sequence[bool]) -> dict[str, Any]:
    """Returns confidence against accuracy (Guo et al. 2017) of one answer or more.

    `bins` are N_BINS of equal width. Each has its bounds `low` (inclusive) and `high` (exclusive
    except in the last bin), the number of answers `n`, their mean `confidence` and their
    `accuracy`; the last two are None in an empty bin. `expected_calibration_error` is the mean
    distance between confidence and accuracy, weighted by `n`.
    """
    rows: list[list[tuple[float, bool]]] = [[] for _ in range(N_BINS)]
    for value, is_right in zip(confidences, right, strict=True):
        rows[bisect_right(EDGES, value, 1, N_BINS) - 1].append((value, is_right))
    bins, distance = [], 0.0
    for (low, high), group in zip(pairwise(EDGES), rows, strict=True):
        n, total = len(group), sum(value for value, _ in group)
        n_right = sum(is_right for _, is_right in group)
        mean, accuracy = (total / n, n_right / n) if n else (None, None)
        distance += abs(total - n_right)  # n times the distance of the means
        bins.append({"low": low, "high": high, "n": n, "confidence": mean, "accuracy": accuracy})
    return {"bins": bins, "expected_calibration_error": distance / len(confidences)}


def threshold_without_error(
    confidences: Sequence[float], right: Sequence[bool]
) -> dict[str, float]:
    """Returns the highest `confidence` of a wrong answer, and `kept`, the share of the problems
    strictly above it.

    If no answer is wrong, the threshold is 0 and all problems are kept. With 95% confidence, at
    most a share of 3/n of other problems like these n has a wrong answer above the threshold (the
    rule of three). Proof: let c be the confidence above which a share p = 3/n of all problems has a
    wrong answer. The threshold is below c only if none of the n problems is one of these. The
    probability of that is (1 - p)^n < 5%.
    """
    rows = list(zip(confidences, right, strict=True))
    highest = max((value for value, is_right in rows if not is_right), default=0.0)
    n_kept = len(rows) if all(right) else sum(value > highest for value in confidences)
    return {"confidence": highest, "kept": n_kept / len(rows)}


def confidence_record(values: Sequence[Confidence], right: Sequence[bool]) -> dict[str, Any]:
    """Returns the `confidence` of a record: the `reliability` of the confidence `whole`, and in
    `no_error_above` the threshold for each kind of confidence."""
    columns = {name: [getattr(row, name) for row in values] for name in Confidence.model_fields}
    return {
        "reliability": reliability(columns["whole"], right),
        "no_error_above": {
            name: threshold_without_error(column, right) for name, column in columns.items()
        },
    }
