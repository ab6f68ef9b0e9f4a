"""The folder of a sweep: all that there is to know of its trials. No file in it is unpickled.

sweep.json              the space, its recipe, the data, and each start: seed, versions
trials/0007/            a run's folder, and
trials/0007/params.json the values of the hyperparameters, and what was drawn for them
trials/0007/status.json how the trial ended
report.json, report.md, best.toml, plots/
ray/                    Ray's own files while a sweep runs; never read again
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict

from calcgpt.errors import ConfigError, DataError
from calcgpt.files import read_json
from calcgpt.recipe import build
from calcgpt.run_folder import RunFolder
from calcgpt.sweep.hyperparameters import Drawn, Value
from calcgpt.sweep.space import METRICS
from calcgpt.trackers import Row
from datagen.files import write_json


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
        """The rows of validation in its `metrics.jsonl`, in order. Lines that are none, as a killed
        run leaves one, are passed over."""
        try:
            text = RunFolder(self.path).metrics_path.read_text("utf-8", errors="replace")
        except FileNotFoundError:
            return []
        rows = []
        for line in text.splitlines():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict) and _is_validation(row):
                rows.append(row)
        return rows

    @classmethod
    def load(cls, path: Path) -> Self:
        """The trial in a folder; raises DataError."""
        return cls(path, _read(path / "params.json", Params))


def _is_validation(row: Row) -> bool:
    numbers = [row.get("val_loss"), *(row[name] for name in METRICS if name in row)]
    return isinstance(row.get("step"), int) and all(
        isinstance(number, int | float) and math.isfinite(number) for number in numbers
    )


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
            starts = known.pop("starts", None) if isinstance(known, dict) else None
            if not isinstance(starts, list):
                raise DataError(f"{path} was not written by a sweep")
            if different := _difference(known, what):
                raise ConfigError(f"{self.path} holds another sweep: {different}")
        write_json(path, {**what, "starts": [*starts, start]})


def _difference(known: Any, asked: Any, where: str = "") -> str:
    """The first place where two JSON values differ, in words; empty where nothing does."""
    if isinstance(known, dict) and isinstance(asked, dict):
        for key in sorted(known.keys() | asked.keys()):
            place = f"{where}.{key}" if where else key
            if key not in known or key not in asked:
                return f"{place} is {'new' if key in asked else 'gone'}"
            if found := _difference(known[key], asked[key], place):
                return found
        return ""
    return "" if known == asked else f"{where} is {asked!r}, it was begun with {known!r}"


def _read(path: Path, kind: type[F]) -> F:
    return build(kind, read_json(path), str(path))
