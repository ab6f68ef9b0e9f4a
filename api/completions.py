"""Completions in the making: prompts in, what a model writes after them out, whole or in pieces.

The raw model in OpenAI's shape, for its clients and for lm-evaluation-harness.
"""

from __future__ import annotations

import asyncio
import json
import math
import secrets
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from functools import cache, partial
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from fastapi import APIRouter, Request
from fastapi.responses import Response
from fastapi.sse import format_sse_event

from api.batching import GREEDY, Job
from api.calculate import Held
from api.completion_schemas import (
    CompletionChoice,
    CompletionRequest,
    CompletionResponse,
    Logprobs,
    Usage,
)
from api.problems import ProblemError
from api.responses import ASKED
from api.service import Service, while_connected
from api.streaming import EVENT, EventStream, follow
from calcgpt.data.tokenizer import Tokenizer
from calcgpt.errors import DataError
from calcgpt.inference.generate import Decoder, Sampling

NO_TOKEN = -1  # where no token ends a text
LEAST = sys.float_info.min  # of what is above 0
COLDEST = 1e-4  # of temperatures: what is less is greedy (calcgpt.inference.generate.Sampling)

Listener = Callable[[CompletionChoice], None]


class Scored(NamedTuple):
    """A token, its log-probability, and those of the most probable tokens in its place. The first
    token of a prompt has none."""

    token: int
    logprob: float | None = None
    top: dict[int, float] | None = None


