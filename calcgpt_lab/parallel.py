"""A map over processes."""

import signal
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

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
    executor: Executor = ThreadPoolExecutor(1) if workers == 1 else _Processes(workers)
    pending: deque[Future[Result]] = deque()
    with executor:
        try:
            for item in items:
                pending.append(executor.submit(function, item))
                if len(pending) > workers + _AHEAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BrokenProcessPool as error:
            reason = "a worker process died, perhaps for lack of memory"
            raise WorkersDiedError(reason) from error
        finally:
            executor.shutdown(cancel_futures=True)


class _Processes(Executor):
    """Up to `count` processes that compute. Each has a pipe of its own, which one thread at a time
    uses.

    When a process ends, its pipe ends too, and the computation raises BrokenProcessPool. The
    processes of `ProcessPoolExecutor` share a pipe: if one of them is killed while it writes a
    result, their parent waits forever for the rest of it.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._threads = ThreadPoolExecutor(count)
        self._started: list[tuple[SpawnProcess, Connection]] = []
        self._idle: SimpleQueue[Connection] = SimpleQueue()

    def submit(
        self, function: Callable[..., Result], /, *args: Any, **kwargs: Any
    ) -> Future[Result]:
        if self._idle.empty() and len(self._started) < self._count:
            self._start()
        return self._threads.submit(self._compute, function, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the processes, always after the computations that have begun."""
        self._threads.shutdown(cancel_futures=cancel_futures)
        while self._started:
            process, connection = self._started.pop()
            with connection, suppress(OSError):  # the process has ended
                connection.send(None)
            process.join()

    def _start(self) -> None:
        # Forked processes would inherit the locks of our threads; spawned ones start clean.
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        with theirs:  # only the process keeps it, so it ends with the process
            process = context.Process(target=_compute_for, args=(theirs, list(files)), daemon=True)
            process.start()
        self._started.append((process, ours))
        self._idle.put(ours)

    def _compute(
        self, function: Callable[..., Result], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Result:
        connection = self._idle.get()
        try:
            connection.send((function, args, kwargs))
            result, error = connection.recv()
        except (EOFError, OSError) as ended:
            raise BrokenProcessPool("a process has ended") from ended
        finally:
            self._idle.put(connection)
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]


def _compute_for(connection: Connection, plugins: Sequence[Path]) -> None:
    """Computes what the parent process asks, until it sends None. Runs its plug-ins first, and
    leaves interrupts to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    for path in plugins:
        run_file(path)
    with suppress(EOFError, OSError):  # the parent has been killed
        while request := connection.recv():
            function, args, kwargs = request
            answer: tuple[object, Exception | None]
            try:
                answer = function(*args, **kwargs), None
            except Exception as error:
                answer = None, error
            connection.send(answer)
