"""No client keeps others waiting: which work is admitted, and which is next."""

import asyncio
from contextlib import ExitStack, suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import PATIENCE

from api.fairness import Admission, Shift, Turns
from api.http import ProblemError
from api.telemetry import Metrics

LIMIT = 100


def test_a_client_gets_the_whole_limit_and_leaves_room_for_others() -> None:
    admission = Admission(LIMIT, Metrics())
    with ExitStack() as stack:
        stack.enter_context(admission.enter("greedy", LIMIT))
        with pytest.raises(ProblemError, match="too many requests"):
            admission.require_room("greedy")
        stack.enter_context(admission.enter("other", 1))
        admission.require_room("other")
    admission.require_room("other", LIMIT)
    with pytest.raises(ProblemError, match=r"101 operations; the limit is 100"):
        admission.require_room("new", LIMIT + 1)


@given(asked=st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(1, LIMIT)), max_size=60))
def test_together_clients_get_little_more_than_the_limit(asked: list[tuple[str, int]]) -> None:
    admission, total = Admission(LIMIT, Metrics()), 0
    with ExitStack() as stack:
        for client, n in asked:
            try:
                stack.enter_context(admission.enter(client, n))
            except ProblemError:
                continue
            total += n
        assert total <= LIMIT * 5 / 4
        if total <= LIMIT:
            admission.require_room("new")


async def order_of(asked: list[tuple[str, int]]) -> list[int]:
    """Asks for turns of these clients and costs while another takes the only one. Returns the order
    in which they come, by their indices."""
    turns, order = Turns(1), list[int]()
    await turns.begin("first", 1)

    async def take(index: int, client: str, cost: int) -> None:
        await turns.begin(client, cost)
        order.append(index)
        turns.end()

    tasks = [asyncio.create_task(take(index, *one)) for index, one in enumerate(asked)]
    await asyncio.sleep(0)  # they are waiting now
    turns.end()
    await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)
    return order


async def test_the_first_turn_of_a_client_passes_the_many_of_another() -> None:
    order = await order_of([("many", 1)] * 500 + [("other", 1)])
    assert order.index(500) <= 1


async def test_clients_get_as_many_characters_as_each_other() -> None:
    asked = [("short", 10), ("long", 100)] * 60
    first = [asked[index][0] for index in await order_of(asked)][:60]
    assert first.count("short") > 5 * first.count("long") > 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), max_size=30))
def test_the_turns_of_a_client_keep_their_order(asked: list[tuple[str, int]]) -> None:
    order = asyncio.run(order_of(asked))
    assert sorted(order) == list(range(len(asked)))
    for client in "abc":
        places = [index for index in order if asked[index][0] == client]
        assert all(a < b for a, b in pairwise(places))


async def test_turns_are_limited_and_a_client_that_is_gone_takes_none() -> None:
    turns, end, begun, n_now, most = Turns(2), asyncio.Event(), list[str](), 0, 0

    async def work(name: str) -> None:
        nonlocal n_now, most
        await turns.begin(name[:4], 1)
        begun.append(name)
        n_now += 1
        most = max(most, n_now)
        try:
            await end.wait()
        finally:
            n_now -= 1
            turns.end()

    names = [*(f"many{n}" for n in range(9)), "some"]
    tasks = {name: asyncio.create_task(work(name)) for name in names}
    await asyncio.sleep(0)
    gone = tasks["many1"], tasks["many2"]  # one has its turn, the other waits
    for task in gone:
        task.cancel()
    await asyncio.sleep(0)
    end.set()
    await asyncio.gather(*(task for task in tasks.values() if task not in gone))
    for task in gone:
        with suppress(asyncio.CancelledError):
            await task
    await turns.begin("last", 1)
    await turns.begin("last", 1)  # both are free again
    assert most == 2
    assert begun.index("some") <= 3
    assert sorted(begun) == sorted({*names} - {"many2"})


async def test_a_turn_that_comes_while_its_client_goes_is_another_ones() -> None:
    turns = Turns(1)
    await turns.begin("first", 1)
    waiting = asyncio.create_task(turns.begin("gone", 1))
    await asyncio.sleep(0)
    turns.end()  # the turn is that of the client
    waiting.cancel()  # which is gone before it learns that
    await asyncio.wait([waiting])
    await asyncio.wait_for(turns.begin("last", 1), PATIENCE)


async def test_a_turn_that_does_not_begin_in_time_is_another_ones() -> None:
    turns, soon = Turns(1), asyncio.get_running_loop().time() + 0.01
    await turns.begin("first", 1)
    with pytest.raises(TimeoutError):
        await turns.begin("late", 1, soon)
    turns.end()
    await asyncio.wait_for(turns.begin("last", 1), PATIENCE)


async def test_work_that_is_found_in_a_turn_counts_as_that_of_its_client() -> None:
    turns, order = Turns(1), list[str]()

    async def take(client: str) -> None:
        await turns.begin(client, 1)
        order.append(client)
        turns.end()

    async with Shift(turns, "heavy", 1, size=10) as shift:
        assert not shift.extend(1)  # it is not its turn
        await shift.left()
        assert not shift.extend(11)
        assert shift.extend(9)
        tasks = [asyncio.create_task(take(name)) for name in ("heavy", *["light"] * 9)]
        await asyncio.sleep(0)  # they are waiting now
    await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)
    assert order == [*["light"] * 9, "heavy"]


async def test_long_work_lets_others_take_turns_and_a_light_client_goes_first() -> None:
    turns, ended = Turns(1), list[str]()

    async def work(client: str, n: int) -> None:
        async with Shift(turns, client, n, size=10) as shift:
            for _ in range(n):
                assert await shift.left() > 0
                shift.spend(1)
        ended.append(client)

    heavy = [asyncio.create_task(work("heavy", 100)) for _ in range(5)]
    for _ in range(3):
        await asyncio.sleep(0)
    light = asyncio.create_task(work("light", 30))
    await asyncio.wait_for(asyncio.gather(*heavy, light), PATIENCE)
    assert ended == ["light", *["heavy"] * 5]


async def test_a_pause_gives_the_turn_to_others() -> None:
    turns = Turns(1)
    async with Shift(turns, "slow", 10) as shift:
        await shift.left()
        shift.pause()
        await asyncio.wait_for(turns.begin("other", 1), PATIENCE)
        turns.end()
        await asyncio.wait_for(shift.left(), PATIENCE)
    await asyncio.wait_for(turns.begin("other", 1), PATIENCE)
