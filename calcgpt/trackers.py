"""Where the rows of a run's metrics go while it trains: the file `metrics.jsonl`, and others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol

from calcgpt.recipe import Recipe
from calcgpt.run_folder import RunFolder

Row = dict[str, Any]  # as docs/RUNS.md has it: `step`, and numbers of training or of validation


class Tracker(Protocol):
    """What is told every row, in order."""

    def write(self, row: Row) -> None:
        """Take one row."""

    def close(self) -> None:
        """The run has ended, in whatever way: flush and release everything."""


# (the run's folder, its recipe) -> a tracker of this run
TrackerFactory = Callable[[RunFolder, Recipe], Tracker]


class MetricsFile:
    """Appends rows to `metrics.jsonl`."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("a", encoding="utf-8")

    def write(self, row: Row) -> None:
        """Append one row; it is on its way to the disk when this returns."""
        try:
            self._file.write(json.dumps(row) + "\n")
            self._file.flush()
        except OSError as error:  # a full disk; the system does not say which file
            error.filename = self._file.name
            raise

    def close(self) -> None:
        self._file.close()


class TensorBoard:
    """Every number of every row as a scalar. Raises ImportError where it is not installed."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._board: Any = SummaryWriter(str(folder))

    def write(self, row: Row) -> None:
        for key, value in row.items():
            if key != "step" and isinstance(value, int | float):
                self._board.add_scalar(key, value, row["step"])

    def close(self) -> None:
        self._board.close()


class Trackers:
    """Several trackers as one."""

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        self._trackers = trackers

    def write(self, row: Row) -> None:
        for tracker in self._trackers:
            tracker.write(row)


@contextmanager
def trackers_of(
    run: RunFolder, recipe: Recipe, others: Sequence[TrackerFactory] = ()
) -> Iterator[Trackers]:
    """`metrics.jsonl`, TensorBoard where it is installed, and `others`; closed at the end."""
    opened: list[Tracker] = [MetricsFile(run.metrics_path)]
    try:
        with suppress(ImportError):
            opened.append(TensorBoard(run.path / "tensorboard"))
        opened.extend(make(run, recipe) for make in others)
        yield Trackers(opened)
    finally:
        for tracker in opened:
            tracker.close()
