"""Where the rows of a run's metrics go while it trains: the file `metrics.jsonl`, and others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
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
    """Every number of every row as a scalar, where those of a run that is resumed after `step`
    steps take the place of what it wrote later. Raises ImportError where it is not installed."""

    def __init__(self, folder: Path, step: int = 0) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._board: Any = SummaryWriter(str(folder), purge_step=step + 1 if step else None)

    def write(self, row: Row) -> None:
        for key, value in row.items():
            if key != "step" and isinstance(value, int | float):
                self._board.add_scalar(key, value, row["step"])
        self._board.flush()  # for a resumed run not to miss what a killed one had only queued

    def close(self) -> None:
        self._board.close()


class Trackers:
    """Several trackers as one."""

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        self._trackers = trackers

    def write(self, row: Row) -> None:
        for tracker in self._trackers:
            tracker.write(row)


def last_step(run: RunFolder) -> int:
    """The step of the last row of `metrics.jsonl`; 0 where a run begins. A run that is resumed has
    cut its rows: they go on after this step."""
    try:
        return int(json.loads(run.metrics_path.read_bytes().splitlines()[-1])["step"])
    except (OSError, IndexError, ValueError, KeyError, TypeError, OverflowError):
        return 0


@contextmanager
def trackers_of(
    run: RunFolder, recipe: Recipe, others: Sequence[TrackerFactory] = ()
) -> Iterator[Trackers]:
    """`metrics.jsonl`, TensorBoard where it is installed, and `others`; closed at the end."""
    with ExitStack() as closing:
        opened: list[Tracker] = []

        def add(tracker: Tracker) -> None:
            opened.append(tracker)
            closing.callback(tracker.close)

        add(MetricsFile(run.metrics_path))
        with suppress(ImportError):
            add(TensorBoard(run.path / "tensorboard", last_step(run)))
        for make in others:
            add(make(run, recipe))
        yield Trackers(opened)
