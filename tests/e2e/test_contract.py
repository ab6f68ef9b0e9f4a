"""The service matches its OpenAPI document.

Schemathesis generates valid and invalid requests from the document, and checks the responses.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import schemathesis.specs.openapi.schemas  # now: Python 3.11 cannot parse modules in two threads
from fake_decoder import right_with_work, worked_model, wrong_at
from schemathesis.engine import Status, events, from_schema
from schemathesis.engine.recorder import ScenarioRecorder
from waiting import PATIENCE, wait_for

from api.app import create_app
from api.service import LoadedModel
from api.settings import Settings
from calcgpt.base.errors import NotationError
from calcgpt.base.files import write_json
from datagen.operations import ADDITION

# `make soak`: more examples of each operation, and a report.
EXAMPLES = int(os.environ.get("CONTRACT_EXAMPLES", 90))
SEED = 0
REPORT = os.environ.get("CONTRACT_REPORT")
# Texts with a meaning: little random text would get past the parser.
TEXTS = [
    "12.5+3",
    "(1+2)×3/(4-4)",
    "7-(2*2.5)",
    "5+100000",
    "1,5*2",
    "$(00000012.5+0000000003)=",
    "scratchpad",
    "wrong",
    "error",
]
# 503 and 504 are no server errors, but they must be documented, like all statuses.
ALWAYS = {"not_a_server_error": {"expected-statuses": ["2xx", "3xx", "4xx", "503", "504"]}}
# Requests that match the document may have no meaning, such as `1+`: their status is 404 or 422.
OPEN = {**ALWAYS, "positive_data_acceptance": {"expected-statuses": ["2xx", "404", "422"]}}
# Middleware may refuse any request, valid or not.
GUARDED = {
    **ALWAYS,
    **{
        name: {"enabled": False}
        for name in ("positive_data_acceptance", "negative_data_rejection", "unsupported_method")
    },
}


@dataclass
class Run:
    """The results of all cases."""

    document: dict[str, Any]
    statuses: Counter[int] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    modes: Counter[str] = field(default_factory=Counter)  # negative: the document forbids it
    failures: list[str] = field(default_factory=list)

    def add(self, recorder: ScenarioRecorder) -> None:
        for case, interaction in recorder.interactions.items():
            self.operations[recorder.label] += 1
            if meta := recorder.cases[case].value.meta:
                self.modes[meta.generation.mode.value] += 1
            if interaction.response is not None:
                self.statuses[interaction.response.status_code] += 1
            for check in recorder.checks.get(case, []):
                if failed := check.failure_info:
                    self.failures.append(f"{check.name}: {failed.failure}\n{failed.code_sample}")

    def report(self) -> dict[str, Any]:
        return {
            "tool": f"schemathesis {version('schemathesis')}",
            "seed": SEED,
            "cases": self.operations.total(),
            "modes": dict(sorted(self.modes.items())),
            "statuses": {str(status): n for status, n in sorted(self.statuses.items())},
            "operations": dict(sorted(self.operations.items())),
            "failures": self.failures,
        }


def run(
    settings: dict[str, Any],
    load: Callable[[], Iterator[LoadedModel]],
    checks: dict[str, Any],
    examples: int,
    bounds: bool = True,
) -> Run:
    """Makes requests to all operations: the examples of the document, with `bounds` also values at
    its bounds, and `examples` random ones to each operation that takes a body."""
    config = schemathesis.Config.from_dict(
        {
            "seed": SEED,
            "continue-on-failure": True,
            "request-timeout": PATIENCE,  # by default 10 s
            "generation": {
                "max-examples": examples,
                "deterministic": True,
                "database": "none",
                "dictionaries": {"string": {"dictionary": "texts", "probability": 0.4}},
            },
            "dictionaries": {"texts": {"values": TEXTS}},
            "checks": checks,
            "phases": {
                "stateful": {"enabled": False},  # no operation leads to another
                "coverage": {"enabled": bounds},
            },
        }
    )
    loaded: list[Any] = []
    app = create_app(Settings(**settings), load, loaded.append, loaded.append)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, config=config)
    wait_for(lambda: loaded)
    outcome = Run(app.openapi())
    for event in from_schema(schema).execute():
        if isinstance(event, events.ScenarioFinished):
            assert event.status is not Status.ERROR
            outcome.add(event.recorder)
        elif isinstance(event, events.NonFatalError):
            outcome.failures.append(str(event.info))
        elif isinstance(event, events.FatalError):
            raise event.exception
    return outcome


def model(name: str, answers: Callable[[str], str]) -> LoadedModel:
    """A model that answers any text."""

    def completion(prompt: str) -> str:
        try:
            return answers(prompt)
        except NotationError:
            return "1$"

    return worked_model(completion, name)


def models() -> Iterator[LoadedModel]:
    yield model("scratchpad", right_with_work)
    yield model("wrong", wrong_at(ADDITION, right_with_work))


def no_models() -> Iterator[LoadedModel]:
    raise OSError("the disk is gone")
    yield


def test_responses_match_the_document() -> None:
    settings = {"deadline": PATIENCE}
    outcome = run(settings, models, OPEN, examples=EXAMPLES)
    if REPORT:
        write_json(Path(REPORT), outcome.report())
    assert not outcome.failures, "\n\n".join(outcome.failures[:10])
    assert outcome.operations.total() >= 1_300
    assert outcome.modes["negative"] >= 450  # not the same in every run
    described = {
        f"{method.upper()} {path}"
        for path, methods in outcome.document["paths"].items()
        for method in methods
    }
    assert outcome.operations.keys() == described
    assert outcome.statuses.keys() >= {200, 400, 404, 405, 422}
    assert outcome.statuses[200] > 250


@pytest.mark.parametrize(
    ("settings", "load", "statuses"),
    [
        ({"api_keys": "secret"}, models, {401}),
        ({"rate_limit": "20/hour"}, models, {429}),
        ({"max_body": 200, "deadline": 0.001}, models, {413, 504}),
        ({}, no_models, {503}),
    ],
    ids=["keys", "rate", "limits", "loading"],
)
def test_refusals_of_middleware_are_in_the_document_too(
    settings: dict[str, Any], load: Callable[[], Iterator[LoadedModel]], statuses: set[int]
) -> None:
    outcome = run(settings, load, GUARDED, examples=5, bounds=False)
    assert not outcome.failures, "\n\n".join(outcome.failures[:10])
    assert outcome.statuses.keys() >= statuses
