"""Functions on the page: angles, and the tree of their steps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from browser import answered, calculate

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect


def test_the_steps_of_a_function_are_a_folded_tree(page: Page) -> None:
    calculate(page, "1+√2")
    answered(page, "2.41421356")
    call, total = page.locator("#nodes > li").all()
    expect(call.locator("> details > summary")).to_have_text(
        "sqrt(2) = 1.41421356✓right8 operations"
    )
    expect(total.locator("h3")).to_have_text("1+1.41421356 = 2.41421356")
    expect(page.locator(".sheet:visible")).to_have_count(1)  # that of the sum
    call.locator("> details > summary").click()
    rows = call.locator("> details > ol > li")
    expect(rows).to_have_count(4)
    expect(rows.nth(2).locator("h3").first).to_have_text(re.compile(r"2\. d = \(x÷z\^m − z\)÷y = "))
    expect(page.locator(".sheet:visible")).to_have_count(1)
    rows.nth(0).locator("summary").first.click()
    rows.nth(0).locator("li summary").first.click()
    expect(rows.nth(0).locator(".sheet:visible")).to_have_count(1)


def test_of_very_many_operations_some_are_in_a_folded_group(page: Page) -> None:
    calculate(page, "1" + "+1" * 49 + "+√2" + "+1" * 9)  # the root has 8 operations
    answered(page, "60.41421356")
    groups = page.locator("#nodes > li")
    expect(groups.locator("> details > summary")).to_have_text(
        ["Operations 1 to 57✓right57 operations", "Operations 58 to 67✓right10 operations"]
    )
    assert page.locator("#nodes > li .node:visible").count() == 0
    groups.last.locator("summary").first.click()
    expect(groups.last.locator(".node:visible")).to_have_count(10)
    calculate(page, "1" + "+1" * 51)  # the last one would be alone
    answered(page, "52")
    expect(groups).to_have_count(51)


def test_a_link_to_a_character_of_a_function_opens_its_groups(page: Page, address: str) -> None:
    page.goto(f"{address}/#q=sqrt(2)&step=6&at=3")
    answered(page, "1.41421356")
    pointed = page.locator(".sheet .pointed:visible")
    expect(pointed).to_have_count(1)
    expect(page.locator("#nodes .turn > details[open]")).to_have_count(1)


def test_a_wrong_operation_opens_its_groups(page: Page, address: str) -> None:
    page.goto(f"{address}/#q=2^0.5*3&off=2.1")  # without a head that sums need
    expect(page.locator("#nodes > .call.wrong > details[open]")).to_have_count(1)
    expect(page.locator("#nodes .turn.wrong > details[open]").first).to_be_visible()


def test_angles_are_in_degrees_where_the_user_or_a_link_says_so(page: Page, address: str) -> None:
    calculate(page, "sin(30)")
    answered(page, "−0.98803162")
    angles = page.get_by_label("Angles")
    angles.select_option("degrees")
    answered(page, "0.5")
    expect(page).to_have_url(re.compile("angle=degrees"))
    link = page.url
    page.get_by_role("button", name="sin(30) =").click()  # of the history: it is one of radians
    answered(page, "−0.98803162")
    expect(angles).to_have_value("")
    page.goto("about:blank")
    page.goto(link)
    answered(page, "0.5")
    expect(angles).to_have_value("degrees")
