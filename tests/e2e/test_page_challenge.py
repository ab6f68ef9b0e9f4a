"""The button that tries to make the model wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from browser import answered, events_of_answer, leave_to_service, violations

from calcgpt.inference.exact import evaluate
from calcgpt.inference.expression import parse

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect

STREAM = "**/v1/calculate/stream"
SIGNS = str.maketrans("÷×−", "/*-")  # as addresses have them
DRAW = """async () => {
    const { CLASSES } = await import("/static/challenge.js");
    const fifty = (draw) => Array.from({ length: 50 }, draw);
    return Object.fromEntries(CLASSES.map(([name, draw]) => [name, fifty(draw)]));
}"""
EXACT: dict[str, Callable[[Fraction, int], bool]] = {
    "exactly between two answers": lambda x, places: (2 * x * 10**places).denominator == 1,
    "nearly between two answers": lambda x, places: (2 * x * 10**places).denominator != 1,
    "a multiple": lambda x, _: x.denominator == 1,
    "nearly a multiple": lambda x, _: x.denominator != 1,
    "nearly nothing left": lambda x, _: 0 < abs(x) < 1,
    "a borrow through every digit": lambda x, _: str(x).startswith("9999"),
    "a carry through every digit": lambda x, _: str(x).startswith("1000"),
}


def test_problems_are_of_the_class_that_they_are_said_to_be(plain_page: Page) -> None:
    drawn = plain_page.evaluate(DRAW)
    assert len(drawn) > 10
    assert drawn.keys() > EXACT.keys()
    for name, texts in drawn.items():
        assert len(set(texts)) > 25, name
        for text in texts:
            parsed = parse(text)
            assert len(text) < 210, name
            if name in EXACT:
                value = evaluate(parsed.expression)[-1].exact
                assert EXACT[name](value, parsed.places or 0), text


def test_the_score_is_kept(page: Page) -> None:
    asked: list[str] = []

    def respond(route: Route) -> None:
        body: Any = route.request.post_data_json
        asked.append(body["expression"])
        is_wrong = len(asked) == 2
        if len(asked) == 3:
            route.abort()
        else:
            route.fulfill(body=events_of_answer(result="7", verified=not is_wrong))

    expect(page.get_by_role("combobox", name="Model")).to_be_enabled()
    leave_to_service(page)
    page.route(STREAM, respond)
    score = page.locator("#score")
    page.get_by_role("button", name="Try to make it wrong").click()
    expect(score).to_have_text(re.compile(r"^Tried 1, wrong 0 [A-Z].*: right$"))
    page.get_by_role("button", name="Try another one").click()
    expect(score).to_contain_text("Tried 2, wrong 1")
    page.get_by_role("button", name="Try another one").click()
    expect(score).to_contain_text("Tried 2, wrong 1 No answer, so it does not count.")
    page.get_by_role("button", name="20 at once").click()
    expect(score).to_contain_text("Tried 22, wrong 1")
    assert violations(page) == []
    expect(page.locator("#history button")).to_have_count(0)
    page.reload()
    page.get_by_role("button", name="Try to make it wrong").click()
    expect(score).to_contain_text("Tried 23, wrong 1")
    mistake = page.locator("#mistakes a")
    expect(mistake).to_have_text(asked[1])
    mistake.click()
    answered(page, "7")
    expect(page.get_by_label("Expression")).to_have_value(asked[1].translate(SIGNS))
    page.get_by_role("button", name="Reset").click()
    expect(score).to_have_text("Tried 0, wrong 0")
    expect(mistake).to_have_count(0)


@pytest.mark.parametrize("stored", ["[]", "null", "{", '{"tried": 1, "wrong": 2, "mistakes": []}'])
def test_a_damaged_score_begins_anew(page: Page, stored: str) -> None:
    page.evaluate("(text) => localStorage.setItem('calcgpt.score', text)", stored)
    page.reload()
    expect(page.get_by_role("combobox", name="Model")).to_be_enabled()
    leave_to_service(page)
    page.route(STREAM, lambda route: route.fulfill(body=events_of_answer(result="7")))
    page.get_by_role("button", name="Try to make it wrong").click()
    expect(page.locator("#score")).to_contain_text("Tried 1, wrong 0")
