"""When the page asks a model: early, again after a choice, and from the history."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from browser import answered, calculate, hold

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect

OpenPage = Callable[..., "Page"]


@pytest.mark.parametrize("chip", [None, "6÷344"])
def test_what_is_asked_before_the_modules_are_there_is_answered(
    page: Page, chip: str | None
) -> None:
    release = hold(page, "**/static/calculator.js")
    with page.expect_request("**/static/calculator.js"):
        page.reload(wait_until="commit")
    field = page.get_by_label("Expression")
    if chip:
        page.get_by_role("button", name=chip).click()
    else:
        page.get_by_role("button", name="7", exact=True).click()
        field.press("End")
        page.keyboard.type("*8")
        page.keyboard.press("Enter")
    expect(field).to_have_value("6÷344=" if chip else "7*8=")
    release()  # the list of modules, and perhaps the script itself
    answered(page, "0.01744186" if chip else "56")
    expect(page.locator("#example")).to_be_hidden()


def test_a_page_whose_modules_do_not_load_says_so(open_page: OpenPage) -> None:
    page = open_page()
    with page.context.new_page() as broken:  # its errors are expected
        broken.route("**/static/runner.js", lambda route: route.abort())
        broken.goto(page.url)
        expect(broken.get_by_role("alert")).to_contain_text("The page did not load completely.")
        expect(broken.locator("#model-facts")).to_be_empty()
        submit = "e => e.dispatchEvent(new Event('submit', {bubbles: true, cancelable: true}))"
        assert not broken.locator("#calculator").evaluate(submit)  # so that it leads nowhere


def test_another_choice_asks_again(page: Page) -> None:
    calculate(page, "1/3", "calculator")
    answered(page, "0.33333333")
    page.get_by_role("combobox", name="Decimal places").select_option("2")
    answered(page, "0.33")
    page.get_by_role("combobox", name="Model").select_option("calculator")
    expect(page).to_have_url(re.compile("model=calculator&places=2"))
    answered(page, "0.33")
    expect(page.locator("#history .value")).to_have_text(re.compile("0.33333333"))  # what was typed
    page.get_by_label("Expression").fill("2+2")  # which was not asked yet
    page.get_by_role("combobox", name="Model").select_option("calculator")
    expect(page.locator("#answer .question")).to_have_text("1÷3")


def test_the_history_asks_the_same_model_for_the_same_places(page: Page) -> None:
    page.get_by_role("combobox", name="Model").select_option("calculator")
    page.get_by_role("combobox", name="Decimal places").select_option("2")
    calculate(page, "1/3")
    answered(page, "0.33")
    calculate(page, "2+2", "calculator")
    page.get_by_role("combobox", name="Decimal places").select_option("8")
    entries = page.locator("#history button")
    count = entries.count()
    entries.filter(has_text="0.33").first.click()
    answered(page, "0.33")
    expect(page.get_by_role("combobox", name="Model")).to_have_value("calculator")
    expect(page.get_by_role("combobox", name="Decimal places")).to_have_value("2")
    expect(page.get_by_label("Expression")).to_be_focused()
    assert entries.count() == count  # the question is listed already
