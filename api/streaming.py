"""Work that tells what happens while it is done, as a stream."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from fastapi.responses import StreamingResponse

from api.lifetime import deadline_passed
from api.problems import ProblemError
from api.service import Service

log = logging.getLogger(__name__)

EVENT: dict[str, Any] = {  # the schema of each
    "type": "object",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
    "required": ["data"],
}
Told = TypeVar("Told")
Result = TypeVar("Result")
Work = Callable[[Callable[[Told], None]], Coroutine[Any, Any, Result]]  # is given whom to tell


class EventStream(StreamingResponse):
    """Server-sent events."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], status_code: int = 200) -> None:
        headers = {"X-Accel-Buffering": "no"}  # a proxy must not hold it back
        super().__init__(events, status_code, headers)


async def follow(
    service: Service, work: Work[Told, Result]
) -> AsyncGenerator[Told | Result | ProblemError]:
    """All that the work tells, and last its result, or the problem that it ended in: the status has
    gone out, so nothing is raised. The work has a deadline; closing this early cancels it."""
    end = object()
    happened: asyncio.Queue[Any] = asyncio.Queue()
    seconds = service.settings.deadline
    task = asyncio.create_task(asyncio.wait_for(work(happened.put_nowait), seconds))
    task.add_done_callback(lambda _: happened.put_nowait(end))
    try:
        while (told := await happened.get()) is not end:
            yield told
        yield task.result()
    except ProblemError as error:
        yield error
    except TimeoutError:
        yield deadline_passed(seconds, service.metrics)
    except Exception as error:
        log.error("a stream failed", exc_info=error)
        yield ProblemError(500, "the service has a defect; its log says more")
    finally:
        if not task.done():
            service.metrics.sheds.labels("disconnected").inc()
            task.cancel()
