"""What is kept of responses for clients that read slowly, in bounds."""

import asyncio

import pytest
from asgi import request, silent
from hypothesis import given
from hypothesis import strategies as st
from starlette.responses import Response
from starlette.types import Message
from waiting import PATIENCE

from api.middleware import RequestLog
from api.slow_clients import GivenUpError, Kept, Producer, SlowClients, WaitingRoom, Write
from api.telemetry import Metrics

LIMIT = 10_000
CLIENT = "192.0.2.1"


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
        async with unread.wait(CLIENT) as outbox:
            await outbox.fill(events(*pieces))
            await asyncio.Event().wait()
        raise AssertionError

    others = [asyncio.create_task(read_nothing(bytes(n))) for n in (1_000, 5_000, 2_000)]
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE), unread.wait(CLIENT) as quick:
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


@given(
    others=st.lists(st.tuples(st.integers(0, 3), st.integers(0, LIMIT)), max_size=30),
    largest=st.booleans(),
)
async def test_a_client_who_waits_with_less_than_its_share_is_not_given_up(
    others: list[tuple[int, int]], largest: bool
) -> None:
    """Five clients share the room. One has one request, with a fifth of the bytes."""
    room = WaitingRoom(lambda: None, LIMIT, limit=5, largest=largest)

    async def wait(client: int, n_bytes: int) -> None:
        async with room.wait(f"192.0.2.1{client}") as kept:
            kept.add(bytes(n_bytes))
            await asyncio.Event().wait()

    async with room.wait(CLIENT) as modest:
        modest.add(bytes(LIMIT // 5))
        tasks = [asyncio.create_task(wait(*other)) for other in others]
        await asyncio.sleep(0)
        assert not modest.is_given_up
    for task in tasks:
        task.cancel()


async def test_a_request_for_which_nothing_is_kept_is_not_given_up_for_its_bytes() -> None:
    room = WaitingRoom(lambda: None, LIMIT)
    async with room.wait(CLIENT) as older, room.wait(CLIENT) as body:
        body.add(bytes(LIMIT + 1))
        assert (older.is_given_up, body.is_given_up) == (False, True)


async def test_what_is_given_up_does_not_end_like_a_whole_response() -> None:
    async with SlowClients(max_unread=LIMIT).unread.wait(CLIENT) as outbox:
        await outbox.fill(events(bytes(LIMIT + 1)))
        with pytest.raises(GivenUpError):
            await outbox.take()


async def test_what_is_given_up_as_its_time_ends_disturbs_nobody() -> None:
    room, waiting = SlowClients().waiting, list[Kept]()

    async def wait() -> None:
        async with room.wait(CLIENT, 0) as kept:
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
