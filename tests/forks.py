"""Python processes, forked from a parent that has made their imports, which take seconds.

`Popen` and `run` are like those of `subprocess`, for commands that begin with `sys.executable`.
They start a process like any other: it has separate standard streams, it gets signals, and it can
be killed. Only its imports are made before it starts.

As a program, this file is the parent. It reads requests from a socket. When the other end of the
socket is closed, the parent kills all processes that still run, and ends.
"""

import atexit
import contextlib
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

from waiting import PATIENCE

MESSAGE = 2**20  # bytes
RAY = ("ray.tune.search.optuna", "calcgpt_lab.studies.sweep")
TRAINING = ("calcgpt_lab.studies.ablate",)


class Forked:
    """A process that a parent has forked. `ask` asks the parent for the exit code."""

    args: list[str]
    pid: int
    returncode: int | None = None

    def ask(self, request: dict[str, Any]) -> Any:
        raise NotImplementedError

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self.ask({"poll": self.pid})
        return self.returncode

    def wait(self, timeout: float = PATIENCE) -> int:
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(self.args, timeout)
            time.sleep(0.01)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Popen(Forked):
    """A process that has imported the modules of `preload`. Its standard streams are `files` if
    given, else pipes. Has the methods of `subprocess.Popen` that the tests need."""

    def __init__(
        self,
        command: Sequence[str | Path],
        preload: Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        start_new_session: bool = False,
        files: Sequence[int] | None = None,
    ) -> None:
        assert command[0] == sys.executable
        self.args = [str(word) for word in command]
        pipes = [] if files else [os.pipe() for _ in range(3)]
        if pipes:
            (stdin, self_stdin), (self_stdout, stdout), (self_stderr, stderr) = pipes
            self.stdin = open(self_stdin, "w")  # noqa: PTH123, SIM115
            self.stdout, self.stderr = open(self_stdout), open(self_stderr)  # noqa: PTH123, SIM115
            files = stdin, stdout, stderr
        request = {
            "command": self.args[1:],
            "preload": preload,
            "environment": dict(os.environ if env is None else env),
            "folder": str(cwd or Path.cwd()),
            "new_session": start_new_session,
        }
        self.pid = _ask(request, files or ())
        if pipes:
            for file in files or ():
                os.close(file)

    def ask(self, request: dict[str, Any]) -> Any:
        return _ask(request)

    def communicate(self, timeout: float = PATIENCE) -> tuple[str, str]:
        """Closes the standard input, waits for the end, and returns what was written."""
        self.stdin.close()
        with self.stdout, self.stderr, ThreadPoolExecutor(2) as executor:
            futures = [executor.submit(file.read) for file in (self.stdout, self.stderr)]
            try:
                out, err = [future.result(timeout) for future in futures]
            except TimeoutError:
                self._kill_all()  # or the pipes stay open
                raise
        self.wait(timeout)
        return out, err

    def _kill_all(self) -> None:
        """Kills the process and all that it has started."""
        import psutil

        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.pid).children(recursive=True):
                child.kill()
        self.kill()


def run(
    command: Sequence[str | Path], preload: Sequence[str], timeout: float = PATIENCE, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Runs a command and captures its output."""
    process = Popen(command, preload, **options)
    out, err = process.communicate(timeout)
    return subprocess.CompletedProcess(process.args, process.wait(0), out, err)


def die_halfway(n_bytes: int) -> bytes:
    """Work for a process of multiprocessing: it is killed when it has written half of its result to
    its parent."""

    def send_half(self: Connection, buffer: bytes) -> None:
        os.write(self.fileno(), buffer[: len(buffer) // 2])
        os.kill(os.getpid(), signal.SIGKILL)

    Connection._send = send_half  # type: ignore[method-assign, assignment]
    return bytes(n_bytes)


@cache
def _connection() -> socket.socket:
    ours, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, other):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE)
    with other:
        process = subprocess.Popen(
            [sys.executable, __file__, str(other.fileno())],
            pass_fds=[other.fileno()],
            stdin=subprocess.DEVNULL,
        )
    atexit.register(process.wait)
    atexit.register(ours.close)  # is called first
    return ours


def _ask(request: dict[str, Any], files: Sequence[int] = ()) -> Any:
    message = json.dumps(request).encode()
    socket.send_fds(_connection(), [message], files)
    return json.loads(_connection().recv(MESSAGE))


def run_here(request: dict[str, Any], files: Sequence[int] = ()) -> int:
    """Becomes the requested process. Returns its exit code."""
    try:
        _become(request, files)
    except SystemExit as stop:
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


def _become(request: dict[str, Any], files: Sequence[int]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    if request["new_session"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    kind, *words = request["command"]
    if kind == "-c":
        code, *words = words
        sys.argv = ["-c", *words]
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(code, "<string>", "exec"), main.__dict__)
    elif kind == "-m":
        name, *words = words
        sys.argv = [name, *words]
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        sys.argv = [kind, *words]
        sys.path.insert(0, str(Path(kind).parent))
        runpy.run_path(kind, run_name="__main__")


def _serve(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Answers requests. In a new process, returns the request, and the files, of that process."""
    running: set[int] = set()
    while True:
        message, files, _, _ = socket.recv_fds(connection, MESSAGE, 3)
        if not message:
            break
        request = json.loads(message)
        answer: int | None
        if "command" in request:
            gc.disable()
            for name in request["preload"]:
                import_module(name)
            gc.freeze()  # a collection would copy all memory
            gc.enable()
            answer = os.fork()
            if answer == 0:
                connection.close()
                return request, files
            running.add(answer)
            for file in files:
                os.close(file)
        else:
            pid, status = os.waitpid(request["poll"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
            running.discard(pid)
        connection.send(json.dumps(answer).encode())
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return None


def _end_quickly(codes: list[int]) -> None:
    """Ends this process without freeing its memory first."""
    if codes:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(codes[0])


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a person interrupts the tests
    codes: list[int] = []
    atexit.register(_end_quickly, codes)  # after all other functions
    if new := _serve(socket.socket(fileno=int(sys.argv[1]))):
        codes.append(run_here(*new))
