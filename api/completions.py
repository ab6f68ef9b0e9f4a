"""/v1/completions: the raw model in the shape of OpenAI's API.

Shapes: T tokens, V vocabulary.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from functools import cache, lru_cache, partial
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from fastapi import APIRouter, Request
from fastapi.responses import Response
from fastapi.sse import format_sse_event

from api.groups import GREEDY, Job, most_probable
from api.problems import QUESTION_RESPONSES, ProblemError
from api.routing import DONE, EventStream, JsonRoute, RequestStack, error_event, stream_responses
from api.schemas.completions import (
    CompletionChoice,
    CompletionRequest,
    CompletionResponse,
    Logprobs,
    Usage,
)
from api.service import Service
from calcgpt.data.tokenizer import Tokenizer
from calcgpt.errors import DataError
from calcgpt.inference.generate import (
    Decoder,
    Sampling,
    as_array_decoder,
    log_softmax,
    stop_token,
)

SMALLEST = sys.float_info.min  # the smallest positive probability
TOKENS_PER_OPERATION = 100  # about the tokens of an operation in worked steps
MIN_TEMPERATURE = 1e-4  # below it, decoding is greedy (calcgpt.inference.generate.Sampling)
STREAM = (
    "The continuations. With `stream`, they are server-sent events of the same shape: each holds "
    "the new part of one continuation, and the last is `[DONE]`. If an error occurs, the last "
    "event is an object with the member `error`, a problem document with a `message`."
)
STREAM_EXAMPLE = (
    'data: {"id":"cmpl-4c1a5a7b","object":"text_completion","created":1760000000,"model":'
    '"scratchpad-small","choices":[{"index":0,"text":"+","logprobs":null,"finish_reason":null}],'
    '"usage":null}\n\ndata: [DONE]\n\n'
)

Listener = Callable[[CompletionChoice], None]  # called with each new part of a continuation


def router(service: Service) -> APIRouter:
    """Returns the route of /v1/completions."""
    routes = APIRouter(route_class=JsonRoute, tags=["models"], responses=QUESTION_RESPONSES)

    @routes.post(
        "/v1/completions",
        response_model=CompletionResponse,
        responses=stream_responses(STREAM, STREAM_EXAMPLE),
    )
    async def complete(body: CompletionRequest, request: Request, stack: RequestStack) -> Response:
        """Let a model continue a text, as OpenAI's completions endpoint does. Errors are problem
        documents here too. A model of arithmetic reads and writes the notation of its problems.
        Its texts end with `$`, which is in the tokens but not in the text."""
        service.admission.require_room()
        run = CompletionRun(service, body)
        await service.admit(request, stack, run.n_operations)
        if body.stream:
            return EventStream(_stream(service, run, body.stream_options.include_usage))
        await service.while_connected(request, run.run())
        # In a thread: the log-probabilities of long prompts are megabytes.
        return Response(await asyncio.to_thread(run.body), media_type="application/json")

    return routes


class CompletionRun:
    """One request, and its continuations while they are written."""

    def __init__(self, service: Service, request: CompletionRequest) -> None:
        """Raises ProblemError if the model cannot take the request."""
        self._batcher = service.batcher
        self._model = model = service.models.find(request.model)
        self._request = request
        self._id, self._created = f"cmpl-{uuid.uuid4().hex}", int(time.time())
        n, limit = len(request.prompts) * request.n, service.settings.max_items
        if n > limit:
            raise ProblemError(422, f"{n} choices; the limit is {limit}", kind="too-many-items")

        tokenizer, block_size = model.checkpoint.tokenizer, model.decoder.config.block_size
        self._prompts = []
        for index, prompt in enumerate(request.prompts):
            try:
                self._prompts.append(_encode(tokenizer, block_size, prompt))
            except DataError as error:
                detail = f"prompt {index}: {error}"
                raise ProblemError(422, detail, kind="invalid-request") from None
        stop = model.calculator.stop if model.calculator else stop_token(model.checkpoint)
        # Decoded once for all choices: the choices of a long prompt would hold the event loop.
        echoed = [tokenizer.decode(prompt) if request.echo else "" for prompt in self._prompts]
        self.choices = []
        for index, sampling in enumerate(_samplings(request, n)):
            row = index // request.n
            job = Job(
                model.name,
                model.decoder,
                self._prompts[row],
                stop,
                request.max_tokens,
                sampling,
                n_top=request.logprobs or 0,
            )
            self.choices.append(Choice(index, job, tokenizer, request, echoed[row]))

    @property
    def n_operations(self) -> int:
        """The number of the calculator's operations that take about as much work: at least one for
        each continuation, with its prompt."""
        space, n_new = self._model.decoder.config.block_size, self._request.max_tokens
        lengths = (min(len(choice.job.prompt) + n_new, space) for choice in self.choices)
        return sum(math.ceil(length / TOKENS_PER_OPERATION) for length in lengths)

    async def run(self, listener: Listener | None = None) -> None:
        """Writes all continuations."""
        if self._request.echo and self._request.logprobs is not None:
            await self._score_prompts(self._request.logprobs)
            if listener:
                for choice in self.choices:  # apart from the new tokens: it may be long
                    listener(await asyncio.to_thread(choice.take))
        await asyncio.gather(*(self._write(choice, listener) for choice in self.choices))

    async def _score_prompts(self, n_top: int) -> None:
        decoder, n = self._model.decoder, self._request.n
        for index, prompt in enumerate(self._prompts):  # one call each, so others get turns
            scored = await self._batcher.call(partial(score, decoder, prompt, n_top))
            for choice in self.choices[index * n : (index + 1) * n]:
                choice.prompt_tokens = scored

    async def _write(self, choice: Choice, listener: Listener | None) -> None:
        if listener:

            def on_token(token: int, probability: float) -> None:
                choice.n_written += 1
                part = choice.take()
                if part.text or part.logprobs:
                    listener(part)

            choice.job.on_token = on_token
        if self._request.max_tokens:  # a job writes at least one token
            await self._batcher.complete(choice.job)
        if listener:
            listener(choice.take(done=True))

    def response(
        self, choices: list[CompletionChoice], usage: Usage | None = None
    ) -> CompletionResponse:
        """Returns a response body with these choices."""
        return CompletionResponse(
            id=self._id, created=self._created, model=self._model.name, choices=choices, usage=usage
        )

    def body(self) -> str:
        """Returns the whole response as JSON, once all continuations are written."""
        choices = [choice.take(done=True) for choice in self.choices]
        return self.response(choices, self.usage).model_dump_json()

    @property
    def usage(self) -> Usage:
        """The tokens so far. A prompt counts once, even with several continuations."""
        n_read = sum(map(len, self._prompts))
        n_written = sum(len(choice.job.completion.ids) for choice in self.choices)
        return Usage(
            prompt_tokens=n_read, completion_tokens=n_written, total_tokens=n_read + n_written
        )


class TokenScore(NamedTuple):
    """A token, its log-probability, and those of the most probable tokens at its position.

    The first token of a prompt has no log-probability.
    """

    token: int
    logprob: float | None = None
    top: dict[int, float] | None = None


class Choice:
    """One continuation of a prompt. The parts that `take` returns add up to the whole."""

    def __init__(
        self,
        index: int,
        job: Job,
        tokenizer: Tokenizer,
        request: CompletionRequest,
        echoed: str = "",
    ) -> None:
        """`echoed` is the text of the prompt if the request asks for it, else nothing."""
        self.job = job
        self.prompt_tokens: list[TokenScore] = []  # to be returned with the next part
        self.n_written = 0  # tokens that may be taken before the job is done
        self._index, self._tokenizer, self._request = index, tokenizer, request
        self._n_tokens = self._offset = 0  # tokens taken so far, and the length of their text
        self._name = cache(lambda token: tokenizer.decode([token]))
        self._prefix = echoed
        self._written = StoppedText(tokenizer, request.stops)
        if request.stops:
            read = StoppedText(tokenizer, request.stops)  # by the model's thread, token by token

            def ends(ids: list[int]) -> bool:
                read.feed(ids[-1:])
                return read.stopped

            job.ends = ends

    def take(self, done: bool = False) -> CompletionChoice:
        """Returns what is new since the last call. `done` means that the job is finished."""
        ids = self.job.completion.ids
        n = len(ids) if done else self.n_written
        new, self._prefix, prefix = ids[self._n_tokens : n], "", self._prefix
        if ended := n > 0 and ids[n - 1] == self.job.stop_token:
            new = new[:-1]
        text = prefix + self._written.feed(new, final=done)
        part = CompletionChoice(index=self._index, text=text)
        if self._request.logprobs is not None:
            part.logprobs = self._logprobs(n)
        self._n_tokens = n
        if done:
            part.finish_reason = "stop" if ended or self._written.stopped else "length"
        return part

    def _logprobs(self, n: int) -> Logprobs | None:
        """Returns the log-probabilities of the prompt, once, and of the new tokens before
        index `n`, or None if there are no such tokens."""
        scores = self.prompt_tokens + [self._score(index) for index in range(self._n_tokens, n)]
        if not scores:
            return None
        self.prompt_tokens = []
        tokens = [self._name(score.token) for score in scores]
        *offsets, self._offset = accumulate(map(len, tokens), initial=self._offset)
        return Logprobs(
            tokens=tokens,
            token_logprobs=[score.logprob for score in scores],
            top_logprobs=[score.top and self._by_text(score.top) for score in scores],
            text_offset=offsets,
        )

    def _score(self, index: int) -> TokenScore:
        job = self.job
        token, probability = job.completion.ids[index], job.completion.probabilities[index]
        # A token sampled at a high temperature may have a probability of 0 in float32.
        logprob = math.log(max(probability, SMALLEST))
        top = {token: logprob, **(job.top[index] if job.n_top else {})}
        return TokenScore(token, top[token], top)

    def _by_text(self, top: dict[int, float]) -> dict[str, float]:
        """Returns log-probabilities by the text of the token, the most probable first.

        Of tokens with the same text, such as parts of a character, the most probable remains.
        """
        by_text: dict[str, float] = {}
        for token in sorted(top, key=top.__getitem__, reverse=True):
            by_text.setdefault(self._name(token), top[token])
        return by_text


class StoppedText:
    """The text of tokens, given as they come: whole characters, up to the first of some strings.

    The time for a token does not depend on how much is written, nor on the length of the strings:
    the automaton of Knuth, Morris and Pratt (1977) searches for each of them.
    """

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str]) -> None:
        self.stopped = False
        self._decode = tokenizer.incremental_decoder()
        self._stops = stops
        self._matched = [0] * len(stops)  # by stop: how much of it ends the text
        self._pending = ""  # the end of the text, if it may be the beginning of a stop

    def feed(self, ids: Sequence[int], final: bool = False) -> str:
        """Takes further tokens, and returns what they add to the text.

        Text that later tokens could change is returned later: a part of a character, or the
        beginning of a stop string. With `final`, no tokens follow, and all text is returned.
        """
        if self.stopped:
            return ""
        text = self._decode(ids, final)
        for n_read, character in enumerate(text, start=1):
            if n_stop := self._advance(character):
                self.stopped = True
                whole = self._pending + text[:n_read]
                return whole[: len(whole) - n_stop]
        whole = self._pending + text
        n_pending = 0 if final else max(self._matched, default=0)
        self._pending = whole[len(whole) - n_pending :]
        return whole[: len(whole) - n_pending]

    def _advance(self, character: str) -> int:
        """Reads a character. Returns the length of the longest stop that is complete with it."""
        complete = 0
        for index, stop in enumerate(self._stops):
            n, borders = self._matched[index], _borders(stop)
            while n and stop[n] != character:
                n = borders[n - 1]
            n += stop[n] == character
            self._matched[index] = n
            if n == len(stop):
                complete = max(complete, n)
        return complete


@lru_cache(maxsize=64)
def _borders(stop: str) -> list[int]:
    """Returns the failure function of Knuth, Morris and Pratt: for each prefix of `stop`, the
    length of its longest proper prefix that is also a suffix."""
    borders = [0]
    for character in stop[1:]:
        n = borders[-1]
        while n and stop[n] != character:
            n = borders[n - 1]
        borders.append(n + (stop[n] == character))
    return borders


def score(decoder: Decoder, prompt: list[int], n_top: int) -> list[TokenScore]:
    """Returns the scores of a prompt's tokens, each given those before it; one forward pass."""
    arrays = as_array_decoder(decoder)
    cache = arrays.new_array_cache(1, len(prompt))
    logprobs_TV = log_softmax(arrays(np.array([prompt]), cache, False)[0, :-1])
    scores = [TokenScore(prompt[0])]
    for logprobs_V, token in zip(logprobs_TV, prompt[1:], strict=True):
        logprob = float(logprobs_V[token])
        scores.append(
            TokenScore(token, logprob, {token: logprob} | most_probable(logprobs_V, n_top))
        )
    return scores


