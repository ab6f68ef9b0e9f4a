"""The page without sight or a mouse: the keyboard, the focus, screen readers, contrast."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib.image
import pytest
from browser import answered, calculate, press, stop_clock, violations

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect

OpenPage = Callable[..., "Page"]
DOUBTFUL = """all => all.forEach(cell => {
    cell.style.setProperty("--doubt", 0.99);
    cell.classList.add("doubtful", "off");
})"""
# axe does not check texts of a single character.
CONTRAST = """(all, part) => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const luminance = (...layers) => {
        for (const colour of layers) {
            canvas.fillStyle = colour;
            canvas.fillRect(0, 0, 1, 1);
        }
        const linear = [...canvas.getImageData(0, 0, 1, 1).data].map((value) =>
            value <= 10 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    const card = getComputedStyle(document.querySelector(".work")).backgroundColor;
    return all.map((e) => {
        const { color, backgroundColor } = getComputedStyle(e, part);
        const [low, high] = [luminance(color), luminance(card, backgroundColor)].sort(
            (a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    });
}"""


def test_the_keyboard_works_wherever_the_focus_is(page: Page) -> None:
    page.get_by_role("button", name="7", exact=True).focus()
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")  # presses the key it is on
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    expect(page.get_by_label("Expression")).to_have_value("78")
    page.keyboard.type("-8=")
    answered(page, "70")
    page.keyboard.type("+5=")
    answered(page, "75")

    page.get_by_label("Expression").focus()
    page.keyboard.press("Tab")  # does not move the caret
    page.get_by_role("button", name="plus").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Expression")).to_have_value("75+")
    page.get_by_label("Expression").fill("5😀")
    press(page, "delete")  # both units of UTF-16
    expect(page.get_by_label("Expression")).to_have_value("5")

    entries = page.locator("#history button")
    page.get_by_role("button", name="Clear history").focus()
    page.keyboard.press("Tab")
    expect(entries.first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(entries.nth(1)).to_be_focused()
    page.keyboard.press("Tab")  # the history is one stop
    expect(page.locator("#history :focus")).to_have_count(0)


def test_an_input_method_keeps_its_keys(page: Page) -> None:
    calculate(page, "1+1", "calculator")
    answered(page, "2")
    session = page.context.new_cdp_session(page)
    composed = {"text": "7+8", "selectionStart": 3, "selectionEnd": 3}
    session.send("Input.imeSetComposition", composed)
    for key in ("9", "Enter"):  # it chooses a candidate, and accepts it
        session.send("Input.dispatchKeyEvent", {"type": "rawKeyDown", "key": key})
    expect(page.get_by_label("Expression")).to_have_value("7+8")
    session.send("Input.insertText", {"text": "7+8"})  # what it does then
    session.detach()
    page.keyboard.press("Enter")
    answered(page, "15")
    expect(page.locator("#history button")).to_have_count(2)


def test_the_focus_is_not_lost_with_what_had_it(open_page: OpenPage) -> None:
    page = open_page(motion=True)
    field = page.get_by_label("Expression")
    page.get_by_role("combobox", name="Model").select_option("calculator")
    page.locator("#examples").get_by_role("button", name="12.5×3").press("Enter")
    answered(page, "37.5")
    expect(field).to_be_focused()
    page.get_by_label("Slow motion").check()
    stop_clock(page)  # or it ends by itself
    field.fill("2+2")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Show all").press("Enter")
    page.clock.resume()  # it is drawn in slices
    answered(page, "4")
    expect(field).to_be_focused()
    page.locator(".sheet [tabindex='0']").press("Escape")  # closes the box beside the digit
    page.keyboard.press("Escape")
    expect(page.locator("#answer")).to_be_empty()
    expect(field).to_be_focused()


def test_it_is_accessible_and_has_readable_contrast(page: Page, tmp_path: Path) -> None:
    for expression, model in [
        ("6/344", "calculator"),
        ("1+313.46*217", "direct"),
        ("1+x", "direct"),
    ]:
        calculate(page, expression, model)
        if model == "calculator":
            page.get_by_text("How to read the work").click()
        assert violations(page, rules={"color-contrast": {"enabled": False}}) == []
        # axe looks at the contrast of hidden text only if it is not hidden from readers.
        page.evaluate(
            "() => document.querySelectorAll('[aria-hidden]').forEach(e => e.ariaHidden = null)"
        )
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert violations(page, runOnly=["color-contrast"]) == []
            shaded = page.locator(".swatch, .sheet .cell")
            assert min(shaded.evaluate_all(CONTRAST)) >= 4.5
            assert min(page.locator("#expression").evaluate_all(CONTRAST, "::selection")) >= 4.5
            page.locator(".sheet .cell").evaluate_all(DOUBTFUL)
            assert min(shaded.evaluate_all(CONTRAST)) >= 4.5
            if model != "calculator":
                continue
            file = tmp_path / "page.png"
            page.screenshot(path=file)
            pixels = matplotlib.image.imread(file)[..., :3]
            assert pixels.std() > 0.05  # more than a single colour
            assert (pixels.mean() > 0.5) == (scheme == "light")


def test_a_screen_reader_reads_the_answer_once(page: Page) -> None:
    answered(page, "14082.9")  # the example, of which it says nothing
    expect(page.locator("#answer")).to_have_attribute("aria-live", "off")
    page.evaluate(
        """() => {
            window.heard = [];
            const region = document.querySelector("#answer");
            new MutationObserver(() => region.textContent && heard.push(region.innerText))
                .observe(region, {childList: true, subtree: true, characterData: true});
        }"""
    )
    calculate(page, "12.5*3")
    answered(page, "37.5")
    (heard,) = page.evaluate("() => window.heard")
    assert re.sub(r"\s+", " ", heard).startswith("12.5×3 = 37.5")
    expect(page.get_by_role("row", name="125 × 3 = 375", exact=True)).to_have_count(1)
    for control in page.get_by_role("button").all():
        expect(control).to_have_accessible_name(re.compile(r"\w|^[0-9]$"))
    assert page.locator("html").get_attribute("lang") == "en"
    for landmark in ("banner", "main", "contentinfo"):
        expect(page.get_by_role(landmark)).to_have_count(1)
