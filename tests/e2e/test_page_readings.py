"""What the page says of an answer: how it was read, and its exact value if it is rounded."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from browser import answered, calculate, press, violations

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect

OpenPage = Callable[..., "Page"]
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


def test_a_reading_has_a_button_for_the_other_one(page: Page) -> None:
    calculate(page, "100-10%")
    answered(page, "90")
    line = page.locator("#answer .reading")
    expect(line).to_contain_text("Read 100−10% as 100−(10% of 100)")
    assert violations(page) == []
    line.get_by_role("button", name="Calculate 100−(10%)").click()
    answered(page, "99.9")
    expect(page.get_by_label("Expression")).to_have_value("100−(10%)")
    expect(line).to_have_count(0)


# What the page says of an answer, if anything.
LINES = {
    "1/7": "rounded to 8 places, exactly 1/7 = 0.142857 repeating",
    "7/2 to 0 places": "rounded to a whole number: a tie, which goes to the even digit, "
    "exactly 7/2 = 3.5",
    "1/12345678901/1234567890123 to 1 place": "rounded to 1 place",
    "-7//2+1:4": "Read 1:4 as 1÷4; −7//2 as −7÷2 rounded down",
    "1/2": None,
    "1/7&off=1.1": None,  # it is wrong
}


def test_what_is_said_of_an_answer(page: Page, address: str) -> None:
    said = page.locator("#answer :is(.rounded, .reading)")
    for typed, line in LINES.items():
        page.goto("about:blank")
        page.goto(f"{address}/#q={typed}")
        page.locator("#answer .value").wait_for()
        expect(said, typed).to_have_text([line] if line else [])
        expect(said.locator(".period")).to_have_text(["142857"] if typed == "1/7" else [])


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
    page.get_by_role("combobox", name="Model").select_option("calculator")
    press(page, "C: clear", "1", "comma", "1", "2", "5", "times", "3", "equals: calculate")
    answered(page, "3,375")
    press(page, "times", "2")
    field = page.get_by_label("Expression")
    expect(field).to_have_value("3,375×2")
    field.press("ArrowUp")
    expect(field).to_have_value("1,125×3")
    link = page.url
    assert link.endswith("#q=1%2C125*3&comma=1&model=calculator")
    page.evaluate("location.hash = '#q=1,125*2&model=calculator'")  # of a page with points
    answered(page, "2250")
    page.get_by_label("Decimal places").select_option("3")  # asks again
    page.wait_for_url("**places=3")
    answered(page, "2250")

    page = open_page()  # in English
    page.goto(link)
    answered(page, "3.375")
