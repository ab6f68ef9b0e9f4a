"""With drafts, the service writes what it writes without them."""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest
import torch
from batches import complete_together
from fake_decoder import completing_decoder, notation_checkpoint, right, wrong_at
from forks import PATIENCE
from serving import client_of, wait_for

from api.batching import Batcher
from api.groups import Job
from api.service import LoadedModel
from api.telemetry import Metrics
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.drafts import Drafter
from calcgpt.inference.engines import load_decoder
from calcgpt.inference.generate import Decoder
from calcgpt.registry import resolve
from datagen.distributions import distribution
from datagen.notation import render_prompt
from datagen.operations import MULTIPLICATION
from datagen.sampling import bit_generator
from datagen.work import render_line

T = TypeVar("T")
CHECKPOINT = notation_checkpoint()
SUM, PRODUCT = "$(0000000001+0000000002)=", "$(0000000003*0000000004)="


def run(work: Callable[[Batcher], Awaitable[T]]) -> tuple[T, str]:
    """Returns the result of `work` with a new batcher, and its metrics."""
    metrics = Metrics()

    async def main() -> T:
        batcher = Batcher(metrics, max_batch=12)
        try:
            return await asyncio.wait_for(work(batcher), PATIENCE)
        finally:
            batcher.close()

    return asyncio.run(main()), metrics.render()[0].decode()


def complete(
    checkpoint: Checkpoint, decoder: Decoder, prompts: Sequence[str], has_drafts: bool
) -> tuple[list[Job], list[str], str]:
    """Returns finished jobs, what was reported of each token by token, and the metrics."""
    encode, decode = checkpoint.tokenizer.encode, checkpoint.tokenizer.decode
    drafter = Drafter(checkpoint, decoder) if has_drafts else None
    reported = [""] * len(prompts)

    def job(row: int) -> Job:
        def on_token(token: int, probability: float) -> None:
            reported[row] += decode([token])

        ids, stop = encode(prompts[row]).tolist(), int(encode("$")[0])
        watched = on_token if row % 2 else None
        return Job("model", decoder, ids, stop, on_token=watched, drafter=drafter)

    async def work(batcher: Batcher) -> list[Job]:
        jobs = [job(row) for row in range(len(prompts))]
        await complete_together(batcher, jobs)
        return jobs

    jobs, metrics = run(work)
    return jobs, reported, metrics


def drafts(metrics: str) -> tuple[int, int]:
    """Returns how many drafts were confirmed, and how many the model departed from."""
    values = dict(line.split() for line in metrics.splitlines() if line[0] != "#")
    name = 'calcgpt_drafts_total{{confirmed="{}",model="model"}}'
    confirmed, departed = (int(float(values[name.format(which)])) for which in ("true", "false"))
    return confirmed, departed


@pytest.mark.parametrize(
    ("name", "noise", "engine"),
    [("calculator", 0.0, "native"), ("calculator", 0.04, "torch"), ("tiny", 0.0, "torch")],
)
def test_texts_and_confidences_are_those_without_drafts(
    name: str, noise: float, engine: str, tiny: Checkpoint
) -> None:
    checkpoint = copy.copy(tiny) if name == "tiny" else Checkpoint.load(resolve(name))
    torch.manual_seed(0)
    with torch.no_grad():  # a damaged model is often wrong, after a right beginning
        for parameter in checkpoint.model.parameters() if noise else ():
            parameter += noise * torch.randn_like(parameter)
    _, decoder = load_decoder(checkpoint, engine)
    [problems] = distribution("calculator" if noise else "blog")(bit_generator(1, 0, 0), 12)
    prompts = [render_prompt(problem) for problem in problems.to_problems()]
    plain, *_ = complete(checkpoint, decoder, prompts, has_drafts=False)
    drafted, reported, metrics = complete(checkpoint, decoder, prompts, has_drafts=True)
    for one, other in zip(plain, drafted, strict=True):
        assert one.completion.ids == other.completion.ids
        expected = pytest.approx(one.completion.probabilities, rel=1e-3, abs=1e-6)
        assert other.completion.probabilities == expected
    texts = [checkpoint.tokenizer.decode(job.completion.ids) for job in plain]
    assert reported[1::2] == texts[1::2]
    n_confirmed, n_departed = drafts(metrics)
    assert n_confirmed + n_departed == 12
    if name == "tiny":
        assert n_departed == 12
    else:
        assert n_confirmed > 9
        lines = [prompt + text for prompt, text in zip(prompts, texts, strict=True)]
        first_drafts = [render_line(prompt.encode()).decode() for prompt in prompts]
        assert lines != first_drafts or not noise  # another draft was confirmed
    n_written = sum(len(job.completion.ids) for job in plain)
    assert f'calcgpt_tokens_total{{model="model"}} {float(n_written)}' in metrics


