"""What the page says of an answer: how it was read, and its exact value if it is rounded."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from browser import (
    answered,
    calculate,
    events_of_answer,
    leave_to_service,
    press,
    violations,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect

OpenPage = Callable[..., "Page"]
STREAM = "**/v1/calculate/stream"
DECIMALS = """async (fractions) => {
    const { decimal, fraction } = await import("/static/engine/fractions.js");
    return fractions.map(([n, d]) => decimal(fraction(BigInt(n), BigInt(d)), 40));
}"""
MEANT = """async (texts) => {
    const { formatSigns } = await import("/static/format.js");
    const { repairsOf } = await import("/static/repair.js");
    return Promise.all(texts.map(async (text) => (await repairsOf(text)).map(formatSigns)));
}"""
REPAIRS = {  # by what is refused
    "12.5×3+(": ["12.5×3"],
    "1+2)*3": ["(1+2)×3"],
    "6/2(3+4)": ["(6÷2)×(3+4)", "6÷(2×(3+4))"],
    "1/2π": ["(1÷2)×π", "1÷(2×π)"],
    "(3+4)2": ["(3+4)×2"],
    "2+5!!": ["2+(5!)!"],
    "20%(50)": ["20% of (50)", "20 mod (50)"],
    "1 100/200": ["1100÷200", "(1+100÷200)"],
    "12+5, 3*4": ["12+5", "3×4"],
    "5 km + 3 km": ["5 + 3"],
    "1+2=3": ["1+2"],
    "0·5*3": ["0.5×3", "0×5×3"],
    "hello": [],
    "17:00-9:30": [],
    "1/0": [],
}


def answer_with(page: Page, **fields: Any) -> list[dict[str, Any]]:
    """Lets the service give an answer. Returns a list, to which what it was asked is added."""
    asked: list[dict[str, Any]] = []

    def respond(route: Route) -> None:
        asked.append(route.request.post_data_json)
        route.fulfill(body=events_of_answer(**fields))

    page.unroute(STREAM)
    page.route(STREAM, respond)
    return asked


def test_a_reading_has_a_button_for_the_other_one(page: Page) -> None:
    leave_to_service(page)
    reading = "100-10% as 100-(10% of 100); twenty-five as 25"
    answer_with(page, result="90", reading=reading, alternative="100-(10%)")
    calculate(page, "100-10%")
    answered(page, "90")
    line = page.locator("#answer .reading")
    expect(line).to_contain_text("Read 100−10% as 100−(10% of 100); twenty-five as 25")
    assert violations(page) == []
    asked = answer_with(page, result="99.9")
    line.get_by_role("button", name="Calculate 100−(10%)").click()
    answered(page, "99.9")
    expect(page.get_by_label("Expression")).to_have_value("100−(10%)")
    assert [body["expression"] for body in asked] == ["100−(10%)"]
    expect(line).to_have_count(0)
    answer_with(page, result="3", reading="12:4 as 12/4; 7//2 as 7//2")
    calculate(page, "12:4")
    expect(line).to_have_text("Read 12:4 as 12÷4; 7//2 as 7//2")
    expect(line.get_by_role("button")).to_have_count(0)


def test_a_rounded_answer_has_its_exact_value(page: Page) -> None:
    leave_to_service(page)
    rounding = page.locator("#answer .rounded")
    answer_with(page, result="0.14285714", exact="0.14285714", fraction="1/7", rounded=True)
    calculate(page, "1/7")
    expect(rounding).to_have_text("rounded to 8 places, exactly 1/7 = 0.142857 repeating")
    expect(rounding.locator(".period")).to_have_text("142857")
    answer_with(page, result="4", exact="4", fraction="7/2", rounded=True, places=0)
    calculate(page, "7/2")
    tie = "rounded to a whole number: a tie, which goes to the even digit, exactly 7/2 = 3.5"
    expect(rounding).to_have_text(tie)
    answer_with(page, result="0.1", exact="0.1", fraction=None, rounded=True, places=1)
    calculate(page, "1/9.7")
    expect(rounding).to_have_text("rounded to 1 place")
    answer_with(page, result="0.2", exact="0.1", fraction="1/7", rounded=True, verified=False)
    calculate(page, "1/7")
    answered(page, "0.2")
    expect(rounding).to_have_count(0)  # it is wrong


def test_a_fraction_has_its_period(plain_page: Page) -> None:
    draw = random.Random(0)
    fractions = [Fraction(draw.randint(-999, 999), draw.randint(2, 99)) for _ in range(300)]
    pairs = [[str(f.numerator), str(f.denominator)] for f in fractions]
    for value, parts in zip(fractions, plain_page.evaluate(DECIMALS, pairs), strict=True):
        assert parts or value.denominator > 40  # 1/97 has a period of 96 digits
        if parts:
            digits, period = parts["digits"], parts["period"]
            repeated = Fraction(int(period or 0), 10 ** len(period) - 1) if period else Fraction(0)
            shown = Fraction(f"{parts['whole']}.{digits}") + repeated / 10 ** len(digits)
            assert shown == abs(value)
            assert len(parts["whole"] + digits + period) <= 40


def test_what_was_probably_meant(plain_page: Page) -> None:
    assert plain_page.evaluate(MEANT, list(REPAIRS)) == list(REPAIRS.values())


def test_an_error_takes_back_the_title_and_what_was_meant_is_one_tap_away(page: Page) -> None:
    title = page.title()
    calculate(page, "12.5*3")
    expect(page).to_have_title("12.5×3 = 37.5 · CalcGPT")
    calculate(page, "12.5*3+")
    expect(page).to_have_title(title)
    page.get_by_role("button", name="Calculate 12.5×3").click()
    answered(page, "37.5")


def test_a_browser_that_writes_a_comma_reads_one(open_page: OpenPage) -> None:
    page = open_page(locale="de-DE")
    expect(page.get_by_role("combobox", name="Model")).to_be_enabled()
    leave_to_service(page)
    asked = answer_with(page, expression="1.125*3", result="3.375", reading="1,125 as 1.125")
    press(page, "C: clear", "1", "comma", "1", "2", "5", "times", "3", "equals: calculate")
    answered(page, "3,375")
    expect(page.locator("#answer .reading")).to_have_text("Read 1,125 as 1.125")
    press(page, "times", "2")
    field = page.get_by_label("Expression")
    expect(field).to_have_value("3,375×2")
    field.press("ArrowUp")
    expect(field).to_have_value("1,125×3")
    link = page.url
    assert link.endswith("#q=1%2C125*3&comma=1&model=calculator")
    assert [body.get("decimal_comma") for body in asked] == [True]
    page.evaluate("location.hash = '#q=1.125*2&model=calculator'")  # of a page with points
    answered(page, "3,375")
    page.get_by_label("Decimal places").select_option("3")  # asks again
    page.wait_for_url("**places=3")
    answered(page, "3,375")
    assert [body.get("decimal_comma") for body in asked[1:]] == [None, None]

    page = open_page()  # in English
    leave_to_service(page)
    asked = answer_with(page, result="3.375")
    page.goto(link)
    answered(page, "3.375")
    assert [body.get("decimal_comma") for body in asked] == [True]
