"""Places in requests and responses of the calculator's endpoints."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from serving import ask, batch, events_of, items_of, problem, stream


@pytest.mark.parametrize(
    ("places", "result"),
    [(None, "0.33333333"), (8, "0.33333333"), (2, "0.33"), (1, "0.3"), (0, "0")],
)
def test_an_answer_has_the_places_of_the_request(
    client: TestClient, places: int | None, result: str
) -> None:
    answered = ask(client, "1/3", places=places).json()
    assert (answered["result"], answered["places"]) == (result, 8 if places is None else places)
    assert answered["fraction"] == "1/3"
    assert (answered["rounded"], answered["verified"]) == (True, True)
    assert answered["nodes"][0]["rounded"] is True
    exact = ask(client, "100000.001+1", places=places).json()
    assert exact["rounded"] == (places in (0, 1, 2))


def test_places_of_a_batch_and_of_a_stream(client: TestClient) -> None:
    asked = batch(client, ["1/3", "1/0", "12345678901234+1"], places=3)
    first, second, third = items_of(asked)
    assert first["calculation"]["result"] == "0.333"
    assert second["problem"]["type"].endswith("division-by-zero")
    assert third["calculation"]["result"] == "12345678901235"
    events = events_of(stream(client, "1/3", places=3).text)
    assert events[0][1]["places"] == 3
    assert (events[-1][0], events[-1][1]["result"]) == ("result", "0.333")


def test_as_many_as_30_places_are_answered(client: TestClient) -> None:
    answered = ask(client, "2/3", places=30).json()
    assert (answered["result"], answered["verified"]) == (f"0.{'6' * 29}7", True)
    assert ask(client, "2/3 to 3 places").json()["result"] == "0.667"


@pytest.mark.parametrize(
    ("typed", "more", "result", "reading", "alternative"),
    [
        ("100-10%", {}, "90", "100-10% as 100-(10% of 100)", "100-(10%)"),
        ("100-10%", {"percent": "plain"}, "99.9", None, None),
        ("12,500*2", {}, "25000", None, None),
        ("12,500*2", {"decimal_comma": True}, "25", "12,500 as 12.5", "12500*2"),
        ("sin(30)", {"angle": "degrees", "places": 1}, "0.5", None, None),
    ],
)
def test_an_expression_is_read_as_the_request_says(
    client: TestClient, typed: str, more: Any, result: str, reading: str, alternative: str
) -> None:
    answered = ask(client, typed, **more).json()
    found = answered["result"], answered["reading"], answered["alternative"]
    assert found == (result, reading, alternative)


@pytest.mark.parametrize("places", [31, -1, 10**30, 2.0, "2", True])
def test_places_are_whole_numbers_from_0_to_30(client: TestClient, places: object) -> None:
    document = problem(ask(client, "1/3", places=places), 422, "invalid-request")
    assert "places" in document["detail"]


def test_a_model_of_two_places_has_no_others(client: TestClient) -> None:
    assert ask(client, "1/3", model="direct", places=2).json()["result"] == "0.33"
    refused = ask(client, "1/3", model="direct", places=3)
    assert "have 2 places, not 3" in problem(refused, 422, "too-many-places")["detail"]
