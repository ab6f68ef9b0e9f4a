"""Schedulers: what ends trials early. All count rounds, the validations of a trial from 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ray.tune import schedulers

from calcgpt.registry import Registry
from calcgpt.sweep.space import Space
from calcgpt.sweep.trial import ROUND


@dataclass(frozen=True)
class Scheduler:
    """How to make one, and what to know of it."""

    make: Callable[[Space], Any]
    pauses: bool  # trials wait for others, while these use the machine


SCHEDULERS: Registry[Scheduler] = Registry("scheduler")


def _asha(space: Space) -> Any:
    """Asynchronous successive halving (Li et al. 2020)."""
    return schedulers.ASHAScheduler(
        time_attr=ROUND, metric=space.search.metric, mode=space.search.mode,
        max_t=space.rounds, grace_period=1, reduction_factor=space.search.reduction_factor,
    )  # fmt: skip


def _hyperband(space: Space) -> Any:
    """HyperBand (Li et al. 2018) as BOHB has it: the largest bracket first, which is filled before
    it is halved. Ray's other one halves what happens to run."""
    return schedulers.HyperBandForBOHB(
        time_attr=ROUND, metric=space.search.metric, mode=space.search.mode,
        max_t=space.rounds, reduction_factor=space.search.reduction_factor,
    )  # fmt: skip


def _none(space: Space) -> Any:
    """Every trial does all its steps."""
    return schedulers.FIFOScheduler()  # type: ignore[no-untyped-call]


SCHEDULERS.register("asha")(Scheduler(_asha, pauses=False))
SCHEDULERS.register("hyperband")(Scheduler(_hyperband, pauses=True))
SCHEDULERS.register("bohb")(Scheduler(_hyperband, pauses=True))
SCHEDULERS.register("none")(Scheduler(_none, pauses=False))
