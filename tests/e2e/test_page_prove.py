"""The button that tries the network in all cases, in the browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from browser import answered, calculate, hold, violations

from calcgpt.checkpoint import load_metrics
from calcgpt.registry import resolve

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect


@pytest.mark.slow
def test_the_smallest_model_is_proved_while_it_answers(page: Page) -> None:
    """The other model takes longer; its cases are tried in tests/unit/page/test_engine.py."""
    margin = load_metrics(resolve("calculator-tiny"))["cases"]["least_margin"]
    page.get_by_role("combobox", name="Model").select_option("calculator-tiny")
    page.get_by_role("button", name="Prove it").click()
    bar, status = page.get_by_role("progressbar", name="Cases"), page.locator("#proof-status")
    expect(status).to_have_text("Your browser tries all cases …")
    expect(page.locator("#proof-count")).to_contain_text("of 943,533: a digit of a quotient")
    assert violations(page) == []
    page.get_by_role("button", name="Pause").click()
    calculate(page, "7*8")  # another worker answers
    answered(page, "56")
    expect(page.get_by_role("button", name="Go on")).to_be_visible()
    assert 0 < float(bar.evaluate("bar => bar.position")) < 1
    page.get_by_role("button", name="Go on").click()
    expect(status).to_have_text("On this device, this network cannot make a mistake.")
    expect(page.locator("#proof-count")).to_have_text("943,533 of 943,533 cases are right.")
    expect(page.locator("#proof-result")).to_contain_text(f"at least {margin:.2f} points")
    expect(page.get_by_role("img", name="58 + 67 as the network writes it")).to_be_visible()
    assert violations(page) == []


@pytest.mark.parametrize("off", ["1.2", "1.n51"])
def test_without_a_part_there_is_a_problem_that_fails(
    exported: Page, host_address: str, off: str
) -> None:
    exported.goto(f"{host_address}/#q=7&off={off}")
    exported.set_viewport_size({"width": 360, "height": 740})
    release = hold(exported, "**/backend.json")
    exported.reload()
    exported.get_by_role("button", name="Prove it").click()  # before the part is known
    release()
    status, result = exported.locator("#proof-status"), exported.locator("#proof-result")
    expect(status).to_contain_text("On this device, this network makes mistakes, without ")
    expect(exported.locator("#proof-count")).to_contain_text("It stopped at the first mistake.")
    expect(result).to_contain_text("; it wrote ")
    width = exported.evaluate("document.documentElement.scrollWidth")
    assert width == 360
    assert violations(exported) == []
    result.get_by_role("link").click()
    expect(exported.locator("#answer")).to_contain_text("Exact arithmetic disagrees")
    expect(exported.locator("#answer")).to_contain_text("Written without ")
    expect(status).to_be_visible()
    exported.get_by_role("button", name="All on again").click()
    expect(status).to_be_hidden()  # it was about another network
    expect(exported.locator("#answer")).to_contain_text("Exact arithmetic agrees")


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_proof_that_is_left_ends(exported: Page, is_paused: bool) -> None:
    calculate(exported, "7*8")  # now the worker that answers is there
    button = exported.get_by_role("button", name="Prove it")
    with exported.expect_worker() as started:
        button.click()
    expect(exported.locator("#proof-count")).to_contain_text("of 943,533: ")
    if is_paused:
        exported.get_by_role("button", name="Pause").click()
    with started.value.expect_event("close"):
        exported.get_by_role("button", name="Close", exact=True).click()
    expect(exported.locator("#proof")).to_be_hidden()
    expect(button).to_be_focused()


def test_only_models_that_show_their_work_are_proved(page: Page) -> None:
    page.get_by_role("combobox", name="Model").select_option("direct")
    expect(page.get_by_role("button", name="Prove it")).to_be_hidden()
