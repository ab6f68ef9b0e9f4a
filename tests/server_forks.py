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
from starlette.responses import Response
from starlette.types import Scope
from uvicorn.supervisors.multiprocess import SIGNALS

import api.app
from api.browsers import Files

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


class KeptFiles(Files):
    """The files of the page, which a browser keeps. To ask for each of the 90 again whenever the
    page is loaded takes half the time of its tests."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "max-age=3600"
        return response


if __name__ == "__main__":
    from calcgpt.cli import cli

    api.app.STATIC = KeptFiles(directory=api.app.STATIC.directory)
    uvicorn._subprocess.spawn = SimpleNamespace(Process=_forked_worker)
    cli.main(args=sys.argv[1:], prog_name="calcgpt")
