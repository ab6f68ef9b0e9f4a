"""Trackers receive the metrics of a run while it trains: `metrics.jsonl`, W&B.

Weights & Biases is in the extra `wandb`. Its files are in the run's folder under `wandb/`, with the
id under which a resumed run continues. WANDB_MODE=offline needs no network and no account;
`wandb sync` uploads the run later.
"""

import json
import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol

from calcgpt.base.errors import ConfigError, DataError, one_line
from calcgpt.base.extras import require
from calcgpt.base.files import read_text, write_text
from calcgpt.config import Recipe
from calcgpt_lab.records import TrainingError, step_lines
from calcgpt_lab.training.run_folder import RunFolder

MAX_RUN_ID = 1_000  # bytes
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


def last_step(run: RunFolder) -> int:
    """Returns the step of the last row of `metrics.jsonl`, 0 for a new run. A resumed run has
    already removed the rows that it will write again."""
    lines = step_lines(run.metrics_path)
    return lines[-1][1]["step"] if lines else 0


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
    """A run of W&B: each number of each row by step, and the recipe as its config.

    W&B keeps the first row of a step. It ignores rows that a resumed run writes again.
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
            raise TrainingError(f"Weights & Biases refuses the run: {reason}") from None

    def write(self, row: MetricsRow) -> None:
        self._run.log({key: value for key, value in row.items() if key != "step"}, row["step"])

    def close(self) -> None:
        self._run.finish()  # waits for the upload


def _run_id(run: RunFolder, continues: bool) -> str:
    """Returns the id in the run's folder, or a new one if the run is new or was not tracked."""
    path = run.path / "wandb" / "run-id"
    if continues and path.exists():
        run_id = ""
        with suppress(DataError):
            run_id = read_text(path, MAX_RUN_ID).strip()
        if not re.fullmatch("[a-z0-9]{1,64}", run_id):
            raise ConfigError(f"{path} does not contain a run id; delete it to begin a new run")
        return run_id
    path.parent.mkdir(exist_ok=True)
    run_id = secrets.token_hex(4)
    write_text(path, run_id + "\n")
    return run_id
