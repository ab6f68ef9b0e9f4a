"""The endpoints that calculate: one answer, a batch, and a stream."""

from fractions import Fraction
from typing import Any

import pytest
from expressions import expressions, value_of
from fake_decoder import calculator_model, worked_model
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st
from serving import JSON, ask, batch, client_of, events_of, items_of, problem, stream

from api import calculate
from api.fairness import Turns
from calcgpt.errors import ExpressionError
from calcgpt.inference import calculator, effort
from calcgpt.inference.calculator import USUAL_LENGTH, Computation

WORKED = worked_model()


def test_an_answer_comes_with_its_evidence(client: TestClient) -> None:
    response = ask(client, " 2 × (12.5 + 3)")
    assert response.status_code == 200
    answered = response.json()
    first, second = answered.pop("nodes")
    assert answered.pop("confidence")["whole"] > 0.99
    assert answered == {
        "expression": "2*(12.5+3)",
        "reading": None,
        "alternative": None,
        "result": "31",
        "exact": "31",
        "fraction": "31",
        "places": 8,
        "rounded": False,
        "verified": True,
        "model": "exact",
    }
    assert first.pop("confidence")["weakest_step"] > 0.99
    assert first == {
        "expression": "12.5+3",
        "position": 6,
        "end": 14,
        "path": [],
        "problem": "12.5+3",
        "prompt": "$8(00000012.5+0000000003)=",
        "work": "+5210+0300+5510:5510+",
        "output": "+5210+0300+5510:5510+=5.51000000$",
        "result": "15.5",
        "exact": "15.5",
        "agrees": True,
        "proved": False,
        "rounded": False,
    }
    assert (second["problem"], second["result"]) == ("2*15.5", "31")


@settings(max_examples=60)
@given(expressions(max_leaves=5), st.sampled_from(["exact", "direct"]))
def test_a_model_that_is_right_gives_the_value_by_fractions(
    client: TestClient, typed: str, model: str
) -> None:
    response = ask(client, typed, model=model, places=2)
    if response.status_code == 200:
        answered = response.json()
        right = round(value_of(typed) * 100)
        assert Fraction(answered["exact"]) * 100 == right
        assert answered["verified"] == (Fraction(answered["result"]) * 100 == right)
        assert answered["verified"] or model == "direct"  # whose steps have two places
    else:
        document = problem(response, 422)
        kind = document["type"].rpartition(":")[2]
        assert kind in ("division-by-zero", "out-of-range")
        assert 0 <= document["position"] < document["end"] <= len(typed)
        if kind == "division-by-zero":
            with pytest.raises(ZeroDivisionError):
                value_of(typed)


def test_a_wrong_answer_is_reported(client: TestClient) -> None:
    reported = ask(client, "(1+2)*3", model="wrong")
    assert reported.status_code == 200
    answered = reported.json()
    assert (answered["result"], answered["exact"], answered["verified"]) == ("126", "9", False)
    assert [node["agrees"] for node in answered["nodes"]] == [False, True]


@pytest.mark.parametrize(
    ("expression", "kind", "position"),
    [("", "syntax", 0), ("1,234,5+2", "decimal-comma", 5), ("1" * 60_000, "too-long", 10_000)],
)
def test_an_invalid_expression_is_422_with_its_position(
    client: TestClient, expression: str, kind: str, position: int
) -> None:
    document = problem(ask(client, expression), 422, kind)
    assert document["position"] == position
    assert position <= document["end"] <= len(expression) + 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"expression": 5}', "expression"),
        (b'{"expression": null}', "expression"),
        (b'{"expression": ["1+1"]}', "expression"),
        (b"{}", "expression"),
        (b'{"expression": "1+1", "precision": 3}', "precision"),
        (b'{"expression": "1+1", "angle": "turns"}', "angle"),
        (b"[]", "body"),
        (b'"1+1"', "body"),
        (b"null", "body"),
        (b"", "body"),
    ],
)
def test_an_invalid_body_is_422_and_names_the_field(
    client: TestClient, body: bytes, field: str
) -> None:
    response = client.post("/v1/calculate", content=body, headers=JSON)
    assert field in problem(response, 422, "invalid-request")["detail"]


def test_a_bad_item_of_a_batch_does_not_affect_the_others(client: TestClient) -> None:
    items = items_of(batch(client, ["12.5+3", "1/0", "2*", "7-9"]))
    assert [item["status"] for item in items] == [200, 422, 422, 200]
    assert items[0]["calculation"] == ask(client, "12.5+3").json()
    assert items[0]["problem"] is None
    assert items[1]["calculation"] is None
    assert items[1]["problem"]["type"] == "urn:calcgpt:problem:division-by-zero"
    assert items[1]["problem"]["position"] == 2
    assert items[3]["calculation"]["result"] == "-2"


