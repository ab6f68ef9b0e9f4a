"""Jobs that the batcher of the service takes together, however slow the machine is."""

import asyncio
import threading
from collections.abc import Sequence

from forks import PATIENCE

from api.batching import Batcher
from api.groups import Job


async def complete_together(batcher: Batcher, jobs: Sequence[Job]) -> None:
    """Completes jobs all of which wait before the model's thread takes the first."""
    begun, may_end = threading.Event(), threading.Event()

    class Busy:
        config = jobs[0].decoder.config

        def __call__(self, *arguments: object) -> None:
            """Makes it a decoder."""

        def new_array_cache(self, batch: int, n_token: int) -> None:
            begun.set()
            assert may_end.wait(PATIENCE)
            raise RuntimeError("the busy job ends")

    busy = asyncio.create_task(batcher.complete(Job("busy", Busy(), [1], 0)))  # type: ignore[arg-type]
    await asyncio.to_thread(begun.wait, PATIENCE)
    tasks = [asyncio.create_task(batcher.complete(job)) for job in jobs]
    await asyncio.sleep(0)  # they are waiting now
    may_end.set()
    await asyncio.wait([busy])
    assert isinstance(busy.exception(), RuntimeError)
    await asyncio.gather(*tasks)