def test_waiting_problems_share_the_pass_whatever_their_lengths() -> None:
    decoder = completing_decoder(CHECKPOINT.tokenizer, wrong_at(MULTIPLICATION))
    prompts = [SUM, PRODUCT, "$8(0000000001+0000000002)=", SUM]
    jobs, *_ = complete(CHECKPOINT, decoder, prompts, has_drafts=True)
    texts = [CHECKPOINT.tokenizer.decode(job.completion.ids) for job in jobs]
    assert texts == ["3000000000$", "2400000000$", "3000000000$", "3000000000$"]
    assert decoder.batches == [4, *[1] * 10]  # 2 is confirmed of 21


def test_a_job_that_departs_from_its_draft_comes_before_those_that_wait() -> None:
    decoder = completing_decoder(CHECKPOINT.tokenizer, wrong_at(MULTIPLICATION))
    encode, finished = CHECKPOINT.tokenizer.encode, list[str]()

    async def work() -> None:
        batcher = Batcher(Metrics(), max_batch=2, max_groups=1, wait=PATIENCE)

        async def ask(prompt: str, drafter: Drafter | None = None) -> None:
            ids, stop = encode(prompt).tolist(), int(encode("$")[0])
            await batcher.complete(Job("model", decoder, ids, stop, drafter=drafter))
            finished.append(prompt)

        await asyncio.gather(ask(PRODUCT, Drafter(CHECKPOINT, decoder)), ask(SUM))
        batcher.close()

    asyncio.run(asyncio.wait_for(work(), PATIENCE))
    assert finished == [PRODUCT, SUM]


def test_the_service_drafts_if_it_is_set_to() -> None:
    passes = {}
    for draft in (False, True):
        decoder = completing_decoder(CHECKPOINT.tokenizer, right)
        model = LoadedModel(CHECKPOINT, decoder, "fake")
        with client_of(model, draft=draft) as client:
            question = {"expression": "(1+2)*3", "places": 2}
            answer = client.post("/v1/calculate", json=question).json()
        assert answer["result"] == "9"
        passes[draft] = len(decoder.batches)
    assert passes == {False: 22, True: 2}


def test_the_problems_of_a_request_share_the_pass_of_their_drafts() -> None:
    decoder = completing_decoder(CHECKPOINT.tokenizer, right)
    model = LoadedModel(CHECKPOINT, decoder, "fake")
    decoder.gate.clear()
    with client_of(model, draft=True) as client, ThreadPoolExecutor(2) as pool:
        path, body = "/v1/calculate/batch", {"expressions": ["1+2", "3+4", "5*6"], "places": 2}
        try:
            first = pool.submit(client.post, path, json={"expressions": ["1+1"], "places": 2})
            assert decoder.called.wait(PATIENCE)
            second = pool.submit(client.post, path, json=body)
            wait_for(lambda: "calcgpt_queue_depth 3.0" in client.get("/metrics").text)
        finally:
            decoder.gate.set()
        assert {first.result().status_code, second.result().status_code} == {200}
    assert decoder.batches == [1, 3]
