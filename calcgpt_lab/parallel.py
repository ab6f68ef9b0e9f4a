"""A map over local processes or a Ray cluster."""

import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import redirect_stdout, suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from queue import SimpleQueue
from types import ModuleType
from typing import Any, Protocol, TypeVar

from calcgpt.base.errors import DataError, unknown_name
from calcgpt.base.extras import require
from calcgpt.base.plugins import files, run_file
from calcgpt.base.processes import end_with_parent
from calcgpt_lab.ray_cluster import connected, first_line

MAX_WORKERS = 256
_AHEAD = 6  # results that may wait for the caller, beyond one for each worker: 15 MB

Item = TypeVar("Item")
Result = TypeVar("Result")


class WorkersDiedError(DataError):
    """Workers have died. The results that they returned before are right."""


class Map(Protocol):
    """Yields `function(item)` for each item, in order, a few results ahead of its caller. Close the
    generator if you leave it early.

    Raises what `function` raises, and WorkersDiedError if the workers die.
    """

    def __call__(
        self, function: Callable[[Item], Result], items: Sequence[Item], /
    ) -> Generator[Result, None, None]: ...


def make_map(
    engine: str = "local",
    workers: int | None = None,
    address: str | None = None,
    packages: Sequence[ModuleType] = (),
) -> Map:
    """Returns the map of an engine: `local` or `ray`.

    `workers` is the number of parallel computations. The engine `local` runs them in processes, by
    default in one thread of this process. The engine `ray`, if it starts Ray on this machine, runs
    them on CPUs, by default on all. `address` is that of a running Ray cluster, which gets the code
    of `packages`. Raises DataError for options that do not fit together, and UserError if Ray is
    not installed.
    """
    if engine not in ("local", "ray"):
        raise DataError(unknown_name("engine", engine, ("local", "ray")))
    if workers is not None and not 1 <= workers <= MAX_WORKERS:
        raise DataError(f"workers must be from 1 to {MAX_WORKERS}, not {workers}")
    if address is not None and engine == "local":
        raise DataError("the engine 'local' has no address: that is for 'ray'")
    if address is not None and workers is not None:
        raise DataError("no workers with an address: a running Ray cluster has its own")
    if engine == "local":
        return partial(_map_locally, workers=workers or 1)
    require("--engine ray", "ray")
    return partial(_map_on_ray, workers=workers, address=address, packages=packages)


def _map_locally(
    function: Callable[[Item], Result], items: Sequence[Item], *, workers: int
) -> Generator[Result, None, None]:
    """Computes in `workers` processes. With 1, computes in a thread: NumPy releases the GIL."""
    workers = max(1, min(workers, len(items)))
    executor: Executor = ThreadPoolExecutor(1) if workers == 1 else _Processes(workers)
    with executor:
        try:
            yield from _ahead(lambda x: executor.submit(function, x).result, items, workers)
        except BrokenProcessPool as error:
            reason = "a worker process died, perhaps for lack of memory"
            raise WorkersDiedError(reason) from error
        finally:
            executor.shutdown(cancel_futures=True)


def _map_on_ray(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    workers: int | None,
    address: str | None,
    packages: Sequence[ModuleType],
) -> Generator[Result, None, None]:
    """Computes on the cluster at `address`, or on `workers` CPUs of this machine.

    Ray repeats a lost task a few times before it raises an error. Standard output is discarded
    meanwhile.
    """
    with (
        # Ray prints about processes that die, whatever its options say.
        Path(os.devnull).open("w") as devnull,
        redirect_stdout(devnull),
        # The cluster gets exactly these packages, so that the bytes are the same everywhere.
        connected(address, workers, runtime_env={"py_modules": [*packages]}) as ray,
    ):
        cpus = int(ray.cluster_resources().get("CPU", 1))
        reference = ray.put(function)  # sent once, with all that it refers to
        task = ray.remote(lambda function, x: function(x))
        try:
            yield from _ahead(lambda x: partial(ray.get, task.remote(reference, x)), items, cpus)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None  # the error that the function raised
        except ray.exceptions.RayError as error:
            raise WorkersDiedError(f"Ray failed: {first_line(error).rstrip('.')}") from error


def _ahead(
    start: Callable[[Item], Callable[[], Result]], items: Sequence[Item], workers: int
) -> Generator[Result, None, None]:
    """Yields the results in order. `start` begins a computation and returns what waits for it."""
    pending: deque[Callable[[], Result]] = deque()
    for item in items:
        pending.append(start(item))
        if len(pending) > workers + _AHEAD:
            yield pending.popleft()()
    while pending:
        yield pending.popleft()()


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
