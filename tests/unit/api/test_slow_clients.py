"""What is kept of responses for clients that read slowly, in bounds."""

import asyncio

import pytest
from asgi import request, silent
from forks import PATIENCE
from starlette.responses import Response
from starlette.types import Message

from api.middleware import RequestLog
from api.slow_clients import GivenUpError, Kept, Producer, SlowClients, Write
from api.telemetry import Metrics

LIMIT = 10_000


def events(*pieces: bytes) -> Producer:
    """Returns what writes these pieces."""

    async def produce(write: Write) -> None:
        for piece in pieces:
            write(piece)

    return produce


async def test_the_response_of_which_most_is_unread_is_given_up() -> None:
    given_up: list[bool] = []
    slow = SlowClients(on_given_up=lambda: given_up.append(True), max_unread=LIMIT)
    unread = slow.unread

    async def read_nothing(*pieces: bytes) -> bytes:
        async with unread.wait() as outbox:
            await outbox.fill(events(*pieces))
            await asyncio.Event().wait()
        raise AssertionError

    others = [asyncio.create_task(read_nothing(bytes(n))) for n in (1_000, 5_000, 2_000)]
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE), unread.wait() as quick:
        for _ in range(100):  # what is read takes no room
            await quick.fill(events(bytes(LIMIT // 10)))
            assert len(await quick.take()) == LIMIT // 10
        assert not given_up
        await quick.fill(events(bytes(2_001)))
        await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
        assert [task.done() for task in others] == [False, True, False]
        assert isinstance(others[1].exception(), GivenUpError)
    for task in others:
        task.cancel()
    assert given_up == [True]


async def test_what_is_given_up_does_not_end_like_a_whole_response() -> None:
    async with SlowClients(max_unread=LIMIT).unread.wait() as outbox:
        await outbox.fill(events(bytes(LIMIT + 1)))
        with pytest.raises(GivenUpError):
            await outbox.take()


async def test_what_is_given_up_as_its_time_ends_disturbs_nobody() -> None:
    room, waiting = SlowClients().waiting, list[Kept]()

    async def wait() -> None:
        async with room.wait(0) as kept:
            waiting.append(kept)
            await asyncio.Event().wait()

    task = asyncio.create_task(wait())
    while not (waiting and waiting[0]._timeout.expired()):
        await asyncio.sleep(0)
    waiting[0].give_up()
    with pytest.raises(GivenUpError):
        await task


@pytest.mark.parametrize(("is_file", "n_given_up"), [(False, 1), (True, 0)])
async def test_long_responses_count_unless_they_are_files(is_file: bool, n_given_up: int) -> None:
    """All who ask for a file get the same bytes."""
    given_up: list[bool] = []
    slow = SlowClients(on_given_up=lambda: given_up.append(True), max_unread=LIMIT)
    headers = {"ETag": '"tag"'} if is_file else {}
    app = RequestLog(Response(bytes(LIMIT * 3 // 4), headers=headers), Metrics(), slow)

    async def never(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(app(request(), silent, never)) for _ in range(2)]
    done, others = await asyncio.wait(tasks, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == n_given_up
    for task in others:
        task.cancel()
    assert len(given_up) == n_given_up
