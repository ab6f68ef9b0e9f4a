"""The command `calcgpt`, but the runs of `ablate` pause at a step until a signal arrives.

    PAUSE_STEP=20 PAUSE_FOLDER=FOLDER python tests/pausing.py ablate ...

A test can interrupt an ablation at a known point with it, however slow the machine is. Each run
that pauses creates a file in FOLDER, named by its process id. It pauses after the training row of
that step. The processes of the runs import this file, as the main module of their parent.
"""

import os
import signal
from pathlib import Path
from typing import Any

import calcgpt.lab.job as job
from calcgpt.cli import cli


class PausingTracker(job.ProgressTracker):
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


job.ProgressTracker = PausingTracker  # type: ignore[misc]

if __name__ == "__main__":
    cli()
