"""How long tests wait for an event: as long as a busy machine may take."""

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 300  # seconds; most waits take a few


def wait_for(condition: Callable[[], Any]) -> None:
    """Waits until the condition is true; fails after a long time."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not true within {PATIENCE} s"
        time.sleep(0.02)