def test_an_answer_is_withheld_unless_it_is_sure_and_verified(client: TestClient) -> None:
    answered = ask(client, "1+2").json()
    confidence = answered["confidence"]["whole"]
    assert ask(client, "1+2", min_confidence=confidence).json() == answered
    refused = problem(ask(client, "1+2", min_confidence=1), 422, "not-confident")
    assert refused["calculation"] == answered
    wrong = {"model": "wrong", "require_verified": True}
    refused = problem(ask(client, "(1+2)*3", **wrong), 422, "not-verified")
    assert refused["detail"] == "(1+2)*3 is 9; wrong answers 126"
    assert refused["calculation"]["result"] == "126"
    items = items_of(batch(client, ["1+2", "2*3"], **wrong))
    assert [item["status"] for item in items] == [422, 200]
    name, document = events_of(stream(client, "1+2", min_confidence=1).text)[-1]
    assert (name, document["type"]) == ("error", "urn:calcgpt:problem:not-confident")
    metrics = client.get("/metrics").text
    assert 'calcgpt_abstentions_total{model="wrong",reason="not-verified"} 2.0' in metrics
    assert 'calcgpt_abstentions_total{model="exact",reason="not-confident"} 2.0' in metrics


@pytest.mark.parametrize("more", [{"model": "x" * 60_000}, {"x" * 60_000: 1}])
def test_a_refusal_quotes_little_of_the_request(client: TestClient, more: dict[str, Any]) -> None:
    refused = ask(client, "1+1", **more)
    assert refused.status_code in (404, 422)
    assert len(refused.content) < 4_000


@pytest.mark.parametrize("body", [b'{"expression": "1+1"}', b'{"expression": 5}', b"5", b"{"])
def test_a_media_type_with_a_parameter_is_read_alike(client: TestClient, body: bytes) -> None:
    types = ("application/json", "application/json; charset=utf-8")
    answers = [
        client.post(
            "/v1/calculate", content=body, headers={"content-type": name, "x-request-id": "1"}
        )
        for name in types
    ]
    assert answers[0].content == answers[1].content


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("Content-Encoding", "gzip", 415),
        ("Content-Encoding", "br", 415),
        ("Content-Encoding", "identity", 200),
        ("Content-Type", "application/json ; Charset=utf-16", 415),
        ("Content-Type", 'application/json; charset="ISO-8859-1"', 415),
        ("Content-Type", 'application/json; charset="UTF-8"; a=b', 200),
    ],
)
def test_a_body_in_another_coding_or_charset_is_refused(
    client: TestClient, name: str, value: str, status: int
) -> None:
    headers = {"Content-Type": "application/json", name: value}
    response = client.post("/v1/calculate", content=b'{"expression": "1+1"}', headers=headers)
    assert response.status_code == status
    if status != 200:
        said = value.rpartition("=")[2].strip('"')
        assert repr(said) in problem(response, status)["detail"]
        asked = "identity" if name == "Content-Encoding" else None
        assert response.headers.get("Accept-Encoding") == asked


def test_a_batch_has_a_limit(client: TestClient) -> None:
    assert batch(client, ["1"] * 100).status_code == 200
    for n in (101, 0):
        problem(batch(client, ["1"] * n), 422, "invalid-request")


def test_operations_count_not_expressions() -> None:
    with client_of(calculator_model(), max_pending=4, rate_limit="8/day") as client:
        for expressions in (["1+2+3", "(4+5)*6"], ["1+", "2+3"]):
            assert batch(client, expressions).status_code == 200
        too_many = batch(client, ["1+2+3+4", "5+6+7"])
        assert "5 operations; the limit is 4" in problem(too_many, 422, "too-many-items")["detail"]
        problem(ask(client, "1+2+3+4"), 429, "rate-limited")  # six are counted so far
        assert ask(client, "1+2").status_code == 200
        assert "calcgpt_requests_in_flight 0.0" in client.get("/metrics").text


def test_more_operations_than_the_rate_are_never_allowed() -> None:
    for rate, least in {"9/day;3/hour": "3 per 1 hour", "3/day;9/hour": "3 per 1 day"}.items():
        with client_of(calculator_model(), rate_limit=rate) as client:
            document = problem(batch(client, ["1+1"] * 4), 422, "too-many-items")
            assert document["detail"] == f"4 operations; the rate limit is {least}"
            assert ask(client, "1+2+3").status_code == 200  # with the refused request, three
    with client_of(calculator_model(), rate_limit="3/day") as client:
        assert ask(client, "1+2+3+4").status_code == 200  # three


def test_operations_of_long_numbers_count_as_several(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (calculate, calculator):
        monkeypatch.setattr(module, "USUAL_LENGTH", 200)
    monkeypatch.setattr(effort, "EFFORT_OF_CHARACTER", 20)
    with client_of(worked_model(), max_pending=5) as client:
        expressions = [f"{'1' * 13}*{'2' * 13}"] * 3  # 434 characters each
        assert batch(client, expressions[:2]).status_code == 200
        refused = batch(client, expressions)
        assert "7 operations; the limit is 5" in problem(refused, 422, "too-many-items")["detail"]


def test_planning_counts_too_also_of_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calculator, "EFFORT_OF_READING", USUAL_LENGTH)  # an operation a character
    with client_of(calculator_model(), rate_limit="9/day") as client:
        assert ask(client, "1+1").status_code == 200  # four
        problem(ask(client, "1+"), 422, "syntax")  # three
        problem(ask(client, "1+1"), 429, "rate-limited")


