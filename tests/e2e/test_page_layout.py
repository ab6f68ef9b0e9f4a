"""Where the page puts its parts: at every width, with large letters, from right to left."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from browser import answered, calculate

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect

OpenPage = Callable[..., "Page"]
PRODUCT = "471×29.9"
SHIFTS = """() => {
    window.shifts = [];
    window.observer = new PerformanceObserver((list) => shifts.push(...list.getEntries()));
    observer.observe({ type: "layout-shift", buffered: true });
}"""
SHIFTED = (
    """() => [...shifts, ...observer.takeRecords()].reduce((sum, { value }) => sum + value, 0)"""
)
SIZES = """all => all.map(e => {
    const { width, height } = e.getBoundingClientRect();
    return [e.innerText, width, height];
})"""
LINES = """() => ["[for=places]", "#places", "#history li:last-child .expression"].map(
    (selector) => document.querySelector(selector).getBoundingClientRect().toJSON())"""
LEFTS = "all => all.map(e => e.getBoundingClientRect().left)"


PHONES = [(320, 568), (320, 700), (360, 640), (360, 740), (360, 800), (390, 844), (844, 390)]
ZOOMED = (640, 360)  # a window of 1280x720, with letters twice as large
CUT = """all => all.map(e => [e.id || e.innerText, e.getBoundingClientRect()]).filter(
    ([, { top, bottom, width }]) => !width || top < 0 || bottom > innerHeight)"""


@pytest.mark.parametrize("state", ["", "#q=471/299", "#q=7%2B8&off=2.1", "#q=1/3&off=3.1"])
def test_a_phone_shows_the_field_the_answer_the_work_and_all_keys(
    reuse: Callable[[str], Page], address: str, state: str
) -> None:
    """Whatever the answer says: that it was rounded, written without a part, and wrong."""
    page = reuse(f"{address}/{state}")
    page.locator("#answer .value").wait_for()
    page.locator("#running").wait_for(state="hidden")
    expect(page.locator("#keypad").get_by_role("button")).to_have_count(35)
    parts = page.locator("#prove, #expression, #answer .value, #strip, #keypad button")
    for width, height in [*PHONES, ZOOMED]:
        page.set_viewport_size({"width": width, "height": height})
        assert parts.evaluate_all(CUT) == [], (width, height)


def test_what_a_phone_shows_of_the_work_leads_to_it(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    answered(page, "14082.9")
    expect(page.locator("#strip .row")).to_have_text(["+942", "1408", "140829"])
    page.get_by_label("Expression").focus()
    while not page.locator("#to-work").evaluate("link => link === document.activeElement"):
        page.keyboard.press("Tab")  # the page passes over nothing but the button that copies
        assert not page.locator("#keypad :focus").count()
    page.keyboard.press("Enter")
    expect(page.locator("#work")).to_be_focused()
    expect(page.locator("#work-title")).to_be_in_viewport()

    page.get_by_role("link", name="Remove it").click()
    answered(page, "14")
    page.locator("#to-work").click()
    expect(page.locator("#nodes .sheet")).to_be_in_viewport()  # below the switches, which are open


@pytest.mark.parametrize(("width", "height"), [(360, 640), (1280, 800)])
def test_nothing_moves_while_the_page_loads(open_page: OpenPage, width: int, height: int) -> None:
    page = open_page(viewport={"width": width, "height": height})
    answered(page, "14082.9")
    page.add_init_script(f"({SHIFTS})()")
    page.reload()
    answered(page, "14082.9")
    expect(page.get_by_role("combobox", name="Model")).to_be_enabled()
    assert page.evaluate(SHIFTED) < 0.02


def test_numbers_run_from_left_to_right_and_are_not_translated(page: Page) -> None:
    calculate(page, PRODUCT)
    answered(page, "14082.9")
    page.evaluate("() => { document.documentElement.dir = 'rtl'; }")
    lefts = page.locator(".sheet .row").last.locator(".cell").evaluate_all(LEFTS)
    assert lefts == sorted(lefts)
    for part in ("#expression", "#answer .result", ".problem", ".expression"):
        expect(page.locator(part).first).to_have_css("direction", "ltr")
    for part in ("#expression", "#answer .value", ".problem", ".sheet .cell"):
        assert page.locator(part).first.evaluate("e => e.translate") is False, part


def test_digits_stand_in_groups_that_are_not_copied(page: Page) -> None:
    calculate(page, "-12345678.12345*1", "calculator")
    value = page.locator("#answer .value")
    expect(value).to_have_text("−12345678.12345")
    groups = ["345", "678", "45"]
    expect(value.locator(".group")).to_have_text(groups)
    expect(page.locator(".problem .group")).to_have_text(groups * 2)  # the question and the answer
    expect(page.locator("#history .group")).to_have_text(groups * 2)
    copied = "e => { getSelection().selectAllChildren(e); return getSelection().toString(); }"
    assert value.evaluate(copied) == "−12345678.12345"
    assert "−12345678.12345" in page.locator("#answer .result").aria_snapshot()
    calculate(page, "1234+0.5")
    expect(value).to_have_text("1234.5")
    expect(value.locator(".group")).to_have_count(0)


def test_it_fits_every_width(page: Page) -> None:
    calculate(page, "(313.46-12)*(7+8.5)/9")
    calculate(page, "313.46*217", "direct")  # with a wrong answer, and why
    page.get_by_role("combobox", name="Model").select_option("calculator")  # with places
    page.locator("#running").wait_for(state="hidden")  # it is asked, too
    for width in (320, 360, 640, 768, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 740})
        label, places, earlier = page.evaluate(LINES)
        assert places["top"] < label["top"] < label["bottom"] < places["bottom"], width
        assert earlier["height"] < 1.6 * label["height"], "it is in one line"
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        sizes = page.get_by_role("button").evaluate_all(SIZES)
        assert len(sizes) > 20
        assert [small for small in sizes if min(small[1:]) < 44] == [], width


def test_long_work_is_seen_from_its_lowest_digit_and_without_notes_beside_it(page: Page) -> None:
    calculate(page, f"{'123456789' * 4}*{'987654321' * 4}")
    rows = page.locator(".sheet.long .row")
    expect(rows.first.locator(".cell").last).to_be_in_viewport()
    expect(rows.first.locator(".cell").last).to_have_text("9")
    notes = [note.bounding_box() for note in page.locator(".sheet.long .note").all()[:6]]
    assert all(box is not None and box["height"] < 30 for box in notes)
    result = page.locator("#answer .result").text_content() or ""
    assert " =\u00a01219326313" in result  # the sign does not stand on a line by itself


def test_operations_that_are_right_and_sure_are_folded(page: Page) -> None:
    opened = "all => all.map(e => e.open)"
    calculate(page, "(1/3-12)*(7+8.5)*3", "calculator")
    details = page.locator("#nodes details.operation")
    assert details.evaluate_all(opened) == [False, False, False, False, True]
    depths = "all => all.map(e => e.style.getPropertyValue('--depth'))"
    assert page.locator("#nodes .node").evaluate_all(depths) == ["3", "2", "2", "1", "0"]
    page.get_by_role("button", name="Open or fold all").click()
    assert all(details.evaluate_all(opened))
    answered(page, "−542.5")
    expect(page.locator("#answer .agrees")).to_have_text("✓Exact arithmetic agrees.")
    calculate(page, "(1+2)*313.46*217", "direct")
    assert details.evaluate_all(opened)[1:] == [True, True]


def test_a_printed_page_has_the_answer_and_the_work_without_controls(page: Page) -> None:
    calculate(page, "(1+2)*3")
    answered(page, "9")
    expect(page.locator(".node").first.locator(".sheet")).to_be_hidden()  # the step is folded
    page.evaluate("() => dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    expect(page.locator(".sheet").first).to_be_visible()
    expect(page.get_by_label("Expression")).to_be_visible()
    expect(page.locator("#answer .value")).to_be_visible()
    expect(page.locator(".sheet").last).to_be_visible()
    for name in ("button", "radio", "checkbox", "combobox", "link"):
        expect(page.get_by_role(name)).to_have_count(0)
    expect(page.locator("#brain")).to_be_hidden()
    expect(page.get_by_label("Expression")).to_be_focused()
    expect(page.get_by_label("Expression")).to_have_css("outline-style", "none")
