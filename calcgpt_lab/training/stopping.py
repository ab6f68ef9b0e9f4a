"""How SIGINT and SIGTERM stop a run: between two steps, or within a validation."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupted(Exception):
    """A signal ended the run after its state was saved."""

    def __init__(self, signum: int, step: int) -> None:
        super().__init__(f"stopped after step {step}, which is saved; --resume continues")
        self.signum = signum


class _WorkInterrupted(BaseException):
    """A signal ends `StopRequest.run_interruptible`. It is a BaseException so that
    `except Exception` does not catch it."""


class StopRequest:
    """The signal that asked a run to stop."""

    signum = 0  # the first signal; 0 if there was none
    _cuts = False

    def receive(self, signum: int) -> None:
        """Notes a signal. The first one ends `run_interruptible`."""
        is_first = not self.signum
        self.signum = self.signum or signum
        if is_first and self._cuts:
            raise _WorkInterrupted

    def run_interruptible(self, work: Callable[[], T]) -> T | None:
        """Returns what `work` returns, or None if a signal came before it or ends it. The work must
        not change anything that is needed later, because it can end at any point."""
        try:
            self._cuts = True
            return None if self.signum else work()
        except _WorkInterrupted:
            return None
        finally:
            self._cuts = False


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Within the block, SIGINT and SIGTERM set the request instead of ending the process. A second
    signal of the same kind has its usual effect."""
    request = StopRequest()
    handlers: dict[int, Any] = {}

    def receive(signum: int, frame: FrameType | None) -> None:
        signal.signal(signum, handlers[signum])
        request.receive(signum)

    for stop_signal in (signal.SIGINT, signal.SIGTERM):
        try:
            handlers[stop_signal] = signal.signal(stop_signal, receive)
        except ValueError:  # only the main thread can handle signals
            break
    try:
        yield request
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
