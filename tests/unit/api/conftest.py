"""A client of a service with three models."""

from collections.abc import Iterator

import pytest
from fake_decoder import calculator_model, worked_model, wrong_at
from fastapi.testclient import TestClient
from serving import client_of

from datagen.operations import ADDITION


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    """A client of a service with three models: one right in steps, one right at once, and one that
    cannot add."""
    models = (
        worked_model(name="exact"),
        calculator_model(name="direct"),
        calculator_model(wrong_at(ADDITION), name="wrong"),
    )
    with client_of(*models) as client:
        yield client
