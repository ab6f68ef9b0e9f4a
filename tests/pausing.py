"""The command `calcgpt`, but training pauses at a step until a signal arrives.

    PAUSE_STEP=20 PAUSE_FOLDER=FOLDER python tests/pausing.py train ...

A test can interrupt `train` and the runs of `ablate` at a known point with it, however slow the
machine is. Each run that pauses creates a file in FOLDER, named by its process id. It pauses after
the training row of that step. The processes of `ablate` import this file, as the main module of
their parent.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from forks import TRAINING, Popen
from waiting import wait_for

import calcgpt_lab.training.trackers as trackers


class PausingFile(trackers.MetricsFile):
    """Pauses at PAUSE_STEP."""

    def write(self, row: dict[str, Any]) -> None:
        super().write(row)
        if "loss" not in row or row["step"] != int(os.environ["PAUSE_STEP"]):
            return
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer)  # a signal that comes before the read ends it, too
        (Path(os.environ["PAUSE_FOLDER"]) / str(os.getpid())).touch()
        os.read(reader, 1)


def start_pausing(step: int, folder: Path, *arguments: str | Path) -> Popen:
    """Starts `calcgpt ARGUMENTS`. Its runs pause at `step`, and create files in `folder` then."""
    folder.mkdir()
    return Popen(
        [sys.executable, __file__, *arguments],
        TRAINING,
        env={**os.environ, "PAUSE_STEP": str(step), "PAUSE_FOLDER": str(folder)},
        start_new_session=True,
    )


def wait_until_paused(process: Popen, folder: Path, count: int = 1) -> list[int]:
    """Waits until `count` runs pause. Returns the ids of their processes."""

    def are_there() -> bool:
        assert process.poll() is None, process.communicate()
        return len(list(folder.iterdir())) >= count

    wait_for(are_there)
    return [int(file.name) for file in folder.iterdir()]


if __name__ in ("__main__", "__mp_main__"):
    trackers.MetricsFile = PausingFile  # type: ignore[misc]

if __name__ == "__main__":
    from calcgpt.cli import cli

    cli()
