"""Results computed ahead of their use, in order, by a thread or by several processes."""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context, parent_process
from typing import TypeVar

_AHEAD = 6  # results that may wait for the caller, beyond one for each worker: 15 MB

Argument = TypeVar("Argument")
Result = TypeVar("Result")


def in_order(
    function: Callable[[Argument], Result], arguments: Iterable[Argument], workers: int
) -> Generator[Result, None, None]:
    """`function` of each argument, in their order, at most a few results ahead of the caller.

    It runs in `workers` processes, or, if that is 1, in a thread of this one: NumPy lets that go
    on while the caller is writing. To be closed if not exhausted. BrokenProcessPool if a process
    dies.
    """
    with _executor(workers) as executor:
        try:
            yield from ahead(lambda of: executor.submit(function, of).result, arguments, workers)
        finally:
            executor.shutdown(cancel_futures=True)


def ahead(
    start: Callable[[Argument], Callable[[], Result]], arguments: Iterable[Argument], workers: int
) -> Generator[Result, None, None]:
    """The results for the arguments, in their order: `start` begins to compute one, and returns
    what waits for it. Begun are as many as there are workers, and a few."""
    pending: deque[Callable[[], Result]] = deque()
    for argument in arguments:
        pending.append(start(argument))
        if len(pending) > workers + _AHEAD:
            yield pending.popleft()()
    while pending:
        yield pending.popleft()()


def _executor(workers: int) -> Executor:
    if workers == 1:
        return ThreadPoolExecutor(1)
    # Forked processes would inherit our threads' locks; spawned ones start clean.
    return ProcessPoolExecutor(workers, get_context("spawn"), _prepare_process)


def _prepare_process() -> None:
    """Leave interrupts to the parent, and never outlive it, even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
