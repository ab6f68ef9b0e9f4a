"""The peer of the service in benchmarks/serve.py: a plain FastAPI endpoint that calls `generate` of
transformers with the same weights.

    python -m benchmarks.serve_peer CHECKPOINT [--threads N] [--at-once N] [--batch N] [--wait MS]

It listens on a free port, which uvicorn logs. Problems that arrive within `--wait` of each other
are the rows of one greedy call of `generate` with a key/value cache, at most `--batch` of them. At
most `--at-once` calls run at a time, each on `--threads` threads of torch, because more calls would
compete for the CPU.
"""

import argparse
import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import torch
import uvicorn
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from calcgpt.checkpoint import Checkpoint
from calcgpt.export.hf_classes import hf_class_of
from calcgpt.inference.exact import plain_text
from calcgpt.inference.limits import limits_of
from calcgpt.inference.results import read_answer
from calcgpt.registry import resolve
from datagen.arithmetic import Problem
from datagen.notation import number_from_text, render_prompt
from datagen.operations import BY_SIGN

PROBLEM = re.compile(r"([0-9.]+)([-+*/])([0-9.]+)")


class Question(BaseModel):
    """A problem such as `12.5*3`."""

    expression: str


class Answer(BaseModel):
    """The model's answer; null if it is not a number."""

    result: str | None


Waiting = tuple[str, "asyncio.Future[str]"]  # a prompt, and the future of its text


async def answer_batches(
    queue: asyncio.Queue[Waiting],
    generate: Callable[[list[str]], list[str]],
    size: int,
    wait: float,
) -> None:
    """Generates for the prompts in the queue, up to `size` at a time, without end. After the first
    prompt of a batch, waits for `wait` seconds or until the batch is full."""
    clock = asyncio.get_running_loop().time
    while True:
        batch = [await queue.get()]
        deadline = clock() + wait
        while len(batch) < size and (not queue.empty() or clock() < deadline):
            with suppress(TimeoutError):
                batch.append(await asyncio.wait_for(queue.get(), max(0.001, deadline - clock())))
        for length in {len(prompt) for prompt, _ in batch}:
            same_length = [item for item in batch if len(item[0]) == length]
            texts = await asyncio.to_thread(generate, [prompt for prompt, _ in same_length])
            for (_, future), text in zip(same_length, texts, strict=True):
                if not future.done():  # the client may be gone
                    future.set_result(text)


def generator(checkpoint: Checkpoint) -> Callable[[list[str]], list[str]]:
    """Returns a function that continues prompts of one length with transformers."""
    tokenizer = checkpoint.tokenizer
    stop = int(tokenizer.encode("$")[0])
    _, hf_class = hf_class_of(checkpoint.model.config)
    model = hf_class.build(
        checkpoint.model, bos_token_id=None, eos_token_id=stop, pad_token_id=stop
    )

    def generate(prompts: list[str]) -> list[str]:
        rows = [torch.from_numpy(tokenizer.encode(prompt)).long() for prompt in prompts]
        prompts_BP = torch.stack(rows)
        with torch.inference_mode():
            written_BT = model.generate(
                prompts_BP,
                attention_mask=torch.ones_like(prompts_BP),
                max_new_tokens=checkpoint.model.config.block_size - prompts_BP.size(1),
                do_sample=False,
            )
        return [tokenizer.decode(row) for row in written_BT.tolist()]

    return generate


def create_app(checkpoint: Checkpoint, at_once: int, size: int, wait: float) -> FastAPI:
    """Returns an application with one endpoint, at the same path as the service's, which
    answers with as many places."""
    generate = generator(checkpoint)
    places = limits_of(checkpoint, checkpoint.recipe.model.block_size).default_places
    queue: asyncio.Queue[Waiting] = asyncio.Queue()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(answer_batches(queue, generate, size, wait)) for _ in range(at_once)
        ]
        yield
        for task in tasks:
            task.cancel()

    app = FastAPI(lifespan=lifespan)

    @app.post("/v1/calculate")
    async def calculate(question: Question) -> Answer:
        match = PROBLEM.fullmatch(question.expression)
        if not match:
            raise HTTPException(422)
        a, b = number_from_text(match[1]), number_from_text(match[3])
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        problem = Problem(a, BY_SIGN[match[2]], b, places)
        await queue.put((render_prompt(problem), future))
        text = await future
        # Rows that end before the longest one are padded with the stop token.
        result, value = read_answer(text[0] + text[1:].split("$", 1)[0] + "$", places)
        return Answer(result=plain_text(value) if value else result)

    return app


def main() -> None:
    """Serves until a signal ends it."""
    parser = argparse.ArgumentParser(description="Serve `generate` of transformers.")
    parser.add_argument("checkpoint")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1, help="rows of a call at most")
    parser.add_argument("--wait", type=float, default=2.0, help="ms, for more rows")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    checkpoint = Checkpoint.load(resolve(arguments.checkpoint))
    app = create_app(checkpoint, arguments.at_once, arguments.batch, arguments.wait / 1000)
    uvicorn.run(app, host="127.0.0.1", port=0, access_log=False)


if __name__ == "__main__":
    main()
