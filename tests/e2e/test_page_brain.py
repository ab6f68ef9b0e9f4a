"""The panel that switches parts of the model off: what is written, the headline, the goal of the
day and their links."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from browser import answered, calculate, violations

from calcgpt.checkpoint import Checkpoint
from calcgpt.registry import resolve

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect
LATE = datetime(2026, 1, 2, 23, 59, tzinfo=UTC)
DAY = LATE.toordinal() - datetime(1970, 1, 1, tzinfo=UTC).toordinal()


def test_a_part_is_switched_off_and_on_with_a_service(page: Page) -> None:
    """The service has no switches, so the engine in the browser writes."""
    calculate(page, "9-4")
    page.locator("#brain > summary").click()
    page.get_by_text("neurons of layer 1").click()
    switch = page.get_by_role("button", name="Switch off neuron 51 of layer 1: breaks ")
    expect(switch).to_have_attribute("aria-pressed", "false")
    expect(switch).to_contain_text("breaks ")
    page.set_viewport_size({"width": 360, "height": 740})
    switch.press("Enter")
    answered(page, "3")
    expect(page.locator(".outcome-line")).to_be_in_viewport(ratio=1)
    expect(page.locator("#answer")).to_contain_text("Written without neuron 51 of layer 1.")
    expect(page.locator(".outcome-line")).to_have_text("9−4 = 3 ✗ exact is 5")
    expect(page.locator(".sheet .cell.off").first).to_be_visible()
    expect(switch).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#brain .about")).to_contain_text("99% of ×")
    assert page.url.endswith("&off=1.n51")
    assert violations(page) == []
    groups = page.locator("#brain .layer")
    expect(groups.locator("button[tabindex='0']")).to_have_count(groups.count())  # a stop each
    switch.press("ArrowRight")
    expect(groups.locator("button[tabindex='0']:focus")).to_have_count(1)
    expect(switch).not_to_be_focused()
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
    answered(exported, "56")
    assert "off" not in exported.url
    exported.reload()
    answered(exported, "56")
    expect(exported.locator("#error")).to_be_empty()


def test_the_front_door_removes_a_neuron_and_puts_it_back(
    exported: Page, host_address: str
) -> None:
    page = exported
    page.set_viewport_size({"width": 360, "height": 640})
    page.goto(host_address)
    claim = page.locator("#dare").inner_text().replace("\xa0", " ")
    model = Checkpoint.load(resolve("calculator")).recipe.model
    assert f"{model.n_layer * model.ff_width} neurons" in claim
    door = page.get_by_role("link", name="Remove it")
    for part in (page.locator("#dare"), door):
        expect(part).to_be_in_viewport(ratio=1)
    door.click()
    answered(page, "14")
    assert claim.endswith(" 7 + 8 = 14.")
    dare = page.locator("#dare")
    expect(dare).to_have_text("I removed one neuron of 264. Now it says 7 + 8 = 14.")
    assert violations(page) == []
    page.get_by_role("button", name="Put it back").click()
    answered(page, "15")
    expect(dare).to_have_text(claim, use_inner_text=True)
    for off, removed in (("3.1", "one head of 12"), ("3.1,1.n51", "2 parts")):
        page.goto(f"{host_address}/#q=7%2B8&off={off}")
        expect(dare).to_contain_text(f"I removed {removed}. ")
    page.goto(f"{host_address}/#q=7%2B8&off=3.1")
    expect(dare).to_contain_text("It still says 7 + 8 = 15.")
    page.goto(f"{host_address}/#q=2%5E500&off=1.n9")
    expect(dare).to_contain_text(re.compile(r"Now it says 2\^500\s=\s\d+…"))
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.goto(f"{host_address}/#off=1.n9")
    page.reload()
    expect(page.locator("#brain .bar")).to_contain_text("Off: neuron 9 of layer 1.")
    expect(dare).to_have_text("I removed one neuron of 264. What does it still know?")
    neurons = page.locator(".neurons[open] .switch b")
    expect(neurons).to_have_count(model.ff_width)
    names = {f"neuron {n} of layer 1" for n in range(1, model.ff_width + 1)}
    assert set(neurons.all_text_contents()) == names
    weak = page.get_by_role("button", name="Switch off neuron 1 of layer 1: breaks at most 1 in 10")
    expect(weak).to_be_visible()
    page.get_by_role("button", name="Put it back").click()
    expect(dare).to_have_text(claim, use_inner_text=True)


def test_a_page_without_that_model_does_not_claim_it(
    open_page: Callable[..., Page], host_address: str
) -> None:
    page = open_page(host_address)

    def rename(route: Route) -> None:
        content = route.fetch().json()
        content["models"] = [{**content["models"][0], "id": "mine"}]
        route.fulfill(json=content)

    page.route("**/backend.json", rename)
    page.reload()
    expect(page.locator(".tagline")).to_have_text("A neural network calculates here.")
    expect(page.get_by_role("link", name="Remove it")).to_have_count(0)
    calculate(page, "7+8")
    answered(page, "15")


def test_the_goal_of_the_day_is_met_and_its_link_has_a_page(
    open_page: Callable[..., Page], host_address: str
) -> None:
    page = open_page(host_address, permissions=["clipboard-read", "clipboard-write"])
    page.clock.set_fixed_time(LATE)
    switches = Checkpoint.load(resolve("calculator")).switches
    assert switches
    number = DAY % len(switches.goals)
    goal = switches.goals[number]
    page.goto(f"{host_address}/#q=1&model=calculator")
    page.locator("#brain > summary").click()
    box = page.locator(".goal")
    expect(box.get_by_role("heading")).to_contain_text(goal.answer.replace("-", "−"))
    box.get_by_role("button", name="Begin").click()
    expect(page.locator("#answer")).to_contain_text("Exact arithmetic agrees.")
    expect(page.locator("#brain .bar")).not_to_contain_text("You tried")
    expect(page.get_by_role("button", name="All on again")).to_be_hidden()
    others = [part for part in ("3.1", "3.2", "2.1") if part not in goal.parts]
    for part in (others[0], others[1], goal.parts[0]):  # each in place of the one before
        page.locator(f'[data-part="{part}"]').evaluate("e => e.click()")
        expect(page.locator("#brain .bar")).to_contain_text("Off: ")
        page.locator("#running").wait_for(state="hidden")
    status = page.locator("#brain .verdict-line").get_by_role("status")
    expect(status).to_contain_text("✓ Done: it says ")
    expect(status).to_contain_text("You tried 3 parts.")
    assert violations(page) == []
    page.get_by_role("button", name="Share the result").click()
    expect(status).to_have_text("Copied.")
    text, _, link = page.evaluate("navigator.clipboard.readText()").rpartition(" ")
    assert re.fullmatch(r"CalcGPT, January 2: I made it say .* found at try 3\.", text)
    assert link.startswith(f"{host_address}/static/dare-{number}.html#q=")
    page.goto("about:blank")
    page.goto(link)
    answered(page, goal.answer.replace("-", "−"))
    assert page.url.startswith(f"{host_address}/#q=")
    expect(page.locator("#dare")).to_contain_text("I removed one ")


def test_a_link_with_parts_off_leads_through_a_page_with_a_picture(
    open_page: Callable[..., Page], host_address: str
) -> None:
    page = open_page(host_address, permissions=["clipboard-read", "clipboard-write"])
    page.goto(f"{host_address}/#q=9-4&off=1.n51,3.1")
    answered(page, "3")
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#copied")).to_have_text("Copied.")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{host_address}/static/off.html#q=9-4&")
    page.goto("about:blank")
    page.goto(link)
    answered(page, "3")
    assert page.url.startswith(f"{host_address}/#q=9-4&")  # the model is added when it is listed
    assert page.url.endswith("&off=1.n51%2C3.1")
