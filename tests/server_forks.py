"""Processes of `calcgpt serve`, forked from a parent that has imported it, which takes seconds.

If a service has several workers, they are forked from its process.

As a program, this file is the parent. It reads requests from stdin and writes answers to stdout,
one line of JSON each. At the end of stdin it kills the processes that it has forked, and ends.
"""

import atexit
import gc
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import uvicorn
from forks import Forked
from prometheus_client import values
from uvicorn.supervisors.multiprocess import SIGNALS


class ForkedProcess(Forked):
    """Has the methods of `subprocess.Popen` that tests of the service need."""

    def __init__(self, command: list[str], environment: dict[str, str], stderr: Path) -> None:
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.args = command
        self.pid = _ask(
            {
                "start": command,
                "environment": environment,
                "stderr": str(stderr),
                "folder": str(Path.cwd()),
                "open_files": limits,
            }
        )

    def ask(self, request: dict[str, Any]) -> Any:
        return _ask(request)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


@cache
def _parent() -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin
    atexit.register(process.wait)
    atexit.register(process.stdin.close)  # is called first
    return process


def _ask(request: dict[str, Any]) -> Any:
    parent = _parent()
    assert parent.stdin
    assert parent.stdout
    print(json.dumps(request), file=parent.stdin, flush=True)
    return json.loads(parent.stdout.readline())


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


def _run(request: dict[str, Any]) -> None:
    """Becomes the requested process."""
    from calcgpt.cli import cli

    uvicorn._subprocess.spawn = SimpleNamespace(Process=_forked_worker)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    resource.setrlimit(resource.RLIMIT_NOFILE, request["open_files"])
    with Path(os.devnull).open("r+b") as nothing, Path(request["stderr"]).open("wb") as stderr:
        for file, number in ((nothing, 0), (nothing, 1), (stderr, 2)):
            os.dup2(file.fileno(), number)
    cli.main(args=request["start"], prog_name="calcgpt")


def _main() -> None:
    gc.disable()
    import torch  # noqa: F401

    import calcgpt.inference.cases.decoder  # noqa: F401

    gc.freeze()  # a collection in a new process would copy all memory
    gc.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a person interrupts the tests
    running: set[int] = set()
    for line in sys.stdin:
        request = json.loads(line)
        answer: int | None
        if "start" in request:
            answer = os.fork()
            if answer == 0:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                return _run(request)
            running.add(answer)
        else:
            pid, status = os.waitpid(request["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
            running.discard(pid)
        print(json.dumps(answer), flush=True)
    for pid in running:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    _main()
