"""The engine on the page: what it shows of a model, and where it gets its weights."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from browser import answered, calculate, violations

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect


def test_a_look_inside(exported: Page) -> None:
    """Where it looked, what it considered, and what follows from another character."""
    calculate(exported, "471/299", "calculator")
    answered(exported, "1.57525084")
    exported.get_by_role("button", name="Look inside the model").press("Enter")
    words = exported.locator(".looked-at")
    slider = exported.get_by_role("group", name="Time line of").get_by_role("slider")
    expect(words).to_have_text("It wrote + as character 1.")
    slider.press("ArrowLeft")
    expect(words).to_have_text("It wrote 1 as character 149.")
    expect(exported.locator(".heads li")).to_have_count(2)
    expect(exported.locator(".inside .candidate")).to_have_count(5)
    expect(exported.locator(".lens li")).to_have_count(5)

    exported.get_by_role("radio", name="Both").check()
    exported.locator(".rows .characters span", has_text=";").click()  # of the model's rows
    expect(words).to_contain_text("It wrote ; as character 10.")
    expect(exported.locator(".arcs path")).not_to_have_count(0)
    before = exported.locator(".arcs path").evaluate_all("all => all.map(e => e.outerHTML)")
    assert before
    exported.get_by_label("Layer").select_option("2")
    exported.get_by_label("Head").select_option("1")
    assert before != exported.locator(".arcs path").evaluate_all("all => all.map(e => e.outerHTML)")
    quotient_digit = (
        exported.locator(".rows .line", has_text="row by row")
        .locator("span")
        .filter(has_text=re.compile("^2$"))
        .first
    )
    # Until its candidates are there, those of the semicolon cannot be chosen.
    assert quotient_digit.evaluate(
        "digit => { digit.click(); return document.querySelector('.inside .candidates').inert; }"
    )
    exported.locator(".candidate:enabled").first.click()  # another digit of the quotient will do
    expect(exported.locator(".what-if")).to_contain_text("It recovers: that is exact.")

    for width, scheme in ((320, "light"), (1280, "dark")):
        exported.set_viewport_size({"width": width, "height": 900})
        assert exported.evaluate("() => document.documentElement.scrollWidth") <= width
        exported.emulate_media(color_scheme=scheme)
        assert violations(exported) == []
    slider.press("ArrowLeft")
    expect(exported.locator(".what-if")).to_be_empty()  # it was about another character
    exported.get_by_role("button", name="Look inside the model").click()
    expect(words).to_have_count(0)


def test_a_served_page_loads_the_weights_from_the_service(page: Page) -> None:
    page.evaluate("() => new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]))")
    with page.expect_response("**/v1/models/calculator/weights") as weights:
        calculate(page, "12.5*3")
    assert weights.value.ok
    answered(page, "37.5")
    page.get_by_role("button", name="Look inside the model").click()
    expect(page.locator(".looked-at")).to_contain_text("It wrote + as character 1.")
