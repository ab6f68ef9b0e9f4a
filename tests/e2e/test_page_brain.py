"""The panel that switches parts of the model off: what is written, its challenges and its link."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from browser import answered, calculate, violations

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect
# The parts that solve each challenge.
SOLUTIONS = {
    "seven": ["1.2"],
    "subtract": ["1.n51"],
    "add": ["1.n47"],
    "divide": ["3.1"],
    "endless": ["3.n45"],
    "idle": ["3.1", "3.2"],
}


def test_a_part_is_switched_off_and_on_with_a_service(page: Page) -> None:
    """The service has no switches, so the engine in the browser writes."""
    calculate(page, "9-4")
    page.locator("#brain > summary").click()
    switch = page.get_by_role("button", name="Switch off neuron 51 of layer 1: breaks ")
    expect(switch).to_have_attribute("aria-pressed", "false")
    page.set_viewport_size({"width": 360, "height": 740})
    switch.press("Enter")
    answered(page, "3")
    expect(page.locator(".outcome-line")).to_be_in_viewport(ratio=1)
    expect(page.locator("#answer")).to_contain_text("Written without neuron 51 of layer 1.")
    expect(page.locator(".outcome-line")).to_have_text("9−4 = 3 ✗ exact is 5")
    expect(page.locator(".sheet .cell.off").first).to_be_visible()
    expect(switch).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#brain .about")).to_contain_text("96% of ×")
    assert page.url.endswith("&off=1.n51")
    assert violations(page) == []
    page.get_by_role("button", name="All on again").click()
    answered(page, "5")
    expect(page.locator("#answer")).not_to_contain_text("Written without")
    assert "off" not in page.url
    page.get_by_role("combobox", name="Model").select_option("direct")
    expect(page.locator("#brain")).to_be_hidden()


def test_a_text_without_an_end_is_no_answer(exported: Page, host_address: str) -> None:
    exported.goto(f"{host_address}/#q=7*8&off=1.ff,3.2")
    expect(exported.locator("#answer")).to_contain_text(
        "head 2 of layer 3. What it wrote has no end"
    )
    expect(exported.get_by_role("button", name="Switch off head 2 of layer 3")).to_have_attribute(
        "aria-pressed", "true"
    )


@pytest.mark.parametrize("off", ["9.9", "<b>", "1.1.1", "1.n999999", "," * 3 + "x" * 5000])
def test_a_part_that_does_not_exist_is_one_line(
    exported: Page, host_address: str, off: str
) -> None:
    exported.goto(f"{host_address}/#q=7*8&off={off}")
    expect(exported.locator("#error")).to_contain_text("This model has no part")
    exported.get_by_role("button", name="All on again").click()
    answered(exported, "56")


def test_each_challenge_has_a_solution_and_is_remembered(exported: Page, host_address: str) -> None:
    exported.goto(f"{host_address}/#q=7*8")
    answered(exported, "56")
    exported.locator("#brain > summary").click()
    challenges = exported.locator(".goal")
    expect(challenges).to_have_count(len(SOLUTIONS))
    for id_, parts in SOLUTIONS.items():
        challenge = exported.locator(f'.goal[data-id="{id_}"]')
        challenge.locator("> summary").click()
        for part in parts:
            expect(challenge.locator(".verdict-line")).not_to_contain_text("Solved")
            exported.locator(f'[data-part="{part}"]').click()
        expect(challenge.locator(".verdict-line")).to_contain_text("Solved")
        exported.get_by_role("button", name="All on again").click()
    exported.reload()
    exported.locator("#brain > summary").click()
    expect(exported.locator(".goal.solved")).to_have_count(len(SOLUTIONS))


def test_a_link_with_parts_off_leads_through_a_page_with_a_picture(
    open_page: Callable[..., Page], host_address: str
) -> None:
    page = open_page(host_address, permissions=["clipboard-read", "clipboard-write"])
    page.goto(f"{host_address}/#q=9-4&off=1.n51")
    answered(page, "3")
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#copied")).to_have_text("Copied.")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{host_address}/static/off.html#q=9-4&")
    page.goto("about:blank")
    page.goto(link)
    answered(page, "3")
    assert page.url.startswith(f"{host_address}/#q=9-4&")  # the model is added when it is listed
    assert page.url.endswith("&off=1.n51")
