"""Trackers receive the metrics of a run while it trains: `metrics.jsonl`, W&B.

Weights & Biases is in the extra `wandb`. Its files are in the run's folder under `wandb/`.
WANDB_MODE=offline needs no network and no account; `wandb sync` uploads the run later.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol

from calcgpt.base.errors import ConfigError, one_line
from calcgpt.base.extras import require
from calcgpt.base.files import text_sha256
from calcgpt.config import Recipe
from calcgpt_lab.records import TrainingError
from calcgpt_lab.training.environment import read_starts
from calcgpt_lab.training.run_folder import RunFolder

MetricsRow = dict[str, Any]  # a line of `metrics.jsonl`; docs/RUNS.md lists the fields
Write = Callable[[MetricsRow], None]


class Tracker(Protocol):
    """Receives every row, in order."""

    def write(self, row: MetricsRow) -> None:
        """Receives one row."""

    def close(self) -> None:
        """Called at the end of the run, also after an error. Flushes and closes everything."""


TrackerFactory = Callable[[RunFolder, Recipe], Tracker]


class MetricsFile:
    """Appends rows to `metrics.jsonl`, and flushes each to the system."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("a", encoding="utf-8")

    def write(self, row: MetricsRow) -> None:
        try:
            self._file.write(json.dumps(row) + "\n")
            self._file.flush()
        except OSError as error:  # on a full disk, it names no file
            error.filename = error.filename or self._file.name
            raise

    def close(self) -> None:
        self._file.close()


@contextmanager
def trackers_of(
    run: RunFolder, recipe: Recipe, others: Sequence[TrackerFactory] = ()
) -> Iterator[Write]:
    """Yields what writes a row to `metrics.jsonl` and to `others`."""
    with ExitStack() as stack:
        opened: list[Tracker] = [stack.enter_context(closing(MetricsFile(run.metrics_path)))]
        opened += (stack.enter_context(closing(make(run, recipe))) for make in others)

        def write(row: MetricsRow) -> None:
            for tracker in opened:
                tracker.write(row)

        yield write


# W&B prints nothing, and records neither the terminal nor code.
QUIET: dict[str, Any] = {
    "silent": True,
    "console": "off",
    "save_code": False,
    "disable_code": True,
    "disable_git": True,
}


def wandb_tracker(project: str) -> TrackerFactory:
    """Returns a factory of trackers that write to `project` of the account in W&B's own settings.

    Checks the settings before a run begins. Raises ConfigError, one line, if the package or a login
    is missing, the server refuses the login, or a setting is wrong.
    """
    # No error reports to Weights & Biases, unless the user allows them.
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    require("--wandb", "wandb")
    import wandb

    try:
        wandb.Settings(project=project)
        mode = wandb.setup(wandb.Settings(silent=True)).settings.mode
        ready = mode != "online" or wandb.login(prompt=False)
    except (wandb.Error, ValueError) as error:  # pydantic's errors are ValueErrors
        raise ConfigError(f"--wandb: {one_line(error)}") from None
    if not ready:
        raise ConfigError(
            "--wandb: not logged in to Weights & Biases: run `wandb login`, or set WANDB_API_KEY; "
            "WANDB_MODE=offline needs no login"
        )
    return partial(WandbRun, project)


class WandbRun:
    """A run of W&B: each number of each row by step, and the recipe as its config. A resumed run
    continues there under its id, a hash of its first start.

    W&B keeps the first row of a step. It ignores rows that a resumed run writes again.
    """

    def __init__(self, project: str, run: RunFolder, recipe: Recipe) -> None:
        import wandb

        starts = read_starts(run.path)
        try:
            self._run: Any = wandb.init(
                project=project,
                name=None if len(starts) > 1 else run.path.resolve().name,
                id=text_sha256(json.dumps(starts[0]))[:16],
                resume="allow",
                dir=str(run.path),
                config=recipe.model_dump(),
                settings=wandb.Settings(**QUIET),
            )
        except wandb.Error as error:
            reason = str(error).splitlines()[0]
            raise TrainingError(f"Weights & Biases refuses the run: {reason}") from None

    def write(self, row: MetricsRow) -> None:
        self._run.log({key: value for key, value in row.items() if key != "step"}, row["step"])

    def close(self) -> None:
        self._run.finish()  # waits for the upload