class Completing:
    """A request, and what has become of it."""

    def __init__(self, service: Service, asked: CompletionRequest) -> None:
        """Raises ProblemError for what the model cannot take."""
        self._batcher = service.batcher
        self._model = model = service.models.find(asked.model)
        self._asked = asked
        self._id, self._created = f"cmpl-{uuid.uuid4().hex}", int(time.time())
        n, limit = len(asked.prompts) * asked.n, service.settings.max_items
        if n > limit:
            raise ProblemError(422, f"{n} choices; at most {limit}", kind="too-many-items")

        tokenizer, room = model.checkpoint.tokenizer, model.decoder.config.block_size
        self._prompts = []
        for place, prompt in enumerate(asked.prompts):
            try:
                self._prompts.append(_read(tokenizer, room, prompt))
            except DataError as error:
                raise ProblemError(
                    422, f"prompt {place}: {error}", kind="invalid-request"
                ) from None
        stop_token = model.calculator.stop if model.calculator else NO_TOKEN
        self.choices = []
        for index, sampling in enumerate(_samplings(asked, n)):
            job = Job(
                model.name,
                model.decoder,
                self._prompts[index // asked.n],
                stop_token,
                asked.max_tokens,
                sampling,
                n_top=asked.logprobs or 0,
            )
            self.choices.append(Choice(index, job, tokenizer, asked))

    async def run(self, listener: Listener | None = None) -> None:
        """Have it all written; the listener is told of each piece."""
        if self._asked.echo and self._asked.logprobs is not None:
            await self._score_prompts(self._asked.logprobs)
        await asyncio.gather(*(self._write(choice, listener) for choice in self.choices))

    async def _score_prompts(self, n_top: int) -> None:
        decoder, n = self._model.decoder, self._asked.n
        for place, prompt in enumerate(self._prompts):  # one by one: others have their turn between
            scored = await self._batcher.call(partial(score, decoder, prompt, n_top))
            for choice in self.choices[place * n : (place + 1) * n]:
                choice.read = scored

    async def _write(self, choice: Choice, listener: Listener | None) -> None:
        if listener:
            tell = listener

            def on_token(token: int, probability: float) -> None:
                choice.n_written += 1
                piece = choice.take()
                if piece.text or piece.logprobs:
                    tell(piece)

            choice.job.on_token = on_token
        if self._asked.max_tokens:  # a job writes one at least
            await self._batcher.complete(choice.job)
        if listener:
            listener(choice.take(done=True))

    def response(
        self, choices: list[CompletionChoice], usage: Usage | None = None
    ) -> CompletionResponse:
        """Choices, or pieces of them, as they go over the wire."""
        return CompletionResponse(
            id=self._id,
            created=self._created,
            model=self._model.name,
            choices=choices,
            usage=usage,
        )

    @property
    def usage(self) -> Usage:
        """What it has cost so far. A prompt is read once, however many continuations it has."""
        read = sum(map(len, self._prompts))
        written = sum(len(choice.job.completion.ids) for choice in self.choices)
        return Usage(prompt_tokens=read, completion_tokens=written, total_tokens=read + written)


class Choice:
    """A continuation of a prompt. What it gives in pieces adds up to what it gives at once."""

    def __init__(
        self, index: int, job: Job, tokenizer: Tokenizer, asked: CompletionRequest
    ) -> None:
        self.job = job
        self.read: list[Scored] = []  # the tokens of the prompt, if they are still to be shown
        self.n_written = 0  # tokens that may be taken before the job is done
        self._index, self._tokenizer, self._asked = index, tokenizer, asked
        self._n_text = self._n_tokens = self._offset = 0  # given so far; length of these tokens
        self._name = cache(lambda token: tokenizer.decode([token]))
        self._before = tokenizer.decode(job.prompt) if asked.echo else ""
        if stops := asked.stops:
            # No token is empty, so a string that ends with the last token begins among as many
            # tokens as it has bytes: at most four a character.
            reach = 4 * max(map(len, stops))
            job.ends = lambda ids: any(s in tokenizer.decode(ids[-reach:]) for s in stops)

    def take(self, done: bool = False) -> CompletionChoice:
        """What is new since this was last called; the last of it if the job is done."""
        ids = self.job.completion.ids if done else self.job.completion.ids[: self.n_written]
        written, stopped = self._text(ids, done)
        text = self._before + written
        piece = CompletionChoice(index=self._index, text=text[self._n_text :])
        self._n_text = len(text)
        if self._asked.logprobs is not None:
            piece.logprobs = self._logprobs(len(ids))
        if done:
            piece.finish_reason = "stop" if stopped else "length"
        return piece

    def _text(self, ids: list[int], done: bool) -> tuple[str, bool]:
        """The text of these tokens, up to where it is to stop, and whether that is so. Unless it is
        done: as far as no later token can change it."""
        ended = ids[-1:] == [self.job.stop_token]
        text = self._tokenizer.decode(ids[:-1] if ended else ids)
        stops = self._asked.stops
        places = [place for stop in stops if (place := text.find(stop)) >= 0]
        if places:
            return text[: min(places)], True
        if done:
            return text, ended
        text = text.rstrip("\N{REPLACEMENT CHARACTER}")  # maybe a character that is not yet whole
        begun = (n for stop in stops for n in range(len(stop)) if text.endswith(stop[:n]))
        return text[: len(text) - max(begun, default=0)], False

    def _logprobs(self, n: int) -> Logprobs | None:
        """Of the prompt, once, and of the tokens up to the `n`th written; None if none is new."""
        rows = self.read + [self._scored(place) for place in range(self._n_tokens, n)]
        if not rows:
            return None
        self.read, self._n_tokens = [], n
        tokens = [self._name(row.token) for row in rows]
        *offsets, self._offset = accumulate(map(len, tokens), initial=self._offset)
        return Logprobs(
            tokens=tokens,
            token_logprobs=[row.logprob for row in rows],
            top_logprobs=[row.top and self._named(row.top) for row in rows],
            text_offset=offsets,
        )

    def _scored(self, place: int) -> Scored:
        job = self.job
        token, probability = job.completion.ids[place], job.completion.probabilities[place]
        # One that is sampled at a high temperature may have a probability of 0 in float32.
        logprob = math.log(max(probability, sys.float_info.min))
        top = {token: logprob, **(job.top[place] if job.n_top else {})}
        return Scored(token, top[token], top)

    def _named(self, top: dict[int, float]) -> dict[str, float]:
        """By text, the most probable first; also of tokens that look alike, being parts of a
        character, the most probable."""
        named: dict[str, float] = {}
        for token in sorted(top, key=top.__getitem__, reverse=True):
            named.setdefault(self._name(token), top[token])
        return named


@torch.inference_mode()
def score(decoder: Decoder, prompt: list[int], n_top: int) -> list[Scored]:
    """How probable each token of a prompt is after those before it; one forward pass."""
    cache = decoder.new_cache(1, len(prompt))
    logits_TV = decoder(torch.tensor([prompt]), cache, False)[0, :-1].float()
    logprobs_TV = logits_TV.log_softmax(dim=-1)
    best = logprobs_TV.topk(min(n_top, logprobs_TV.size(1)), dim=-1)
    scored = [Scored(prompt[0])]
    for place, token in enumerate(prompt[1:]):
        logprob = float(logprobs_TV[place, token])
        top = zip(best.indices[place].tolist(), best.values[place].tolist(), strict=True)
        scored.append(Scored(token, logprob, {token: logprob, **dict(top)}))
    return scored


async def stream(
    service: Service, completing: Completing, with_usage: bool
) -> AsyncIterator[bytes]:
    """The pieces as OpenAI's events, `[DONE]` the last, or an error. Closing it early gives its
    places up."""
    async with aclosing(follow(service, completing.run)) as happened:
        async for piece in happened:
            if isinstance(piece, ProblemError):
                yield _failure(piece)
                return
            if piece:
                yield _event(completing.response([piece]))
    if with_usage:
        yield _event(completing.response([], completing.usage))
    yield format_sse_event(data_str="[DONE]")


def _event(response: CompletionResponse) -> bytes:
    return format_sse_event(data_str=response.model_dump_json())


def _failure(error: ProblemError) -> bytes:
    """OpenAI's clients look for `error` and show its `message`."""
    document = {"message": error.detail, **error.document()}
    return format_sse_event(data_str=json.dumps({"error": document}))


def _read(tokenizer: Tokenizer, room: int, prompt: str | list[int]) -> list[int]:
    """The tokens of a prompt. Raises DataError for what the model cannot read."""
    ids: list[int] = tokenizer.encode(prompt).tolist() if isinstance(prompt, str) else prompt
    if len(ids) > room:
        raise DataError(f"{len(ids):,} tokens; the model reads at most {room:,}")
    for place, token in enumerate(ids):
        if token >= len(tokenizer):
            last = len(tokenizer) - 1
            raise DataError(f"token {token} at position {place}: the last token is {last}")
    return ids


def _samplings(asked: CompletionRequest, n: int) -> list[Sampling]:
    """For `n` choices, with a seed for each."""
    if asked.temperature < COLDEST:
        return [GREEDY] * n
    seed = secrets.randbits(64) if asked.seed is None else asked.seed % 2**64
    return [
        Sampling(asked.temperature, asked.top_k, asked.top_p or LEAST, int(own))
        for own in np.random.SeedSequence(seed).generate_state(n, np.uint64)
    ]


STREAM = (
    "The continuations. With `stream`, as server-sent events: each holds what is new of one of "
    "them, in the same shape, and the last is `[DONE]`. Where something happens on the way, the "
    "last is an object with the member `error`, a problem document with a `message`."
)
EXAMPLE = {
    "schema": EVENT,
    "example": (
        'data: {"id":"cmpl-4c1a5a7b","object":"text_completion","created":1760000000,"model":'
        '"steps","choices":[{"index":0,"text":"x","logprobs":null,"finish_reason":null}],"usage":'
        "null}\n\ndata: [DONE]\n\n"
    ),
}


def router(service: Service) -> APIRouter:
    """/v1/completions."""
    routes = APIRouter(tags=["models"], responses=ASKED)

    @routes.post(
        "/v1/completions",
        response_model=CompletionResponse,
        responses={200: {"description": STREAM, "content": {"text/event-stream": EXAMPLE}}},
    )
    async def complete(
        asked: CompletionRequest, request: Request, held: Held
    ) -> Response | CompletionResponse:
        """Let a model continue a text, as OpenAI's completions endpoint does; errors are problem
        documents here too. A model of arithmetic reads and writes its own notation, and `$` ends
        a text: it is the last of the tokens, but no part of the text."""
        completing = Completing(service, asked)
        held.enter_context(service.admission.enter(len(completing.choices)))
        if asked.stream:
            with_usage = asked.stream_options.include_usage
            return EventStream(stream(service, completing, with_usage))
        seconds, metrics = service.settings.deadline, service.metrics
        await while_connected(request, completing.run(), seconds, metrics)
        choices = [choice.take(done=True) for choice in completing.choices]
        return completing.response(choices, completing.usage)

    return routes
