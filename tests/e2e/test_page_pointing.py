"""Pointing at a character of the paper: what the page says of it, and where that stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from browser import answered, calculate

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect
OpenPage = Callable[..., "Page"]


def test_pointing_at_a_digit_marks_it_and_its_copies(page: Page) -> None:
    calculate(page, "471*29.9", "calculator")
    answered(page, "14082.9")
    cell = page.locator(".sheet [data-at='19']")
    cell.hover()
    expect(page.locator(".readout p:not(.next)")).to_have_text(
        "11 × 9 + 3 above = 12: writes 2, carries 1.Character 20 of 52, sure"
    )
    expect(page.locator(".pointed")).to_have_attribute("data-at", "19")
    page.evaluate("location.hash += '&at=48'")  # the top digit of the answer
    expect(page.locator(".sheet .pointed")).to_have_text("1")  # one row shows it and the product
    assert "at=48" in page.url

    sheet = page.get_by_role("grid", name="The work of 471×29.9")
    page.get_by_role("button", name="Copy link").focus()
    page.keyboard.press("Tab")
    expect(sheet.locator(":focus")).to_have_accessible_name("4: 4, a digit of the first number")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(sheet.locator(":focus")).to_have_text("9")
    page.keyboard.press("End")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".readout")).to_contain_text("7 × 9 = 63: writes 3, carries 6")
    page.keyboard.press("Enter")  # does not calculate again
    expect(sheet.locator(":focus")).to_have_count(1)
    sheet.locator("[data-at='19']").click()
    page.keyboard.press("ArrowRight")
    expect(sheet.locator("[tabindex='0']")).to_have_count(1)  # the Tab key stops once


def test_a_number_of_the_sentence_has_the_colour_of_the_head_that_looked_at_it(page: Page) -> None:
    calculate(page, "471*29.9", "calculator")
    answered(page, "14082.9")
    page.locator(".sheet [data-at='20']").hover()
    numbers = page.locator(".readout [data-source][style]")
    expect(numbers).to_have_text(["7", "9", "2", "1"])  # 7 × 9 + 2 above + carry 1
    colours = "all => all.map(e => e.style.stroke || e.style.color)"
    drawn = page.locator(".sheet .arcs path").evaluate_all(colours)
    assert set(numbers.evaluate_all(colours)) <= set(drawn)
    assert len(set(drawn)) == 4


BOXES = "all => all.map(e => e.getBoundingClientRect().toJSON())"


@pytest.mark.parametrize("width", [320, 390])
def test_a_finger_gets_its_readout(open_page: OpenPage, width: int) -> None:
    """It stands in the window, and covers neither the character nor those that the arcs lead to."""
    page = open_page(viewport={"width": width, "height": 740}, has_touch=True, is_mobile=True)
    calculate(page, "471*29.9", "calculator")
    answered(page, "14082.9")
    box = page.locator(".readout")
    for at in (1, 19, 31, 33):  # the first and the last are at the right edge of the sheet
        cell = page.locator(f".sheet [data-at='{at}']")
        cell.tap()
        expect(box).to_contain_text(f"Character {at + 1} of 52")  # and not the one before
        expect(box.locator(".next")).to_contain_text("1 in")  # it was sure
        boxes = page.locator(f".sheet [data-at='{at}'], .sheet .arcs path")
        lowest = max(part["bottom"] for part in boxes.evaluate_all(BOXES))
        [shown] = box.evaluate_all(BOXES)
        assert lowest < shown["top"] < shown["bottom"] <= 740
        assert 0 <= shown["left"] < shown["right"] <= width
    page.locator("#work-title").tap()
    expect(box).to_be_hidden()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_the_readout_follows_pointer_and_focus(page: Page) -> None:
    calculate(page, "471*29.9", "calculator")
    answered(page, "14082.9")
    box, cell = page.locator(".readout"), page.locator(".sheet [data-at='19']")
    cell.hover()
    expect(box.locator(".next")).to_contain_text("1 in")
    assert page.locator(".paper .arcs path").count() > 0
    cell_box, readout_box = cell.bounding_box(), box.bounding_box()
    assert cell_box
    assert readout_box
    below = readout_box["y"] - cell_box["y"] - cell_box["height"]
    above = cell_box["y"] - readout_box["y"] - readout_box["height"]
    assert 0 < max(below, above) < 20  # beside it
    page.mouse.move(5, 5)
    expect(box).to_be_hidden()
    expect(page.locator(".arcs path")).to_have_count(0)
    cell.focus()
    expect(box).to_be_visible()
    page.keyboard.press("Escape")  # closes it, and nothing else
    expect(box).to_be_hidden()
    answered(page, "14082.9")
