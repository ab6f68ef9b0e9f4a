"""Trials: the folder of a sweep, and how a worker of Ray trains one of its trials.

sweep.json               the space, its recipe, the data, and each start with its seed and versions
trials/0007/             the folder of a run, and
trials/0007/params.json  the values of the hyperparameters, and the draws they stand for
trials/0007/status.json  how the trial ended
report.json, report.md, best.toml, plots/
ray/                     Ray's own files while a sweep runs; never read again

No file is unpickled. The folder of a trial is its whole state: whenever the trial starts, for the
first time, after a pause, on another machine or under another command, it first reports the
validations that its folder holds and then continues from its last checkpoint. So a new scheduler
or search gets all earlier results, and no step is trained twice.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self, TypedDict

from pydantic import BaseModel, ConfigDict

from calcgpt.config import Recipe
from calcgpt.errors import ConfigError, DataError, TrainingError, UserError, one_line
from calcgpt.lab.space import METRICS, Draw, Space, Value
from calcgpt.metrics import step_lines
from calcgpt.recipe import build, differences
from calcgpt.tables import counted
from calcgpt.training.run_folder import RunFolder
from calcgpt.training.trackers import MetricsRow
from datagen.files import locked, read_json, write_json


class Status(StrEnum):
    """The state of a trial."""

    RUNNING = "running"  # or waiting, paused, interrupted
    COMPLETED = "completed"  # trained for all its steps
    STOPPED = "stopped"  # by the scheduler
    DIVERGED = "diverged"  # its loss is not finite
    FAILED = "failed"  # for another reason; the same command tries it again

    @property
    def final(self) -> bool:
        """Whether the trial is never trained again."""
        return self not in (Status.RUNNING, Status.FAILED)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Params(_File):
    """`params.json`."""

    values: dict[str, Value]
    drawn: dict[str, Draw]


class Ending(_File):
    """`status.json`."""

    status: Status
    reason: str = ""


@dataclass(frozen=True)
class Trial:
    """A trial, identified by its folder."""

    path: Path
    params: Params

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def ending(self) -> Ending:
        """How the trial ended, or that it is running."""
        path = self.path / "status.json"
        if not path.exists():
            return Ending(status=Status.RUNNING)
        return build(Ending, read_json(path), str(path))

    def end(self, status: Status, reason: str = "") -> None:
        """Writes how the trial ended."""
        content = Ending(status=status, reason=one_line(reason)[:500])
        write_json(self.path / "status.json", content.model_dump())

    def reopen(self) -> None:
        """Lets a failed trial be tried again."""
        (self.path / "status.json").unlink(missing_ok=True)

    def validations(self) -> list[MetricsRow]:
        """Returns the validation rows of its `metrics.jsonl`, in order. Other lines, such as the
        one a killed run leaves, are ignored."""
        lines = step_lines(RunFolder(self.path).metrics_path)
        return [row for _, row in lines if _is_validation(row)]

    def last_step(self) -> int:
        """Returns the step of its last validation, 0 without one."""
        return max((row["step"] for row in self.validations()), default=0)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Returns the trial in a folder; raises ConfigError or DataError if there is none."""
        params = path / "params.json"
        return cls(path, build(Params, read_json(params), str(params)))


def _is_validation(row: MetricsRow) -> bool:
    numbers = [row.get("val_loss"), *(row[name] for name in METRICS if name in row)]
    return all(
        isinstance(number, int | float) and abs(number) <= sys.float_info.max for number in numbers
    )


@dataclass(frozen=True)
class SweepFolder:
    """The files of a sweep."""

    path: Path

    @property
    def ray(self) -> Path:
        return self.path / "ray"

    def trial_path(self, index: int) -> Path:
        return self.path / "trials" / f"{index:04d}"

    def trials(self) -> list[Trial]:
        """Returns the trials that were started, in order; raises UserError for a bad file."""
        trials: list[Trial] = []
        while (path := self.trial_path(len(trials))).joinpath("params.json").exists():
            trials.append(Trial.load(path))
        return trials

    def new_trial(self, index: int, params: Params) -> Trial:
        """Writes the values of a trial before it starts."""
        trial = Trial(self.trial_path(index), params)
        trial.path.mkdir(parents=True, exist_ok=True)
        write_json(trial.path / "params.json", params.model_dump())
        return trial

    def begin(self, identity: dict[str, Any], start: dict[str, Any]) -> None:
        """Adds a start to `sweep.json`; raises ConfigError if the folder holds another sweep."""
        path = self.path / "sweep.json"
        starts: Any = []
        if path.exists():
            content = read_json(path)
            starts = content.pop("starts", None)
            if not isinstance(starts, list):
                raise DataError(f"{path} was not written by a sweep")
            requested = json.loads(json.dumps(identity))
            for field, (value, old_value) in differences(requested, content).items():
                raise ConfigError(
                    f"{self.path} holds another sweep: {field} is {value!r}, but it was started "
                    f"with {old_value!r}"
                )
        write_json(path, {**identity, "starts": [*starts, start]})


