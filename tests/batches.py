"""Jobs that the batcher of the service takes together, however slow the machine is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from forks import PATIENCE

from api.batching import Batcher
from api.groups import Job


async def complete_together(batcher: Batcher, jobs: Sequence[Job]) -> None:
    """Completes jobs all of which wait before the model's thread takes the first."""
    begun, may_end = threading.Event(), threading.Event()

    def keep_busy() -> None:
        begun.set()
        assert may_end.wait(PATIENCE)

    busy = asyncio.create_task(batcher.call(keep_busy))
    await asyncio.to_thread(begun.wait, PATIENCE)
    tasks = [asyncio.create_task(batcher.complete(job)) for job in jobs]
    await asyncio.sleep(0)  # they are waiting now
    may_end.set()
    await asyncio.gather(busy, *tasks)
