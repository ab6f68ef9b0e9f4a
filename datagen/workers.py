"""Results computed ahead of their use, in order, by a thread or by several processes.

Results computed ahead of their use, in order, by the tasks of a Ray cluster.

Who computes the blocks of a training file: engines by name.
"""

import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import redirect_stdout
from functools import partial
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import TypeVar

import datagen
from datagen.errors import DataError
from datagen.plan import Shard
from datagen.ray_cluster import connected, first_line

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
    """Leave interrupts to the parent, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


def end_with_parent() -> None:
    """Send this process SIGTERM once its parent has ended, even if the parent was killed.

    Call it in a process that `multiprocessing` has started. In any other it does nothing.
    """
    parent = parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def in_order_on_ray(
    function: Callable[[Argument], Result],
    arguments: Iterable[Argument],
    address: str | None,
    cpus: int | None,
) -> Generator[Result, None, None]:
    """`function` of each argument, in their order, at most a few results ahead of the caller.

    It runs on the cluster at `address`, or on this machine alone, on `cpus` CPUs, or all. Ray
    computes anew what is lost, a few times; after that it is a DataError. UserError where there
    is no Ray. To be closed if not exhausted. Nothing may be printed meanwhile.
    """
    with (
        # Ray prints, whatever one asks of it, its thoughts about processes that die.
        Path(os.devnull).open("w") as nowhere,
        redirect_stdout(nowhere),
        # Its processes work with this very package, whatever a machine has installed: the bytes are
        # the same everywhere.
        connected(address, cpus, runtime_env={"py_modules": [datagen]}) as ray,
    ):
        workers = int(ray.cluster_resources().get("CPU", 1))
        task = ray.remote(lambda of: function(of))  # it takes no partial functions
        try:
            yield from ahead(lambda of: partial(ray.get, task.remote(of)), arguments, workers)
        except ray.exceptions.RayTaskError as error:
            raise error.cause from None  # what the function raised
        except ray.exceptions.RayError as error:
            reason = first_line(error)
            raise DataError(f"Ray failed: {reason} The same call continues") from error


MAX_WORKERS = 256

# What makes a shard of a block's number, and the numbers -> the shards, in that order.
Compute = Callable[[Callable[[int], Shard], range], Generator[Shard, None, None]]


def engine(name: str, workers: int | None = None, address: str | None = None) -> Compute:
    """What computes with that engine. DataError, in one line, for what it cannot be given."""
    if name not in ENGINES:
        known = ", ".join(sorted(ENGINES))
        raise DataError(f"unknown engine {name!r}: choose one of {known}")
    if workers is not None and not 1 <= workers <= MAX_WORKERS:
        raise DataError(f"workers must be from 1 to {MAX_WORKERS}, not {workers}")
    return ENGINES[name](workers, address)


def local(workers: int | None, address: str | None) -> Compute:
    """This process alone, or so many others."""
    if address is not None:
        raise DataError("the engine 'local' has no address: that is for 'ray'")
    return lambda function, blocks: in_order(function, blocks, min(workers or 1, len(blocks)))


def ray(workers: int | None, address: str | None) -> Compute:
    """The Ray cluster at an address, or one for this alone, with so many CPUs of this machine."""
    if workers is not None and address is not None:
        raise DataError("how many work on a Ray cluster is the cluster's affair: no workers")
    return partial(in_order_on_ray, address=address, cpus=workers)


# By name: (workers, address), each None where it is not given -> what computes with them.
ENGINES: dict[str, Callable[[int | None, str | None], Compute]] = {"local": local, "ray": ray}
