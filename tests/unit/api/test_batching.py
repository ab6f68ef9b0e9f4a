"""Jobs share forward passes, take turns, and leave when they are cancelled."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable
from typing import TypeVar

import pytest
from batches import complete_together
from fake_decoder import FakeDecoder, FakeWriter, completing_decoder, notation_checkpoint, right
from forks import PATIENCE
from serving import wait_for

from api import batching
from api.batching import Batcher
from api.groups import Job
from api.telemetry import Metrics
from calcgpt.checkpoint import Checkpoint
from datagen.notation import ALPHABET

T = TypeVar("T")
CHECKPOINT = notation_checkpoint()
SUM, PRODUCT = "$(0000000001+0000000002)=", "$(0000000003*0000000004)="
LONG = "$3(0000000001+0000000002)="  # one character more: three places


def gated_decoder(kind: type[FakeDecoder] = FakeDecoder) -> FakeDecoder:
    """Returns a decoder that waits until its gate is set."""
    decoder = completing_decoder(CHECKPOINT.tokenizer, right, kind=kind)
    decoder.gate.clear()
    return decoder


def job(decoder: object, prompt: str = SUM, **more: object) -> Job:
    encode = CHECKPOINT.tokenizer.encode
    stop = int(encode(ALPHABET)[0])
    return Job("fake", decoder, encode(prompt).tolist(), stop, **more)  # type: ignore[arg-type]


def text_of(done: Job) -> str:
    return CHECKPOINT.tokenizer.decode(done.completion.ids)


def run(work: Callable[[Batcher], Awaitable[T]], **settings: object) -> T:
    """Returns the result of `work` with a new batcher."""

    async def main() -> T:
        batcher = Batcher(Metrics(), **settings)  # type: ignore[arg-type]
        try:
            return await asyncio.wait_for(work(batcher), PATIENCE)
        finally:
            batcher.close()

    return asyncio.run(main())


def test_jobs_that_wait_together_share_forward_passes() -> None:
    decoder = completing_decoder(CHECKPOINT.tokenizer, right)

    async def work(batcher: Batcher) -> list[Job]:
        jobs = [job(decoder, prompt) for prompt in (SUM, PRODUCT, SUM)]
        await asyncio.gather(*map(batcher.complete, jobs))
        return jobs

    jobs = run(work, wait=10 * PATIENCE, max_batch=3)
    assert [text_of(done) for done in jobs] == ["3000000000$", "2100000000$", "3000000000$"]
    assert decoder.batches == [1, *[3] * 11]  # what the prompts share is read once


def test_after_a_job_that_was_alone_the_next_does_not_wait_for_others() -> None:
    decoder = gated_decoder()

    async def work(batcher: Batcher) -> None:
        pair = [asyncio.create_task(batcher.complete(job(decoder))) for _ in range(2)]
        await asyncio.to_thread(decoder.called.wait)
        alone = asyncio.create_task(batcher.complete(job(decoder)))
        await asyncio.sleep(0)  # it is waiting now
        decoder.gate.set()
        await asyncio.gather(*pair, alone)
        await batcher.complete(job(decoder))

    run(work, max_batch=2, wait=10 * PATIENCE)


@pytest.mark.parametrize("max_batch", [1, 2])
def test_the_rows_of_a_batch_are_limited(max_batch: int) -> None:
    decoder = completing_decoder(CHECKPOINT.tokenizer, right)

    async def work(batcher: Batcher) -> None:
        await complete_together(batcher, [job(decoder) for _ in range(5)])

    run(work, max_batch=max_batch)
    assert max(decoder.batches) == max_batch


@pytest.mark.parametrize(("length", "rows"), [(10, 8), (1_032, 5), (4_000, 1)])
def test_long_texts_count_as_several(length: int, rows: int) -> None:
    decoder = completing_decoder(CHECKPOINT.tokenizer, right, block_size=4_096)

    async def work(batcher: Batcher) -> None:
        jobs = [job(decoder, n_characters=length) for _ in range(8)]
        await complete_together(batcher, jobs)

    run(work)
    assert max(decoder.batches) == rows


def shorter(next_token: Callable[[list[int]], int | None]) -> Callable[[list[int]], int | None]:
    """Makes products end after three tokens."""
    times, equals, stop = CHECKPOINT.tokenizer.encode("*=$").tolist()

    def next_one(ids: list[int]) -> int | None:
        is_short = times in ids and equals in ids and len(ids) - ids.index(equals) >= 3
        return stop if is_short else next_token(ids)

    return next_one


def test_a_client_without_a_group_may_have_one_more() -> None:
    decoder = gated_decoder()
    decoder.next_token = shorter(decoder.next_token)
    finished: list[str] = []

    async def work(batcher: Batcher) -> None:
        async def ask(name: str, new_job: Job) -> None:
            await batcher.complete(new_job)
            finished.append(name)

        asked = [asyncio.create_task(ask("many", job(decoder, client="many")))]
        await asyncio.to_thread(decoder.called.wait)
        for name in ("many", "other"):
            asked.append(asyncio.create_task(ask(name, job(decoder, PRODUCT, client=name))))
        await asyncio.sleep(0)  # they are waiting now
        decoder.gate.set()
        await asyncio.gather(*asked)

    run(work, max_groups=1, max_batch=1)
    assert finished == ["other", "many", "many"]


@pytest.mark.parametrize(("max_groups", "order"), [(2, ["short", "long"]), (1, ["long", "short"])])
def test_groups_take_turns_up_to_their_limit(max_groups: int, order: list[str]) -> None:
    decoder = gated_decoder()
    decoder.next_token = shorter(decoder.next_token)
    finished: list[str] = []

    async def work(batcher: Batcher) -> None:
        async def ask(name: str, new_job: Job) -> None:
            await batcher.complete(new_job)
            finished.append(name)

        long = asyncio.create_task(ask("long", job(decoder)))
        await asyncio.to_thread(decoder.called.wait)
        short = asyncio.create_task(ask("short", job(decoder, PRODUCT)))
        await asyncio.sleep(0)  # it is waiting now
        decoder.gate.set()
        await asyncio.gather(long, short)

    run(work, max_groups=max_groups)
    assert finished == order


def test_a_cancelled_job_frees_its_row() -> None:
    decoder = gated_decoder()

    async def work(batcher: Batcher) -> None:
        stays, goes = job(decoder), job(decoder, PRODUCT)
        tasks = [asyncio.create_task(batcher.complete(item)) for item in (stays, goes)]
        await asyncio.to_thread(decoder.called.wait)
        tasks[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[1]
        decoder.gate.set()
        await tasks[0]
        assert text_of(stays) == "3000000000$"
        assert len(goes.completion.ids) <= 1

    run(work, max_batch=2, wait=0.5)
    assert decoder.batches.count(2) <= 1
    assert decoder.batches[-10:] == [1] * 10


def test_a_job_joins_others_that_have_begun_whatever_its_length() -> None:
    decoder = gated_decoder(FakeWriter)

    async def work(batcher: Batcher) -> None:
        first, second = job(decoder), job(decoder, LONG)
        begun = asyncio.create_task(batcher.complete(first))
        await asyncio.to_thread(decoder.called.wait)
        joining = asyncio.create_task(batcher.complete(second))
        await asyncio.sleep(0)  # it is waiting now
        decoder.gate.set()
        await asyncio.gather(begun, joining)
        assert [text_of(done) for done in (first, second)] == ["3000000000$"] * 2

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("api.groups.MIN_TURN", 1)
        patch.setattr("api.groups.TURN", 4)
        run(work, max_groups=1)
    # The first reads its prompt and writes 1 + 4 tokens. Then the other reads its own and writes
    # one, six times they write together, and the other ends alone.
    assert decoder.batches == [*[1] * 5, 1, *[2] * 6, *[1] * 4]


def test_a_decoder_gets_no_more_rows_at_once_than_it_takes_best() -> None:
    decoder = completing_decoder(CHECKPOINT.tokenizer, right, kind=FakeWriter)

    async def work(batcher: Batcher) -> list[Job]:
        jobs = [job(decoder, prompt) for prompt in (SUM, PRODUCT, LONG) * 4]
        await asyncio.gather(*map(batcher.complete, jobs))
        return jobs

    jobs = run(work)
    assert [text_of(done) for done in jobs] == ["3000000000$", "2100000000$", "3000000000$"] * 4
    assert max(decoder.batches) == FakeWriter.at_once


@pytest.mark.parametrize("max_groups", [1, 2])
def test_jobs_that_join_keep_no_other_job_waiting(max_groups: int) -> None:
    decoder = completing_decoder(
        CHECKPOINT.tokenizer,
        lambda prompt: right(prompt) if len(prompt) < 99 else "$",
        512,
        FakeWriter,
    )

    async def work(batcher: Batcher) -> Job:
        async def ask_again_and_again() -> None:
            while True:
                await batcher.complete(job(decoder))

        clients = [asyncio.create_task(ask_again_and_again()) for _ in range(12)]
        watched = job(decoder, on_token=lambda token, probability: None)
        await batcher.complete(watched)
        heavy = job(decoder, f"$({'1' * 60}+{'2' * 60})=")  # for which the pool has no room
        await batcher.complete(heavy)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        return watched

    assert text_of(run(work, max_groups=max_groups)) == "3000000000$"


def test_a_cancelled_job_leaves_the_others_that_it_joined() -> None:
    decoder = gated_decoder(FakeWriter)

    async def work(batcher: Batcher) -> None:
        jobs = [job(decoder, prompt) for prompt in (SUM, PRODUCT, SUM)]
        tasks = [asyncio.create_task(batcher.complete(item)) for item in jobs]
        await asyncio.to_thread(decoder.called.wait)
        tasks[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[1]
        decoder.gate.set()
        await asyncio.gather(tasks[0], tasks[2])
        assert text_of(jobs[0]) == "3000000000$"
        assert text_of(jobs[2]) == "3000000000$"
        assert not jobs[1].completion.ids

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("api.groups.MIN_TURN", 1)
        patch.setattr("api.groups.TURN", 1)
        run(work, wait=0.5, max_batch=3)
    assert decoder.batches.count(3) <= 2  # the prompts, and the turn that had begun
    assert decoder.batches.count(2) >= 5


def test_a_job_cancelled_while_it_waits_never_runs() -> None:
    decoder = gated_decoder()

    async def work(batcher: Batcher) -> None:
        first = asyncio.create_task(batcher.complete(job(decoder)))
        await asyncio.to_thread(decoder.called.wait)
        waiting = asyncio.create_task(batcher.complete(job(decoder, PRODUCT)))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])  # else the model may be faster than the cancellation
        decoder.gate.set()
        await first

    run(work, max_groups=1)
    assert decoder.batches == [1] * 11


def test_jobs_behind_a_cancelled_one_keep_their_turn() -> None:
    decoder = gated_decoder()

    async def work(batcher: Batcher) -> None:
        first = asyncio.create_task(batcher.complete(job(decoder)))
        await asyncio.to_thread(decoder.called.wait)
        waiting = [asyncio.create_task(batcher.complete(job(decoder))) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        await asyncio.wait([waiting[1]])
        decoder.gate.set()
        await asyncio.gather(first, waiting[0], waiting[2])

    run(work, max_groups=1)
    assert decoder.batches[-10:] == [2] * 10


class Unsortable(Job):
    @property
    def kind(self) -> Hashable:
        raise RuntimeError("no kind")


def test_an_error_outside_of_any_group_ends_all_jobs_and_not_the_thread() -> None:
    decoder = gated_decoder()

    async def work(batcher: Batcher) -> None:
        first = asyncio.create_task(batcher.complete(job(decoder)))
        await asyncio.to_thread(decoder.called.wait)
        broken = job(decoder)
        broken.__class__ = Unsortable
        waiting = asyncio.create_task(batcher.complete(broken))
        await asyncio.sleep(0)  # it is waiting now
        decoder.gate.set()
        results = await asyncio.gather(first, waiting, return_exceptions=True)
        assert [str(result) for result in results] == ["no kind"] * 2
        done = job(decoder)
        await batcher.complete(done)
        assert text_of(done) == "3000000000$"

    run(work)


def test_tokens_are_reported_in_the_event_loop() -> None:
    decoder = completing_decoder(CHECKPOINT.tokenizer, right)
    reported: list[tuple[str, float]] = []
    threads: set[int] = set()

    async def work(batcher: Batcher) -> Job:
        def on_token(token: int, probability: float) -> None:
            reported.append((CHECKPOINT.tokenizer.decode([token]), probability))
            threads.add(threading.get_ident())

        finished = job(decoder, on_token=on_token)
        await batcher.complete(finished)
        assert threads == {threading.get_ident()}
        return finished

    finished = run(work)
    assert "".join(character for character, _ in reported) == "3000000000$"
    assert [probability for _, probability in reported] == finished.completion.probabilities


def test_the_model_does_not_run_ahead_of_a_busy_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise reports would pile up in the loop, before new connections and all other work. Jobs
    of which nothing is reported go on."""
    monkeypatch.setattr(batching, "MAX_UNREPORTED", 2)
    watched, other = (completing_decoder(CHECKPOINT.tokenizer, right) for _ in range(2))
    ahead: list[int] = []

    def on_token(token: int, probability: float) -> None:
        if not ahead:  # the loop is busy until the other job has been written
            wait_for(lambda: len(other.batches) == len("3000000000$"))
            ahead.append(len(watched.batches))

    async def work(batcher: Batcher) -> Job:
        reported = job(watched, on_token=on_token)
        await asyncio.gather(batcher.complete(reported), batcher.complete(job(other)))
        return reported

    assert text_of(run(work)) == "3000000000$"
    assert 1 <= ahead[0] <= 4


@pytest.mark.parametrize("kind", [FakeDecoder, FakeWriter])
def test_a_failure_affects_only_its_own_jobs(kind: type[FakeDecoder]) -> None:
    def completion(prompt: str) -> str:
        if "*" in prompt:
            raise RuntimeError("broken")
        return right(prompt)

    decoder = completing_decoder(CHECKPOINT.tokenizer, completion, kind=kind)

    async def work(batcher: Batcher) -> None:
        with pytest.raises(RuntimeError, match="broken"):
            await batcher.complete(job(decoder, PRODUCT))
        after = job(decoder)
        await batcher.complete(after)
        assert text_of(after) == "3000000000$"

    run(work)


def test_a_prompt_that_fills_the_context_ends_at_once(tiny: Checkpoint) -> None:
    async def work(batcher: Batcher) -> Job:
        finished = Job("tiny", tiny.model, [1] * 65, -1)
        await batcher.complete(finished)
        return finished

    assert run(work).completion.ids == []
