"""No client keeps others waiting: which work is admitted, and which is next."""

import asyncio
import math
from contextlib import ExitStack, suppress
from itertools import pairwise

import pytest
from fake_decoder import FakeDecoder, notation_checkpoint
from forks import PATIENCE
from hypothesis import given
from hypothesis import strategies as st

from api.fairness import Admission, FairQueue, Turns
from api.groups import Job
from api.problems import ProblemError
from api.telemetry import Metrics

LIMIT = 100
DECODER = FakeDecoder(notation_checkpoint().tokenizer, lambda ids: None)


def job(client: str, n: int = 1) -> Job:
    return Job("fake", DECODER, [1], 0, client=client, n_characters=n)  # type: ignore[arg-type]


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


def drain(queue: FairQueue[Job]) -> list[Job]:
    """The jobs of a queue in the order in which they are taken."""
    taken = []
    while first := next(iter(queue), None):
        queue.take(first)
        taken.append(first)
    return taken


def test_the_first_job_of_a_client_passes_the_many_of_another() -> None:
    queue: FairQueue[Job] = FairQueue()
    many = [job("many") for _ in range(500)]
    for one in many:
        queue.add(one)
    queue.take(many[0])
    queue.take(many[300])  # of the same kind, to fill a batch
    queue.add(other := job("other"))
    assert drain(queue).index(other) <= 1


def test_clients_get_as_many_characters_as_each_other() -> None:
    """A client with work ten times as long, or whose characters are reported, gets fewer turns."""
    queue: FairQueue[Job] = FairQueue()
    for _ in range(60):
        queue.add(job("short", 10))
        queue.add(job("long", 100))
        watched = job("watched", 10)
        watched.on_token = lambda token, probability: None
        queue.add(watched)
    order = [one.client for one in drain(queue)][:60]
    assert order.count("short") > 2 * order.count("watched") > 4 * order.count("long") > 0


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9)), max_size=30))
def test_the_jobs_of_a_client_keep_their_order(added: list[tuple[str, int]]) -> None:
    queue: FairQueue[Job] = FairQueue()
    jobs = [job(client, n) for client, n in added]
    for one in jobs:
        queue.add(one)
    taken = drain(queue)
    assert set(taken) == set(jobs)
    for client in "abc":
        places = [jobs.index(one) for one in taken if one.client == client]
        assert all(a < b for a, b in pairwise(places))


def test_turns_are_taken_by_clients_and_one_that_is_gone_takes_none() -> None:
    begun: list[str] = []
    most = 0

    async def main() -> None:
        turns, n_now, end = Turns(2), 0, asyncio.Event()

        async def work(name: str) -> None:
            nonlocal n_now, most
            async with turns.take(name[:4], 1, math.inf):
                begun.append(name)
                n_now += 1
                most = max(most, n_now)
                try:
                    await end.wait()
                finally:
                    n_now -= 1

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
        async with (
            turns.take("last", 1, math.inf),
            turns.take("last", 1, math.inf),
        ):  # both are free again
            begun.append("last")

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert most == 2
    assert begun.index("some") <= 3
    assert sorted(begun) == sorted({*(f"many{n}" for n in range(9)), "some", "last"} - {"many2"})
