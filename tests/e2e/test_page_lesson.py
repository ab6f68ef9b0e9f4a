"""The lesson: what its cards say is what the model says, and it is printed on two sides."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from browser import answered, violations

from calcgpt.checkpoint import Checkpoint
from calcgpt.registry import resolve

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect


def test_each_card_says_what_the_model_says_without_a_connection(
    open_page: Callable[..., Page], host_address: str
) -> None:
    page = open_page(host_address, viewport={"width": 360, "height": 740})
    page.get_by_role("link", name="A lesson of twenty minutes").click()
    answered(page, "16")
    lesson = page.get_by_role("region", name="A lesson of twenty minutes")
    for hidden in ("#keypad", "#model", ".history", "#brain", "footer"):
        expect(page.locator(hidden)).to_be_hidden()
    assert page.get_by_label("Expression").evaluate("e => e.inputMode") == "text"
    page.context.set_offline(True)
    for number in range(1, 7):
        question = page.get_by_label("Expression").input_value()
        heading = lesson.get_by_role("heading")
        expect(heading).to_have_text(re.compile(f"^{number} of 6: .*: {re.escape(question)}$"))
        expect(lesson.get_by_role("button", name=re.compile("see", re.I))).to_be_disabled()
        page.locator("#work[aria-busy=false]").wait_for()
        assert violations(page) == [], number
        lesson.get_by_role("radio").last.check()
        lesson.get_by_role("button", name=re.compile("see", re.I)).click()
        why = lesson.locator(".why")
        is_last_right = number not in (1, 3)  # there, it is nearly the same, and the same
        verdict = "You predicted it." if is_last_right else "Right is “"
        expect(why).to_contain_text(verdict)
        answer = page.locator("#answer .value").inner_text()
        expect(why).to_contain_text(f" = {answer}. ")
        if number < 6:
            lesson.get_by_role("button", name="Next").click()
    expect(lesson.get_by_role("row")).to_have_count(5)
    page.context.set_offline(False)
    page.emulate_media(media="print")
    expect(page.get_by_role("heading", name="Answers")).to_be_visible()
    for hidden in ("#answer", ".turn", ".tagline", "#work"):
        expect(page.locator(hidden)).to_be_hidden()
    expect(page.locator(".handout")).to_contain_text("56÷8 = 730. It ")
    margin = dict.fromkeys(("top", "right", "bottom", "left"), "1cm")
    for paper in ("A4", "Letter"):
        pdf = page.pdf(format=paper, margin=margin)
        assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == 2, paper
    page.emulate_media(media="screen")
    lesson.get_by_role("button", name="Leave the lesson").click()
    expect(lesson).to_be_hidden()
    expect(page.locator("#keypad")).to_be_visible()


def test_what_the_lesson_says_of_parts_is_measured(exported: Page, host_address: str) -> None:
    checkpoint = Checkpoint.load(resolve("calculator"))
    assert checkpoint.switches
    right = {s: round(100 * p) for s, p in checkpoint.switches.parts["1.n51"].right.items()}
    exported.goto(f"{host_address}/#q=7+8&lesson=99")
    lesson = exported.locator("#lesson")
    expect(lesson.get_by_role("heading").first).to_contain_text("6 of 6: ")
    answered(exported, "15")
    assert exported.url.endswith("&lesson=6")
    exported.goto(f"{host_address}/#lesson=2")
    answered(exported, "5")
    lesson.get_by_role("radio").first.check()
    lesson.get_by_role("button", name="Remove it, and see").click()
    said = f"{right['+']} of +, {right['*']} of × and {right['/']} of ÷"
    expect(lesson.locator(".why")).to_contain_text(f"no − is right without it, but {said}.")
    assert right["-"] == 0
    expect(lesson.locator(".why")).to_contain_text(f"{checkpoint.recipe.train.steps:,} times")