@given(st.lists(st.tuples(st.integers(0, 10**30), st.sampled_from("+*/")), min_size=1, max_size=4))
def test_no_operation_counts_for_more_characters_than_a_usual_one(
    terms: list[tuple[int, str]],
) -> None:
    text = "1" + "".join(f"{sign}{n + 1}" for n, sign in terms)
    try:
        computation = WORKED.calculator.begin(text)
    except ExpressionError:
        return
    assert computation.n_characters <= computation.charge
    assert len(computation.outline) * USUAL_LENGTH <= computation.charge


# The second is refused.
@pytest.mark.parametrize("text", ["1" + "+1" * 39, "sin(" * 99 + "1" + ")" * 99])
def test_a_batch_without_room_is_not_planned_to_its_end(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    model = worked_model()
    assert model.calculator
    begin, read = model.calculator.begin, []

    def counted(text: str, *options: Any, **style: Any) -> Computation:
        read.append(text)
        return begin(text, *options, **style)

    monkeypatch.setattr(model.calculator, "begin", counted)
    with client_of(model, max_pending=100) as client:
        problem(batch(client, [text] * 100), 422, "too-many-items")
    assert len(read) < 20


def test_a_batch_that_runs_out_of_time_returns_what_is_done() -> None:
    model = calculator_model()
    model.decoder.gate.clear()
    with client_of(model, deadline=0.05) as client:
        try:
            done, late = items_of(batch(client, ["1+", "1+1"]))
        finally:
            model.decoder.gate.set()
    assert (done["status"], late["status"]) == (422, 504)
    assert late["problem"]["type"] == "urn:calcgpt:problem:deadline"


def test_a_plan_that_waits_too_long_for_its_turn_is_504() -> None:
    with client_of(calculator_model(), deadline=0.05) as client:
        service = client.app.state.service  # type: ignore[attr-defined]
        service.turns = service.long_plans = Turns(0)
        problem(ask(client, "1+1"), 504, "deadline")
        items = items_of(batch(client, ["sqrt(2)", "1+1"]))
        assert [item["status"] for item in items] == [504, 504]


def test_a_stream_reports_events_as_they_happen(client: TestClient) -> None:
    response = stream(client, "(1+2)*(3+4)")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    events = events_of(response.text)
    whole = ask(client, "(1+2)*(3+4)").json()
    assert events[0] == (
        "start",
        {
            "expression": "(1+2)*(3+4)",
            "model": "exact",
            "places": 8,
            "nodes": [
                {name: node[name] for name in ("expression", "position", "end", "path")}
                for node in whole["nodes"]
            ],
        },
    )
    assert events[-1] == ("result", whole)
    for index, node in enumerate(whole["nodes"]):
        of_node = [(name, data) for name, data in events[1:-1] if data["node"] == index]
        assert of_node[0] == (
            "node",
            {"node": index, "problem": node["problem"], "prompt": node["prompt"]},
        )
        assert of_node[-1] == ("answer", {"node": index, **node})
        tokens = [data for name, data in of_node[1:-1] if name == "token"]
        assert "".join(token["text"] for token in tokens) == node["output"]
        assert all(0.99 < token["probability"] <= 1 for token in tokens)


def test_a_stream_of_an_invalid_expression_does_not_begin(client: TestClient) -> None:
    problem(stream(client, "1+"), 422, "syntax")


def test_a_number_alone_is_its_own_answer(client: TestClient) -> None:
    answered = ask(client, "+12,500").json()
    assert (answered["result"], answered["verified"], answered["nodes"]) == ("12500", True, [])
    (_, start), (_, result) = events_of(stream(client, "+12,500").text)
    assert (start["expression"], start["nodes"], result) == ("12500", [], answered)


def test_an_expression_may_be_long() -> None:
    expression = "+".join(["1"] * 1_000)
    with client_of(calculator_model()) as client:
        answered = ask(client, expression).json()
        assert (answered["result"], len(answered["nodes"])) == ("1000", 999)
        problem(ask(client, expression + "+1+1"), 422, "too-long")
        assert ask(client, f"{'(' * 4_999}12{')' * 4_999}").json()["result"] == "12"
        problem(ask(client, " " * 10_000 + "1"), 422, "too-long")


def test_every_product_of_a_power_counts_as_an_operation() -> None:
    with client_of(calculator_model(), max_pending=4) as client:
        assert ask(client, "2^16").json()["result"] == "65536"
        refused = problem(ask(client, "2^15"), 422, "too-many-items")
        assert refused["detail"] == "6 operations; the limit is 4"
