"""Functions on the page: their keys, angles, and the tree of their steps. A right model answers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from browser import answered, calculate, leave_to_service
from fake_decoder import right_with_work

from calcgpt.inference.calculator import Computation
from calcgpt.inference.expression_stack import Style
from calcgpt.inference.limits import ScratchpadLimits

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect
LIMITS = ScratchpadLimits(block_size=4_096)
Write = Callable[[str], str]


def events(asked: dict[str, Any], write: Write) -> Iterator[tuple[str, Any]]:
    """Yields the events of the stream for a request, answered by `write`."""
    style = Style(angle=asked.get("angle", "radians"))
    computation = Computation(asked["expression"], "calculator", LIMITS, style=style)
    nodes = [span.model_dump(mode="json") for span in computation.outline]
    start = {"expression": computation.expression, "model": "calculator"}
    yield "start", start | {"places": computation.places, "nodes": nodes}
    while questions := computation.questions():
        for index, _, problem, prompt in questions:
            yield "node", {"node": index, "problem": problem, "prompt": prompt}
            output = write(prompt)
            for character in output:
                yield "token", {"node": index, "text": character, "probability": 1}
            node = computation.answer(index, output, [1.0] * len(output))
            yield "answer", {"node": index, **node.model_dump(mode="json")}
    yield "result", computation.calculation().model_dump(mode="json")


def answer_all(page: Page, write: Write = right_with_work) -> list[dict[str, Any]]:
    """Answers the requests of a page by `write`. Returns them as they come."""
    requests: list[dict[str, Any]] = []

    def respond(route: Route) -> None:
        requests.append(route.request.post_data_json)
        stream = events(requests[-1], write)
        body = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in stream)
        route.fulfill(body=body)

    leave_to_service(page)
    page.route("**/v1/calculate/stream", respond)
    return requests


def test_the_steps_of_a_function_are_a_folded_tree(page: Page) -> None:
    answer_all(page)
    calculate(page, "1+√2")
    answered(page, "2.41421356")
    call, total = page.locator("#nodes > li").all()
    expect(call.locator("> details > summary")).to_have_text(
        "sqrt(2) = 1.41421356✓right8 operations: a first guess, improved 2 times"
    )
    expect(total.locator("h3")).to_have_text("1+1.41421356 = 2.41421356")
    expect(page.locator(".sheet:visible")).to_have_count(1)  # that of the sum
    call.locator("> details > summary").click()
    rows = call.locator("> details > ol > li")
    expect(rows).to_have_count(4)
    expect(rows.nth(2).locator("h3").first).to_have_text(re.compile(r"2\. d = \(x÷z\^m − z\)÷y = "))
    expect(page.locator(".sheet:visible")).to_have_count(1)
    rows.nth(0).locator("summary").first.click()
    rows.nth(0).locator("li summary").first.click()
    expect(rows.nth(0).locator(".sheet:visible")).to_have_count(1)


def test_a_plot_and_a_sentence_say_how_fast_an_iteration_is(page: Page) -> None:
    answer_all(page)
    calculate(page, "√2")
    answered(page, "1.41421356")
    page.locator("#nodes summary").first.click()
    gains = page.locator("#nodes .row-name", has_text="more digit")
    expect(gains).to_have_text(
        ["1. z = z + d: z got 3 more digits right", "2. z = z + d: z got 3 more digits right"]
    )
    plot = page.get_by_role("img", name="What a turn adds becomes smaller")
    expect(plot).to_be_visible()
    expect(plot.locator("circle")).to_have_count(2)
    calculate(page, "tan(1.5)")
    answered(page, "14.10141995")
    page.locator("#nodes summary").first.click()
    expect(plot.locator("polyline")).to_have_count(2)  # of the sine and of the cosine


def test_a_link_to_a_character_of_a_function_opens_its_groups(page: Page, address: str) -> None:
    answer_all(page)
    page.goto(f"{address}/#q=sqrt(2)&step=6&at=3")
    answered(page, "1.41421356")
    pointed = page.locator(".sheet .pointed:visible")
    expect(pointed).to_have_count(1)
    expect(page.locator("#nodes .turn > details[open]")).to_have_count(1)


def test_a_wrong_operation_opens_its_groups(page: Page) -> None:
    def wrong(prompt: str) -> str:
        right = right_with_work(prompt)
        return right if "/" in prompt else right[: right.rindex("=")] + "=2400000000$"

    answer_all(page, wrong)
    calculate(page, "2^0.5*3")
    expect(page.locator("#nodes > .call.wrong > details[open]")).to_have_count(1)
    expect(page.locator("#nodes .turn.wrong > details[open]").first).to_be_visible()


def test_angles_are_in_degrees_where_the_user_or_a_link_says_so(page: Page, address: str) -> None:
    requests = answer_all(page)
    calculate(page, "sin(30)")
    answered(page, "−0.98803162")
    angles = page.get_by_label("Angles")
    angles.select_option("degrees")
    answered(page, "0.5")
    assert [asked.get("angle") for asked in requests] == [None, "degrees"]
    expect(page).to_have_url(re.compile("angle=degrees"))
    link = page.url
    page.get_by_role("button", name="sin(30) =").click()  # of the history: it is one of radians
    answered(page, "−0.98803162")
    expect(angles).to_have_value("")
    page.goto("about:blank")
    page.goto(link)
    answered(page, "0.5")
    expect(angles).to_have_value("degrees")
