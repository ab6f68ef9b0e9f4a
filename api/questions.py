"""/v1/ask: questions to a model of a user's own task."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from api.calculate import n_operations
from api.http import (
    QUESTION_RESPONSES,
    JsonRoute,
    ProblemError,
    client_of,
    json_response,
    stack_of,
)
from api.schemas import MODEL, Input
from api.service import Service
from calcgpt.base.errors import DataError
from calcgpt.inference.decoding import Written
from calcgpt.inference.questions import prompt_of, reply_of
from calcgpt.inference.results import Confidence

QUESTION = "laptop"
EXAMPLE: dict[str, Any] = {
    "question": QUESTION,
    "result": "potpal",
    "confidence": {"answer": 0.9998, "weakest_step": 1.0, "whole": 0.9998},
    "model": "reverse",
}


class AskRequest(Input):
    """A question to a model of a task."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"question": QUESTION}]})

    model: str | None = MODEL
    question: str = Field(description="the text before the `=`")


class AskResponse(BaseModel):
    """What the model wrote. Nobody checks whether it is right."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    question: str
    result: str | None = Field(description="the answer; null if the model wrote no end")
    work: str | None = Field(None, description="what the model wrote before the answer, if any")
    confidence: Confidence
    model: str


def router(service: Service) -> APIRouter:
    """Returns the route of /v1/ask."""
    routes = APIRouter(route_class=JsonRoute, tags=["tasks"], responses=QUESTION_RESPONSES)

    @routes.post("/v1/ask", response_model=AskResponse)
    async def ask(body: AskRequest, request: Request) -> Response:
        """Ask a model of your own task a question (the guide on tasks). Its entry in /v1/models has
        a `task`, with questions to try."""
        model = service.models.find(body.model)
        checkpoint = model.checkpoint
        if not model.is_of_task:
            detail = f"{model.name} calculates: POST /v1/calculate asks it an expression"
            raise ProblemError(422, detail, kind="other-task")
        try:
            prompt = prompt_of(checkpoint, body.question)
        except DataError as error:
            raise ProblemError(422, str(error), kind="bad-question") from None
        room = model.decoder.block_size + 1 - len(prompt)  # the last character is never read
        client = client_of(request.scope)

        async def work() -> Written:
            async with service.shift(model.decoder, client, room) as shift:
                return await service.write(model.name, model.decoder, prompt, room, shift)

        await service.admit(request, n_operations(room))
        with stack_of(request):
            written = await service.while_connected(request, work())
        reply = reply_of(body.question, written)
        return json_response(AskResponse(**reply._asdict(), model=model.name))

    return routes
