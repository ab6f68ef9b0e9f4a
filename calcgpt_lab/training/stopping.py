"""How SIGINT and SIGTERM stop a run: after the step, or the validation, that they come in."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupted(Exception):
    """A signal ended the run after its state was saved."""

    def __init__(self, signum: int, step: int) -> None:
        super().__init__(f"stopped after step {step}, which is saved; --resume continues")
        self.signum = signum


class StopRequest:
    """The signal that asked a run to stop."""

    signum = 0  # the first signal; 0 if there was none


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """Within the block, SIGINT and SIGTERM set the request instead of ending the process. A second
    signal of the same kind has its usual effect."""
    request = StopRequest()
    handlers: dict[int, Any] = {}

    def receive(signum: int, frame: FrameType | None) -> None:
        signal.signal(signum, handlers[signum])
        request.signum = request.signum or signum

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