def _encode(tokenizer: Tokenizer, block_size: int, prompt: str | list[int]) -> list[int]:
    """Returns the tokens of a prompt. Raises DataError if the model cannot read them."""
    ids: list[int] = tokenizer.encode(prompt).tolist() if isinstance(prompt, str) else prompt
    if len(ids) > block_size:
        raise DataError(f"{len(ids):,} tokens; the model reads at most {block_size:,}")
    for position, token in enumerate(ids):
        if token >= len(tokenizer):
            last = len(tokenizer) - 1
            raise DataError(f"token {token} at position {position}: the last token is {last}")
    return ids


def _samplings(request: CompletionRequest, n: int) -> list[Sampling]:
    """Returns the sampling of `n` choices, each with its own seed."""
    if request.temperature < MIN_TEMPERATURE:
        return [GREEDY] * n
    seed = secrets.randbits(64) if request.seed is None else request.seed % 2**64
    return [
        Sampling(request.temperature, request.top_k, request.top_p or SMALLEST, int(choice_seed))
        for choice_seed in np.random.SeedSequence(seed).generate_state(n, np.uint64)
    ]


async def _stream(service: Service, run: CompletionRun, with_usage: bool) -> AsyncIterator[bytes]:
    """Yields OpenAI's events, the last of them `[DONE]` or an error.

    Closing it early cancels the work.
    """
    async with aclosing(service.follow(run.run)) as parts:
        async for part in parts:
            if isinstance(part, ProblemError):
                yield error_event(part)
                return
            if part:  # the result is None
                yield _event(run.response([part]))
    if with_usage:
        yield _event(run.response([], run.usage))
    yield DONE


def _event(response: CompletionResponse) -> bytes:
    return format_sse_event(data_str=response.model_dump_json())
