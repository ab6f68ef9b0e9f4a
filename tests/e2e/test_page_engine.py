"""The engine on the page: what it shows of a model, and where it gets its weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from browser import answered, calculate

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect


def test_a_character_that_is_pointed_at_has_a_box_and_arcs(exported: Page) -> None:
    calculate(exported, "471/299", "calculator")
    answered(exported, "1.57525084")
    exported.get_by_role("radio", name="Both").check()
    exported.locator(".rows .characters span[data-at='20']").click()
    box = exported.locator(".readout")
    expect(box.locator(".where")).to_contain_text("Character 21 of ")
    expect(box.locator(".considered")).not_to_be_empty()
    expect(exported.locator(".arcs path")).not_to_have_count(0)


def test_a_served_page_loads_the_weights_from_the_service(page: Page) -> None:
    with page.expect_response("**/v1/models/calculator/weights") as weights:
        calculate(page, "12.5*3")
    assert weights.value.ok
    answered(page, "37.5")
