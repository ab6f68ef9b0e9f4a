"""Trials by what they reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calcgpt.sweep.folder import Status, Trial
from calcgpt.sweep.hyperparameters import Value
from calcgpt.sweep.space import Space


@dataclass(frozen=True)
class Ranked:
    """A trial by its result: its best validation."""

    trial: str
    values: dict[str, Value]
    status: Status
    reason: str
    steps: int  # up to its last validation
    best: float | None  # of the metric; None where there was no validation
    best_step: int | None


def ranked(trials: Sequence[Trial], space: Space) -> list[Ranked]:
    """Best first, and last those without a result."""
    sign = 1 if space.search.mode == "min" else -1

    def key(each: Ranked) -> tuple[bool, float]:
        return (each.best is None, sign * (each.best or 0.0))

    return sorted((_ranked(trial, space) for trial in trials), key=key)


def _ranked(trial: Trial, space: Space) -> Ranked:
    metric = space.search.metric
    rows = [row for row in trial.validations() if metric in row]
    better = min if space.search.mode == "min" else max
    best = better(rows, key=lambda row: row[metric]) if rows else None
    ending = trial.ending
    return Ranked(
        trial.name,
        trial.params.values,
        ending.status,
        ending.reason,
        steps=max((row["step"] for row in rows), default=0),
        best=best[metric] if best else None,
        best_step=best["step"] if best else None,
    )
