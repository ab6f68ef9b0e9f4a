"""Where the rows of a run's metrics go while it trains: the file `metrics.jsonl`, and others.

The rows of a run as a run of Weights & Biases, in the extra `wandb`.

What it keeps lies in the run's folder under `wandb/`, with the id by which a resumed run goes on as
the same. WANDB_MODE=offline needs neither network nor account: `wandb sync` uploads it later.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol

from calcgpt.config import Recipe
from calcgpt.errors import ConfigError, TrainingError
from calcgpt.metrics import step_lines
from calcgpt.training.run_folder import RunFolder
from datagen.files import write_text

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
    lines = step_lines(run.metrics_path)
    return lines[-1][1]["step"] if lines else 0


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


# Nothing on the terminal, nothing taken from it, and no code.
QUIET: dict[str, Any] = {
    "silent": True, "console": "off", "save_code": False, "disable_code": True, "disable_git": True,
}  # fmt: skip


def wandb_tracker(project: str) -> TrackerFactory:
    """Trackers that write to `project` of the account that W&B's own settings name.

    Whether this can work is found out here, before a run begins. Raises ConfigError, one line,
    where the package or a login is missing, the server refuses it, or a setting is wrong.
    """
    # Errors of its own are not its makers' business, unless one has said so.
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    try:
        import wandb
    except ImportError:
        raise ConfigError("--wandb needs the package: pip install 'calcgpt[wandb]'") from None
    try:
        wandb.Settings(project=project)
        mode = wandb.setup(wandb.Settings(silent=True)).settings.mode
        ready = mode != "online" or wandb.login(prompt=False)
    except (wandb.Error, ValueError) as error:  # pydantic's is a ValueError
        raise ConfigError(f"--wandb: {' '.join(str(error).split())}") from None
    if not ready:
        raise ConfigError(
            "--wandb: not logged in to Weights & Biases: run `wandb login`, or set WANDB_API_KEY; "
            "WANDB_MODE=offline needs no login"
        )
    return partial(WandbRun, project)  # which can be sent to the process that trains


class WandbRun:
    """Each number of each row, against its step; the recipe is the run's config.

    W&B takes no step twice: of what a resumed run writes again it keeps what came first.
    """

    def __init__(self, project: str, run: RunFolder, recipe: Recipe) -> None:
        import wandb

        continues = last_step(run) > 0
        try:
            self._run: Any = wandb.init(
                project=project,
                name=None if continues else run.path.resolve().name,
                id=_run_id(run, continues),
                resume="allow",
                dir=str(run.path),
                config=recipe.model_dump(),
                settings=wandb.Settings(**QUIET),
            )
        except wandb.Error as error:
            reason = str(error).splitlines()[0]
            raise TrainingError(f"Weights & Biases does not take the run: {reason}") from None

    def write(self, row: Row) -> None:
        self._run.log({key: value for key, value in row.items() if key != "step"}, row["step"])

    def close(self) -> None:
        self._run.finish()  # waits until all is uploaded


def _run_id(run: RunFolder, continues: bool) -> str:
    """The id in the run's folder; a new one for a run that begins, or has been untracked so far."""
    path = run.path / "wandb" / "run-id"
    if continues and path.exists():
        found = path.read_text("utf-8", errors="replace").strip()
        if not re.fullmatch("[a-z0-9]{1,64}", found):
            raise ConfigError(f"{path} holds no run id; without the file a new run is begun")
        return found
    path.parent.mkdir(exist_ok=True)
    new = secrets.token_hex(4)
    write_text(path, new + "\n")
    return new
