"""A map over processes."""

import signal
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import local
from typing import TypeVar

from calcgpt.base.errors import DataError, check_integer
from calcgpt.base.plugins import files, run_file
from calcgpt.base.processes import end_with_parent

MAX_WORKERS = 256
_AHEAD = 6  # results that may wait for the caller, beyond one for each worker: 15 MB

Item = TypeVar("Item")
Result = TypeVar("Result")


class WorkersDiedError(DataError):
    """Workers have died. The results that they returned before are right."""


def parallel_map(
    function: Callable[[Item], Result], items: Sequence[Item], workers: int = 1
) -> Generator[Result, None, None]:
    """Returns a generator of `function(item)` for each item, in order, which computes a few results
    ahead of its caller. Close it if you leave it early.

    `workers` processes compute. With 1, a thread of this process does: NumPy releases the GIL.
    Raises ArgumentError for another number than 1 to MAX_WORKERS. The generator raises what
    `function` raises, and WorkersDiedError if a process dies.
    """
    check_integer("workers", workers, 1, MAX_WORKERS)
    return _computed(function, items, max(1, min(workers, len(items))))


def _computed(
    function: Callable[[Item], Result], items: Sequence[Item], workers: int
) -> Generator[Result, None, None]:
    own, started = local(), list[_Process]()

    def compute(item: Item) -> Result:
        if workers == 1:
            return function(item)
        if not hasattr(own, "process"):  # here, so that the caller is told why it cannot start
            own.process = _Process()
            started.append(own.process)
        return own.process.compute(function, item)  # type: ignore[no-any-return]

    pending: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers) as threads:
        try:
            for item in items:
                pending.append(threads.submit(compute, item))
                if len(pending) > workers + _AHEAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            threads.shutdown(cancel_futures=True)  # after what has begun
            for process in started:
                process.end()


class _Process:
    """A process that computes for one thread, with a pipe of its own.

    When it dies, its pipe ends too. The processes of `ProcessPoolExecutor` share a pipe: if one of
    them is killed while it writes a result, their parent waits forever for the rest of it.
    """

    def __init__(self) -> None:
        # Forked processes would inherit the locks of our threads; spawned ones start clean.
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        with theirs:  # only the process keeps it, so it ends with the process
            self._process = context.Process(
                target=_compute_for, args=(theirs, list(files)), daemon=True
            )
            self._process.start()

    def compute(self, function: Callable[[Item], Result], item: Item) -> Result:
        """Returns `function(item)`. Raises what it raises, and WorkersDiedError."""
        try:
            self._pipe.send((function, item))
            result, error = self._pipe.recv()
        except (EOFError, OSError) as ended:
            reason = "a worker process died, perhaps for lack of memory"
            raise WorkersDiedError(reason) from ended
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    def end(self) -> None:
        with self._pipe, suppress(OSError):  # it has died
            self._pipe.send(None)
        self._process.join()


def _compute_for(pipe: Connection, plugins: Sequence[Path]) -> None:
    """Computes what the parent process asks, until it sends None. Runs its plug-ins first, and
    leaves interrupts to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    for path in plugins:
        run_file(path)
    with suppress(EOFError, OSError):  # the parent has been killed
        while request := pipe.recv():
            function, item = request
            answer: tuple[object, Exception | None]
            try:
                answer = function(item), None
            except Exception as error:
                answer = None, error
            pipe.send(answer)
