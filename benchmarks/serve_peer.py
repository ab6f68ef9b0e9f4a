"""The peer of the service in benchmarks/serve.py: a plain FastAPI endpoint that calls `generate` of
transformers with the same weights.

    python -m benchmarks.serve_peer CHECKPOINT [--threads N] [--at-once N]

It listens on a free port, which uvicorn logs. Each problem is one greedy call of `generate` with a
key/value cache, in one of FastAPI's threads. At most `--at-once` calls run at a time, each on
`--threads` threads of torch, because more calls would compete for the CPU.
"""

from __future__ import annotations

import argparse
import re
from threading import Semaphore

import torch
import uvicorn
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

from calcgpt.checkpoint import Checkpoint, resolve
from calcgpt.export.hf_classes import hf_class_of
from calcgpt.inference.results import read_answer
from datagen.arithmetic import Operation, Problem
from datagen.notation import number_from_text, render_prompt

PROBLEM = re.compile(r"([0-9.]+)([-+*/])([0-9.]+)")


class Question(BaseModel):
    """A problem such as `12.5*3`."""

    expression: str


class Answer(BaseModel):
    """The model's answer; null if it is not a number."""

    result: str | None


def create_app(checkpoint: Checkpoint, at_once: int) -> FastAPI:
    """Returns an application with one endpoint, at the same path as the service's."""
    tokenizer = checkpoint.tokenizer
    stop = int(tokenizer.encode("$")[0])
    _, hf_class = hf_class_of(checkpoint.model.config)
    model = hf_class.build(
        checkpoint.model, bos_token_id=None, eos_token_id=stop, pad_token_id=stop
    )
    slots = Semaphore(at_once)
    app = FastAPI()

    @app.post("/v1/calculate")
    def calculate(question: Question) -> Answer:
        match = PROBLEM.fullmatch(question.expression)
        if not match:
            raise HTTPException(422)
        a, b = number_from_text(match[1]), number_from_text(match[3])
        prompt = render_prompt(Problem(a, Operation(match[2]), b))
        prompt_1P = torch.from_numpy(tokenizer.encode(prompt)).long()[None]
        with slots, torch.inference_mode():
            written_1T = model.generate(
                prompt_1P,
                attention_mask=torch.ones_like(prompt_1P),
                max_new_tokens=checkpoint.model.config.block_size - len(prompt),
                do_sample=False,
            )
        result, _ = read_answer(tokenizer.decode(written_1T[0].tolist()))
        return Answer(result=result)

    return app


def main() -> None:
    """Serves until a signal ends it."""
    parser = argparse.ArgumentParser(description="Serve `generate` of transformers.")
    parser.add_argument("checkpoint")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    app = create_app(Checkpoint.load(resolve(arguments.checkpoint)), arguments.at_once)
    uvicorn.run(app, host="127.0.0.1", port=0, access_log=False)


if __name__ == "__main__":
    main()
