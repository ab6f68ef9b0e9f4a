"""SIGINT and SIGTERM as requests to stop, to be looked at where stopping does no harm."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupted(Exception):
    """A signal ended the run; what was done is saved."""

    def __init__(self, signum: int, step: int) -> None:
        super().__init__(f"stopped after step {step}, which is saved; --resume continues")
        self.signum = signum


class StopRequest:
    """What was asked for so far."""

    signum = 0  # the signal that came first; 0: none


@contextmanager
def stop_requests(insistent: bool) -> Iterator[StopRequest]:
    """Signals are noted meanwhile, instead of ending the process. With `insistent`, a second one of
    the kind takes the old way out; a launcher may well send the same one twice."""
    request = StopRequest()
    old: dict[int, Any] = {}

    def receive(signum: int, frame: FrameType | None) -> None:
        request.signum = request.signum or signum
        if insistent:
            signal.signal(signum, old[signum])

    for wanted in (signal.SIGINT, signal.SIGTERM):
        try:
            old[wanted] = signal.signal(wanted, receive)
        except ValueError:  # not the main thread: signals are somebody else's
            break
    try:
        yield request
    finally:
        for signum, handler in old.items():
            signal.signal(signum, handler)
