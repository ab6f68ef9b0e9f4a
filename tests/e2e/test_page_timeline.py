"""The time line below an operation, which goes through its writing character by character."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest
from browser import answered, calculate, stop_clock, violations

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect
OpenPage = Callable[..., "Page"]

LENGTH = 52  # of what the model writes for 471×29.9
SCRUB = """(slider, end) => {
    slider.value = end;
    slider.dispatchEvent(new Event("input"));
}"""
VISIBLE = """all => all.filter(e => e.checkVisibility({ visibilityProperty: true }))
    .map(e => Number(e.dataset.at))"""
PLACES = """() => [".paper", ".rows", ".timeline", "#legend"].map(
    (selector) => document.querySelector(selector).getBoundingClientRect())
    .map(({ top, height }) => [Math.round(top + scrollY), Math.round(height)])"""


def write(page: Page) -> Page:
    calculate(page, "471*29.9", "calculator")
    answered(page, "14082.9")
    page.get_by_role("radio", name="Both").check()
    return page


@pytest.fixture
def written(page: Page) -> Page:
    return write(page)


def slider(page: Page) -> Locator:
    return page.get_by_role("group", name="Time line of 471×29.9").get_by_role("slider")


def scrub(page: Page, end: int) -> None:
    slider(page).evaluate(SCRUB, end)
    expect(slider(page)).to_have_attribute("aria-valuetext", re.compile(f"^character {end} of"))


def raw(page: Page) -> list[int]:
    """The characters of the raw text that are visible."""
    shown: list[int] = page.locator(".characters [data-at]").evaluate_all(VISIBLE)
    return shown


def on_paper(page: Page) -> set[int]:
    return set(page.locator(".sheet [data-at]").evaluate_all(VISIBLE))


def test_it_shows_exactly_the_characters_written_so_far(written: Page) -> None:
    whole = on_paper(written)
    assert raw(written) == list(range(LENGTH))
    expect(slider(written)).to_have_value(str(LENGTH))
    for end in (20, 0, 1, 36, 9, 47, LENGTH - 1):
        scrub(written, end)
        assert raw(written) == list(range(end))
        assert on_paper(written) == {at for at in whole if at < end}
    scrub(written, 20)
    expect(written.locator(".newest")).to_have_text(["1", "1"])  # on paper and in the raw text
    expect(slider(written)).to_have_attribute(
        "aria-valuetext", "character 20 of 52: 1 × 9 + 3 above = 12: writes 2, carries 1"
    )
    labels = written.locator(".sheet .label:not(.unwritten)")
    expect(labels.last).to_have_text("471 × 9 = 4239, the row to add")  # that of a whole row
    expect(written.locator(".sheet .arcs path")).not_to_have_count(0)
    assert "at=20" in written.url
    scrub(written, 47)  # a digit of the answer is a copy of one of the product
    expect(written.locator(".sheet .newest")).to_have_text("4")
    scrub(written, LENGTH)
    assert on_paper(written) == whole
    assert raw(written) == list(range(LENGTH))
    expect(written.locator(".newest, .unwritten")).to_have_count(0)


def test_nothing_moves(written: Page) -> None:
    for width in (320, 1280):
        scrub(written, LENGTH)
        written.set_viewport_size({"width": width, "height": 740})
        places = written.evaluate(PLACES)
        for end in range(LENGTH, -1, -3):
            scrub(written, end)
            paper, rows, _, legend = written.evaluate(PLACES)
            # A place in fractions of a pixel may round otherwise.
            moved = np.abs(np.subtract([paper, rows, legend], [*places[:2], places[3]]))
            assert moved.max() <= 1, (width, end)
        assert written.evaluate("() => document.documentElement.scrollWidth") <= width


def test_it_is_used_with_the_keyboard(written: Page) -> None:
    back = written.get_by_role("button", name="One character back")
    back.press("Enter")
    expect(slider(written)).to_have_value(str(LENGTH - 1))
    back.press("Space")
    expect(slider(written)).to_have_value(str(LENGTH - 2))
    expect(back).to_be_focused()
    forward = written.get_by_role("button", name="One character forward")
    for value in (LENGTH - 1, LENGTH, LENGTH):
        forward.press("Enter")
        expect(slider(written)).to_have_value(str(value))
    slider(written).press("Home")
    expect(slider(written)).to_have_attribute("aria-valuetext", "character 0 of 52")
    assert raw(written) == []
    slider(written).press("ArrowRight")
    slider(written).press("ArrowRight")
    expect(slider(written)).to_have_attribute("aria-valuetext", re.compile("^character 2 of 52: "))
    assert raw(written) == [0, 1]
    expect(slider(written)).to_be_focused()
    assert violations(written) == []
    answered(written, "14082.9")  # the keys did not calculate again


def test_it_plays_and_pauses(open_page: OpenPage) -> None:
    written = write(open_page())
    scrub(written, LENGTH - 3)
    stop_clock(written)
    written.get_by_role("button", name="Play").press("Enter")
    written.clock.run_for(1000)  # in which it plays up to 8 characters
    expect(slider(written)).to_have_value(str(LENGTH))
    play = written.get_by_role("button", name="Play")
    expect(play).to_be_focused()
    play.press("Enter")  # from the start
    pause = written.get_by_role("button", name="Pause")
    written.clock.run_for(1000)
    pause.press("Enter")
    expect(play).to_be_visible()
    value = int(slider(written).input_value())
    assert 3 <= value <= 8
    written.clock.run_for(1000)  # it stays there
    expect(slider(written)).to_have_attribute("aria-valuetext", re.compile(f"^character {value} "))
    assert raw(written) == list(range(value))
    play.press("Enter")
    expect(pause).to_be_visible()
    written.locator(".sheet [data-at='1']").click()
    expect(play).to_be_visible()  # to point at a character pauses
    expect(written.locator(".readout")).to_be_visible()
