"""The raw model in OpenAI's shape, for its clients and for lm-evaluation-harness."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from api.completing import Completing, stream
from api.completion_schemas import CompletionRequest, CompletionResponse
from api.lifetime import while_connected
from api.routes.calculate import Held
from api.routes.responses import ASKED
from api.service import Service
from api.streaming import EVENT, EventStream

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
