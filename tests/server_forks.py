"""Processes of `calcgpt serve`, forked from a parent that has imported it, which takes seconds.

If a service has several workers, they are forked from its process. As a program, this file is the
command in such a process.
"""

import os
import signal
import sys
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import uvicorn
from forks import Popen
from prometheus_client import values
from uvicorn.supervisors.multiprocess import SIGNALS

PRELOAD = ("torch", "api.server", "calcgpt.inference.cases.decoder")


class ForkedProcess(Popen):
    """A command of calcgpt, whose stderr is written to a file."""

    def __init__(self, command: list[str], environment: dict[str, str], stderr: Path) -> None:
        nothing = [os.open(os.devnull, os.O_RDWR) for _ in range(2)]
        file = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        program = [sys.executable, __file__, *command]
        super().__init__(program, PRELOAD, env=environment, files=[*nothing, file])

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def _forked_worker(*, target: Callable[..., None], kwargs: dict[str, Any]) -> Any:
    """Stands in for `Process` of multiprocessing's context `spawn`, which uvicorn uses for workers.

    Resets the state that a new Python process would not inherit.
    """

    def start(**kwargs: Any) -> None:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        values.ValueClass = values.get_value_class()  # now PROMETHEUS_MULTIPROC_DIR is set
        target(**kwargs)

    return get_context("fork").Process(target=start, kwargs=kwargs)


if __name__ == "__main__":
    from calcgpt.cli import cli

    uvicorn._subprocess.spawn = SimpleNamespace(Process=_forked_worker)
    cli.main(args=sys.argv[1:], prog_name="calcgpt")
