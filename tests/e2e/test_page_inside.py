"""The look inside the model. tests/unit/page compares its figures with torch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from browser import answered, calculate, violations

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect

OpenPage = Callable[..., "Page"]
LOOK = "Look inside the model"


def drawn(inside: Locator, character: str) -> None:
    """Waits for the look at a character."""
    expect(inside.locator("[data-drawn]")).to_have_attribute("data-drawn", character)


def test_the_look_inside_by_keyboard(page: Page) -> None:
    answered(page, "14082.9")  # the example
    inside = page.locator("#nodes .inside")
    inside.get_by_text(LOOK).press("Enter")
    drawn(inside, "6")
    expect(inside.locator(".sentence")).to_have_text(
        "6 7 × 9 + 2 above + carry 1 = 66: writes 6, carries 6"
    )
    operands = inside.locator(".sentence span").evaluate_all(
        "all => all.map(e => [e.textContent, e.style.color])"
    )
    assert [text for text, _ in operands] == ["7", "9", "2", "1"]
    assert all(colour.startswith("var(--head-") for _, colour in operands)
    expect(inside).to_contain_text(
        "(a digit of a product), and which characters that depends on, at most seven: 9, 7, 2"
    )
    guesses = inside.locator(".of-layers li")
    expect(guesses).to_have_count(4)
    expect(guesses.last).to_have_text("layer 3 6 sure", use_inner_text=True)
    inside.get_by_role("button", name="Write 1 instead").press("Enter")
    expect(inside).to_contain_text(
        "With 1 instead of 6, the answer is 14032.9. Before, it was 14082.9."
    )
    expect(inside.locator(".cell.off")).to_have_text(["1"])
    inside.locator(".what-if [data-at]").first.hover()  # is none of the work above
    inside.get_by_role("button", name="Write 0 instead").press("Enter")
    expect(inside).to_contain_text("With 0 instead of 6")


def test_the_look_inside_is_at_the_character_that_is_chosen(exported: Page) -> None:
    page = exported
    calculate(page, "(58+67)*3", "calculator")
    answered(page, "375")
    sums, products = (page.locator("#nodes .node").nth(index) for index in (0, 1))
    products.get_by_text(LOOK).click()
    drawn(products, "5")
    sums.locator("summary.head").click()
    sums.get_by_text(LOOK).click()
    drawn(sums, "2")
    expect(products.locator(".inside[open]")).to_have_count(0)  # one is open at a time
    expect(sums.locator(".sentence")).to_contain_text("5 + 6 + carry 1 = 12: writes 2, carries 1")
    sums.locator(".paper [data-at]").first.click()
    expect(sums.locator(".sentence")).not_to_contain_text("carry 1")
    assert re.search(r"inside=1.*at=\d+|at=\d+.*inside=1", page.url)
    chosen = sums.locator(".sentence").inner_text()
    page.reload()
    expect(sums.locator(".sentence")).to_have_text(chosen, use_inner_text=True)
    sums.get_by_text(LOOK).click()
    expect(page).not_to_have_url(re.compile("inside"))
    calculate(page, "7", "calculator")  # there is nothing to show
    answered(page, "7")
    expect(page.locator("#nodes .inside")).to_have_count(0)


def test_a_link_to_a_look_opens_a_step_that_is_folded(page: Page, address: str) -> None:
    page.goto(f"{address}/#q=sqrt(2)&model=calculator&inside=1&step=6")
    expect(page.locator("#nodes .turn .inside [data-drawn]")).to_be_visible()


def test_the_look_is_into_the_model_without_the_parts_that_are_off(
    page: Page, address: str
) -> None:
    page.goto(f"{address}/#q=7%2B8&model=calculator&off=1.n9&inside=1&at=1")
    inside = page.locator("#nodes .inside")
    drawn(inside, "+")
    guess = inside.locator(".of-layers code").last
    page.locator("#nodes .cell.off").first.click()
    expect(guess).to_have_text("6")  # in place of 7
    page.get_by_role("button", name="Put it back").click()
    inside.get_by_text(LOOK).click()
    drawn(inside, "5")


@pytest.mark.parametrize(("width", "height"), [(320, 640), (844, 390), (1280, 800)])
def test_the_look_inside_fits_and_passes_axe(
    open_page: OpenPage, address: str, width: int, height: int
) -> None:
    page = open_page(viewport={"width": width, "height": height})
    page.goto(f"{address}/#q=2.08-136.22&model=calculator&inside=1")
    inside = page.locator("#nodes .inside")
    expect(inside.locator("[data-drawn]")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert violations(page) == [], scheme
