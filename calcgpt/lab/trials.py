"""A trial of a sweep: its folder, and how a worker of Ray trains it."""

import math
import sys
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field

from calcgpt.errors import TrainingError, UserError, one_line
from calcgpt.lab.space import Search, Space, Value
from calcgpt.metrics import step_lines
from calcgpt.section import build
from calcgpt.tables import counted
from calcgpt.training.run_folder import RunFolder
from datagen.files import locked, read_json, write_json

ROUND = "round"  # what schedulers count
LOCK_TIMEOUT = 60.0  # seconds for a process of an earlier start to end
Row = dict[str, Any]  # of metrics.jsonl
Status = Literal["running", "completed", "stopped", "diverged", "failed"]


class Trial(BaseModel):
    """A trial: its folder, and the content of its `trial.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    path: Path = Field(exclude=True)
    values: dict[str, Value]
    # running: or waiting, paused, interrupted. stopped: by the scheduler. diverged: its loss is
    # not finite. failed: for another reason; the same command tries it again.
    status: Status = "running"
    reason: str = ""

    @classmethod
    def load(cls, path: Path) -> Self:
        """Returns the trial in a folder. Raises ConfigError or DataError if there is none."""
        file = path / "trial.json"
        return build(cls, {**read_json(file), "path": path}, str(file))

    @classmethod
    def write(cls, path: Path, values: Any, status: Status = "running", reason: str = "") -> Self:
        """Writes the file of a trial, and returns the trial."""
        trial = cls(path=path, values=values, status=status, reason=one_line(reason)[:500])
        path.mkdir(parents=True, exist_ok=True)
        write_json(path / "trial.json", trial.model_dump())
        return trial

    @property
    def has_ended(self) -> bool:
        """Whether the trial is never trained again."""
        return self.status not in ("running", "failed")

    def validations(self, metric: str) -> list[Row]:
        """Returns the validation rows of its `metrics.jsonl`, in order. Other lines, such as the
        one a killed run leaves, are ignored."""
        rows = [row for _, row in step_lines(RunFolder(self.path).metrics_path)]
        return [
            row for row in rows if _is_finite(row.get("val_loss")) and _is_finite(row.get(metric))
        ]


def _is_finite(number: Any) -> bool:
    return isinstance(number, int | float) and abs(number) <= sys.float_info.max


def trials_in(out: Path) -> list[Trial]:
    """Returns the trials of a sweep that were started, in order. Raises UserError for a bad
    file."""
    trials: list[Trial] = []
    while (path := out / "trials" / f"{len(trials):04d}").joinpath("trial.json").exists():
        trials.append(Trial.load(path))
    return trials


class Resources(NamedTuple):
    """What a trial may use, and how many trials may run at a time."""

    cpus: int = 1
    gpus: float = 0.0
    concurrent: int | None = None  # None: as many as fit

    def __str__(self) -> str:
        return f"{counted(self.cpus, 'CPU')} and {counted(self.gpus, 'GPU')}"


def run_trial(
    path: Path, values: dict[str, Value], space: Space, data: Path | None, resources: Resources
) -> None:
    """Reports the validations that a trial's folder holds, then trains the rest, on a worker of
    Ray. Raises UserError, which the file records, if the trial has no result.

    Other errors, such as those of a machine, reach Ray, which tries the trial again.
    """
    import torch

    from calcgpt.training.train import train

    torch.set_num_threads(resources.cpus)
    is_known = (path / "trial.json").exists() and Trial.load(path).values == values
    trial = Trial.load(path) if is_known else Trial.write(path, values)
    reporter = RoundReporter(space.search)
    rows = trial.validations(space.search.metric) if is_known else []
    for row in rows:
        reporter.report(row)
    try:
        if trial.status in ("diverged", "failed"):
            raise TrainingError(trial.reason)
        if trial.status == "running":
            with locked(path, "training", timeout=LOCK_TIMEOUT):
                pass  # a process of an earlier start may need a moment to end
            train(
                space.trial_recipe(values),
                data,
                path,
                resume=is_known,
                force=not is_known,
                device="auto" if resources.gpus else "cpu",
                progress=False,
                trackers=[lambda run, recipe: reporter],
            )
    except UserError as error:
        if trial.status == "running":
            Trial.write(
                path,
                values,
                "diverged" if isinstance(error, TrainingError) else "failed",
                str(error),
            )
        if not reporter.last_round:
            raise


class RoundReporter:
    """A tracker that reports each round to Ray Tune once.

    Reporting blocks: this is where a scheduler pauses or stops a trial. A validation is reported
    with the next row, after the checkpoint of its step. Otherwise each pause would lose the
    training since the previous checkpoint.
    """

    def __init__(self, search: Search) -> None:
        self._metric, self._grace_steps = search.metric, search.grace_steps
        self._pending: Row | None = None
        self.last_round = 0

    def write(self, row: Row) -> None:
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

    def report(self, row: Row) -> None:
        """Reports a validation now, unless it was reported or lies between two rounds."""
        from ray import tune

        number, remainder = divmod(row["step"], self._grace_steps)
        if not remainder and number > self.last_round:
            self.last_round = number
            tune.report({ROUND: number, "step": row["step"], self._metric: row[self._metric]})
