"""Links to what the page shows: its address leads back to the same state."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from browser import answered, calculate, hold

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect

COPY = """() => {
    const value = { writeText: async (text) => { window.copied = text; } };
    Object.defineProperty(navigator, "clipboard", { configurable: true, value });
}"""

FORBIDDEN = """() => {
    history.replaceState = () => { throw new DOMException("too often", "SecurityError"); };
}"""


def test_a_link_leads_back_to_what_is_shown(page: Page, address: str) -> None:
    page.get_by_role("combobox", name="Model").select_option(
        "calculator"
    )  # waits until it is loaded
    page.goto(f"{address}/#q=471*29.9%2B0.1&model=calculator&view=both&step=1&at=20")  # an old link
    page.reload()
    answered(page, "14083")
    expect(page.locator(".sheet .pointed")).to_have_attribute("data-at", "19")
    expect(page.locator(".readout")).to_contain_text("Character 20 of 52")
    page.evaluate(COPY)
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_role("status").first).to_have_text("Copied.")
    copied = page.evaluate("window.copied")
    assert copied == f"{address}/#q=471*29.9+0.1&model=calculator&step=1&at=20"
    assert copied == page.url
    page.evaluate("() => Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.get_by_role("button", name="Copy link").click()
    expect(page.get_by_label("Link to what is shown")).to_have_value(copied)
    page.evaluate("location.hash = '#q=2/4&model=calculator&places=3&at=999999'")
    answered(page, "0.5")
    expect(page.get_by_label("Decimal places")).to_have_value("3")
    page.keyboard.press("Escape")
    expect(page.locator("#answer")).to_be_empty()
    page.evaluate("location.hash = '#q=2/4&model=calculator&places=3'")  # its own address
    answered(page, "0.5")
    page.evaluate("location.hash = '#q=2/3&model=calculator'")  # with the default places
    answered(page, "0.66666667")
    expect(page.get_by_label("Decimal places")).to_have_value("8")
    expect(page.locator("#history button")).to_have_count(0)  # links are not asked by the reader


def test_a_link_to_a_model_that_is_not_there_says_which_one_answers(page: Page) -> None:
    page.evaluate("location.hash = '#q=2%2B2&model=mine%3Cb%3E'")
    answered(page, "4")
    facts = page.locator("#model-facts")
    expect(facts).to_contain_text("There is no model “mine<b>” here. This one answers: calculator;")
    page.get_by_role("combobox", name="Model").select_option("direct")
    expect(facts).to_have_text(re.compile("^direct, exact on "))


def test_each_calculation_is_an_entry_of_back(page: Page, address: str) -> None:
    for question, answer in (("1+1", "2"), ("2+2", "4")):
        calculate(page, question, "calculator")
        answered(page, answer)
    page.locator(".sheet [data-at]").first.focus()  # a selection is no entry
    page.go_back()
    answered(page, "2")
    page.keyboard.press("Escape")
    expect(page.locator("#answer")).to_be_empty()
    calculate(page, "3+3", "calculator")
    answered(page, "6")
    page.go_back()  # nor is the page that was empty in between
    answered(page, "2")
    page.go_back()  # to the page before it had a question
    expect(page.locator("#answer")).to_be_empty()
    expect(page.get_by_label("Expression")).to_have_value("")
    assert page.url == f"{address}/"
    page.go_forward()
    answered(page, "2")


def test_a_link_does_not_replace_what_is_typed_before_it_opens(page: Page, address: str) -> None:
    release = hold(page, "**/v1/models")
    page.goto(f"{address}/?x=1#q=1%2B1&model=direct")
    page.get_by_label("Expression").fill("2+3")
    release()
    expect(page.get_by_role("combobox", name="Model")).to_be_enabled()
    expect(page.get_by_label("Expression")).to_have_value("2+3")
    page.evaluate("location.hash = '#q=2%2B2&model=direct'")
    answered(page, "4")


HASHES = """async (questions) => {
    const { DEFAULT_STATE, formatHash, parseHash } = await import("/static/address.js");
    const format = (question) => formatHash({ ...DEFAULT_STATE, question });
    return questions.map((question) => parseHash(format(question)).question);
}"""


def test_an_address_does_not_change_the_expression(plain_page: Page) -> None:
    expected = {
        " 12.5 × (3 − 1) ÷ 2 ": "12.5 * (3 - 1) / 2",
        "1 2+3": "1 2+3",  # an error, and not 12+3
        "1 .5 + 1, 000": "1 .5 + 1, 000",
        "1\u202f000+1": "1\u202f000+1",  # a separator of thousands
        "6 multiplied by 7": "6 multiplied by 7",
        "5 percent of 20": "5 percent of 20",
        "0 x 10": "0 x 10",  # 0x10 is hexadecimal
        "2××3": "2××3",  # an error, and not 2**3
        "2 * × 3": "2 * × 3",
        "7 // 2": "7 // 2",
        "1 1/2÷3": "1 1/2÷3",  # 1 1/2/3 is refused
        "7 / / 2": "7 / / 2",  # an error, and not 7//2
        "7÷÷2": "7÷÷2",
        "1+" * 5_000: "1+" * 5_000,
        "2² ³": "2² ³",
        "0 · 5": "0 · 5",  # not a British 0.5
    }
    assert plain_page.evaluate(HASHES, list(expected)) == list(expected.values())


def test_the_documentation_is_shown(open_page: Callable[..., Page], address: str) -> None:
    page = open_page(address)
    page.goto(f"{address}/docs")
    expect(page.locator(".opblock").first).to_be_visible()