ROUND = "round"  # what schedulers count: validations, from 1
LOCK_TIMEOUT = 60.0  # seconds for a process of an earlier start to end


@dataclass(frozen=True)
class Resources:
    """What a trial may use, and how many trials may run at a time."""

    cpus: int = 1
    gpus: float = 0.0
    concurrent: int | None = None  # None: as many as fit

    def __str__(self) -> str:
        return f"{counted(self.cpus, 'CPU')} and {counted(self.gpus, 'GPU')}"


class TrialConfig(TypedDict):
    """What a worker needs to train a trial."""

    folder: str
    recipe: dict[str, Any]
    data: str | None
    metric: str
    grace_steps: int
    threads: int
    device: str


def run_trial(config: TrialConfig) -> None:
    """Reports the validations that a trial has, then trains the rest of it, on a worker of Ray.

    Errors of the recipe or the data are written to the trial's folder. Other errors, such as those
    of a machine, reach Ray, which tries the trial again.
    """
    trial = Trial.load(Path(config["folder"]))
    reporter = RoundReporter(config["metric"], config["grace_steps"])
    for row in trial.validations():
        reporter.report(row)
    if trial.ending.status is not Status.RUNNING:
        return
    try:
        _train(trial, config, reporter)
    except TrainingError as error:
        trial.end(Status.DIVERGED, str(error))
    except UserError as error:
        trial.end(Status.FAILED, str(error))


def _train(trial: Trial, config: TrialConfig, reporter: RoundReporter) -> None:
    import torch

    from calcgpt.training.train import train

    torch.set_num_threads(config["threads"])
    with locked(trial.path, "training", timeout=LOCK_TIMEOUT):
        pass  # a process of an earlier start may need a moment to end
    train(
        build(Recipe, config["recipe"], f"trial {trial.name}"),
        Path(config["data"]) if config["data"] else None,
        trial.path,
        resume=True,
        device=config["device"],
        progress=False,
        trackers=[lambda run, recipe: reporter],
    )


class RoundReporter:
    """A tracker that reports each round to Ray Tune once.

    Reporting blocks: this is where a scheduler pauses or stops a trial. A validation is reported
    with the next row, after the checkpoint of its step. Otherwise each pause would lose the
    training since the previous checkpoint.
    """

    def __init__(self, metric: str, grace_steps: int) -> None:
        self._metric, self._grace_steps = metric, grace_steps
        self._last_round = 0
        self._pending: MetricsRow | None = None

    def write(self, row: MetricsRow) -> None:
        """Takes one row; raises TrainingError if the metric is not finite."""
        self.close()
        if self._metric in row:
            if not math.isfinite(row[self._metric]):
                raise TrainingError(f"{self._metric} is {row[self._metric]} at step {row['step']}")
            self._pending = row

    def close(self) -> None:
        """Reports the pending validation."""
        if row := self._pending:
            self._pending = None
            self.report(row)

    def report(self, row: MetricsRow) -> None:
        """Reports a validation now, unless it was reported or lies between two rounds."""
        from ray import tune

        number, remainder = divmod(row["step"], self._grace_steps)
        if self._metric in row and not remainder and number > self._last_round:
            self._last_round = number
            tune.report({ROUND: number, "step": row["step"], self._metric: row[self._metric]})


@dataclass(frozen=True)
class TrialResult:
    """A trial and its result: the best of its validations."""

    trial: str
    values: dict[str, Value]
    status: Status
    reason: str
    steps: int  # of its last validation
    best: float | None  # value of the metric; None without a validation
    best_step: int | None


def rank_trials(trials: Sequence[Trial], space: Space) -> list[TrialResult]:
    """Returns the trials, the best first and those without a result last."""
    sign = 1 if space.search.mode == "min" else -1
    return sorted(
        (_result(trial, space) for trial in trials),
        key=lambda result: (result.best is None, sign * (result.best or 0.0)),
    )


def _result(trial: Trial, space: Space) -> TrialResult:
    metric = space.search.metric
    rows = [row for row in trial.validations() if metric in row]
    better = min if space.search.mode == "min" else max
    best = better(rows, key=lambda row: row[metric], default=None)
    ending = trial.ending
    return TrialResult(
        trial.name,
        trial.params.values,
        ending.status,
        ending.reason,
        steps=max((row["step"] for row in rows), default=0),
        best=best[metric] if best else None,
        best_step=best["step"] if best else None,
    )
