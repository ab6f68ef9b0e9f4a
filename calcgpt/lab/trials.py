"""The folder of a sweep: all that there is to know of its trials. No file in it is unpickled.

sweep.json              the space, its recipe, the data, and each start: seed, versions
trials/0007/            a run's folder, and
trials/0007/params.json the values of the hyperparameters, and what was drawn for them
trials/0007/status.json how the trial ended
report.json, report.md, best.toml, plots/
ray/                    Ray's own files while a sweep runs; never read again

One trial on a worker of Ray: a training whose validations are told to Ray Tune.

All that a trial is lies in its run's folder. Whenever it is started, be it for the first time,
after a pause, on another machine or by another sweep command, it first tells the validations that
stand there and then trains on from its last checkpoint. So a scheduler and a search that know
nothing learn again what the earlier ones knew, and no step is done twice.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self, TypedDict, TypeVar

from pydantic import BaseModel, ConfigDict
from ray import tune

from calcgpt.errors import ConfigError, DataError, TrainingError, UserError
from calcgpt.lab.space import METRICS, Drawn, Space, Value
from calcgpt.metrics import step_lines
from calcgpt.recipe import build, differences
from calcgpt.training.run_folder import RunFolder
from calcgpt.training.trackers import Row
from datagen.files import locked, read_json, write_json


class Status(StrEnum):
    """How far a trial is."""

    RUNNING = "running"  # or waiting, paused, interrupted
    COMPLETED = "completed"  # all its steps
    STOPPED = "stopped"  # by the scheduler
    DIVERGED = "diverged"  # its loss is no longer a number
    FAILED = "failed"  # in another way; the same command tries it again

    @property
    def final(self) -> bool:
        """Whether it is never trained again."""
        return self not in (Status.RUNNING, Status.FAILED)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


F = TypeVar("F", bound=_File)


class Params(_File):
    """`params.json`."""

    values: dict[str, Value]
    drawn: dict[str, Drawn]


class Ending(_File):
    """`status.json`."""

    status: Status
    reason: str = ""


@dataclass(frozen=True)
class Trial:
    """One trial, by its folder."""

    path: Path
    params: Params

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def ending(self) -> Ending:
        """How it ended, so far."""
        path = self.path / "status.json"
        return _read(path, Ending) if path.exists() else Ending(status=Status.RUNNING)

    def end(self, status: Status, reason: str = "") -> None:
        """Keep how it ended."""
        content = Ending(status=status, reason=" ".join(reason.split())[:500])
        write_json(self.path / "status.json", content.model_dump())

    def reopen(self) -> None:
        """It is to be tried again."""
        (self.path / "status.json").unlink(missing_ok=True)

    def validations(self) -> list[Row]:
        """Returns the validation rows of its `metrics.jsonl`, in order. Other lines, such as the
        one a killed run leaves, are ignored."""
        lines = step_lines(RunFolder(self.path).metrics_path)
        return [row for _, row in lines if _is_validation(row)]

    @classmethod
    def load(cls, path: Path) -> Self:
        """The trial in a folder; raises DataError."""
        return cls(path, _read(path / "params.json", Params))


def _is_validation(row: Row) -> bool:
    numbers = [row.get("val_loss"), *(row[name] for name in METRICS if name in row)]
    return all(isinstance(number, int | float) and math.isfinite(number) for number in numbers)


@dataclass(frozen=True)
class SweepFolder:
    """A sweep's files."""

    path: Path

    @property
    def ray(self) -> Path:
        return self.path / "ray"

    def trial_path(self, index: int) -> Path:
        return self.path / "trials" / f"{index:04d}"

    def trials(self) -> list[Trial]:
        """Those that were begun, in order; raises DataError where a file is not ours."""
        found: list[Trial] = []
        while (path := self.trial_path(len(found))).joinpath("params.json").exists():
            found.append(Trial.load(path))
        return found

    def new_trial(self, index: int, params: Params) -> Trial:
        """Keep the values of a trial before it begins."""
        trial = Trial(self.trial_path(index), params)
        trial.path.mkdir(parents=True, exist_ok=True)
        write_json(trial.path / "params.json", params.model_dump())
        return trial

    def begin(self, what: dict[str, Any], start: dict[str, Any]) -> None:
        """Add a start to `sweep.json`; raises ConfigError where the folder holds another sweep."""
        path = self.path / "sweep.json"
        starts: Any = []
        what = json.loads(json.dumps(what))
        if path.exists():
            known = read_json(path)
            starts = known.pop("starts", None)
            if not isinstance(starts, list):
                raise DataError(f"{path} was not written by a sweep")
            for field, (value, known_value) in differences(what, known).items():
                raise ConfigError(
                    f"{self.path} holds another sweep: {field} is {value!r}, it was begun with "
                    f"{known_value!r}"
                )
        write_json(path, {**what, "starts": [*starts, start]})


def _read(path: Path, kind: type[F]) -> F:
    return build(kind, read_json(path), str(path))


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

    from calcgpt.config import Recipe
    from calcgpt.recipe import build
    from calcgpt.training.train import train

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
    with locked(folder, "training", timeout=PATIENCE):
        pass


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
