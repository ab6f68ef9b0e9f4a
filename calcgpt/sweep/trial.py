"""One trial on a worker of Ray: a training whose validations are told to Ray Tune.

All that a trial is lies in its run's folder. Whenever it is started, be it for the first time,
after a pause, on another machine or by another sweep command, it first tells the validations that
stand there and then trains on from its last checkpoint. So a scheduler and a search that know
nothing learn again what the earlier ones knew, and no step is done twice.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any, TypedDict

from ray import tune

from calcgpt.errors import ConfigError, TrainingError, UserError
from calcgpt.files import locked
from calcgpt.sweep.folder import Status, Trial
from calcgpt.trackers import Row

ROUND = "round"  # what schedulers count: validations, from 1
PATIENCE = 60.0  # seconds that a process of an earlier start may take to end


class TrialConfig(TypedDict):
    """What a worker needs to know."""

    folder: str
    recipe: dict[str, Any]
    data: str | None
    metric: str
    grace_steps: int
    threads: int
    device: str


def run_trial(config: TrialConfig) -> None:
    """Tell what is known of the trial, then train what is left. How it failed is kept in its
    folder: Ray learns of errors that are not the recipe's, as those of a machine, and tries again.
    """
    trial = Trial.load(Path(config["folder"]))
    rounds = Rounds(config["metric"], config["grace_steps"])
    for row in trial.validations():
        rounds.tell(row)
    if trial.ending.status is not Status.RUNNING:
        return
    try:
        _train(trial, config, rounds)
    except TrainingError as error:
        trial.end(Status.DIVERGED, str(error))
    except UserError as error:
        trial.end(Status.FAILED, str(error))


def _train(trial: Trial, config: TrialConfig, rounds: Rounds) -> None:
    import torch

    from calcgpt.recipe import Recipe, build
    from calcgpt.train import train

    torch.set_num_threads(config["threads"])
    recipe = build(Recipe, config["recipe"], f"trial {trial.name}")
    data = Path(config["data"]) if config["data"] else None
    _wait_for(trial.path)
    train(
        recipe, data, trial.path, resume=True, device=config["device"], progress=False,
        trackers=[lambda run, recipe: rounds],
    )  # fmt: skip


class Rounds:
    """The tracker that tells Ray Tune each validation, once.

    Telling blocks, and is where a scheduler pauses or ends a trial. A validation is told with the
    next row, which comes after the checkpoint of its step was written, or else the training since
    the checkpoint before would be lost with every pause.
    """

    def __init__(self, metric: str, grace_steps: int) -> None:
        self._metric, self._grace_steps = metric, grace_steps
        self._told = 0
        self._waiting: Row | None = None

    def write(self, row: Row) -> None:
        """Take one row; raises TrainingError where the metric is no number."""
        self.close()
        if self._metric in row:
            if not math.isfinite(row[self._metric]):
                raise TrainingError(f"{self._metric} is {row[self._metric]} at step {row['step']}")
            self._waiting = row

    def close(self) -> None:
        """Tell what waits."""
        if row := self._waiting:
            self._waiting = None
            self.tell(row)

    def tell(self, row: Row) -> None:
        """Tell one validation now, unless it is known or between two rounds."""
        number, between = divmod(row["step"], self._grace_steps)
        if self._metric in row and not between and number > self._told:
            self._told = number
            tune.report({ROUND: number, "step": row["step"], self._metric: row[self._metric]})


def _wait_for(folder: Path) -> None:
    """Until no process trains in `folder`: one that was told to end may take a moment. Raises
    ConfigError where it does not end."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with locked(folder, "training"):
                return
        except ConfigError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
