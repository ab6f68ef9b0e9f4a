"""Finds the functions that block an event loop.

A callback blocks the loop if it takes more CPU time of the loop's thread than a limit. So other
processes of a busy machine do not matter. On a machine that is several times as slow as usual, the
limit is as many times as high. While a callback is over the limit, a second thread notes
which function runs.
"""

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

LOOK_SECONDS = 0.002
USUAL_SECONDS = 0.02  # of CPU time for `_work`, or less, on the machines of the tests
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Stall:
    """The seconds of CPU time that a callback took, and the function of this project it was in."""

    seconds: float
    where: str


class Watchdog:
    """Measures the callbacks of one thread's event loop."""

    def __init__(self, limit: float) -> None:
        self._usual_limit = limit
        self.stalls: list[Stall] = []
        self._thread: int | None = None
        self._began: float | None = None
        self.seen: str | None = None  # where the callback that runs now went over the limit
        self.begin()

    def begin(self) -> None:
        """Forgets the stalls so far, and measures how slow the machine is now."""
        self.limit = self._usual_limit * _slowness()
        self.stalls.clear()

    def watch_this_thread(self) -> None:
        self._thread = threading.get_ident()

    def call(self, run: Callable[[], None], handle: asyncio.Handle) -> None:
        """Runs a callback and measures it, if it is one of the thread's."""
        if threading.get_ident() != self._thread:
            return run()
        self.seen, self._began = None, time.thread_time()
        try:
            run()
        finally:
            seconds, self._began = time.thread_time() - self._began, None
            if seconds > self.limit:
                self.stalls.append(Stall(seconds, self.seen or _name(handle)))

    def look(self) -> None:
        """Notes where the loop is, if its callback is over the limit."""
        began, thread = self._began, self._thread
        if began is None or thread is None or self.seen:
            return
        now = time.clock_gettime(time.pthread_getcpuclockid(thread))
        if now - began > self.limit and self._began == began:
            self.seen = _innermost(sys._current_frames().get(thread))


def _is_ours(frame: FrameType) -> bool:
    path = Path(frame.f_code.co_filename)
    return path.is_relative_to(ROOT) and ".venv" not in path.parts


def _innermost(frame: FrameType | None) -> str | None:
    """Returns the innermost function of this project, and the function that it has called."""
    inner = frame
    while frame and not _is_ours(frame):
        frame = frame.f_back
    if not (frame and inner):
        return inner and f"{inner.f_code.co_filename}: {inner.f_code.co_qualname}"
    name = f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_qualname}"
    return name if frame is inner else f"{name}, in {inner.f_code.co_qualname}"


def _name(handle: asyncio.Handle) -> str:
    callback: Any = handle._callback  # type: ignore[attr-defined]
    task = getattr(callback, "__self__", None)
    return repr(task.get_coro() if isinstance(task, asyncio.Task) else callback)


def _work() -> int:
    return sum(index * index for index in range(300_000))


def _slowness() -> float:
    """Returns how many times the usual CPU time this machine takes now, at least 1."""
    began = time.thread_time()
    _work()
    return max(1.0, (time.thread_time() - began) / USUAL_SECONDS)


@contextmanager
def watchdog(limit: float = 0.02) -> Iterator[Watchdog]:
    """Watches the event loop whose thread calls `watch_this_thread`."""
    dog, ended = Watchdog(limit), threading.Event()
    run = asyncio.Handle._run  # type: ignore[attr-defined]

    def patrol() -> None:
        while not ended.wait(LOOK_SECONDS):
            dog.look()

    thread = threading.Thread(target=patrol, name="watchdog")
    gc.collect()
    gc.freeze()  # the collector skips the objects of the test runner: a service has none
    asyncio.Handle._run = lambda self: dog.call(lambda: run(self), self)  # type: ignore[attr-defined]
    thread.start()
    try:
        yield dog
    finally:
        ended.set()
        thread.join()
        asyncio.Handle._run = run  # type: ignore[attr-defined]
