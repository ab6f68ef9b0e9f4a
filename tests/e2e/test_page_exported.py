"""The page without a service: an exported folder on a static host, the model run by Chromium."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser import answered, calculate, hold, new_context, violations

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect
OpenPage = Callable[..., "Page"]


def test_it_calculates_without_a_service_and_then_without_a_host(
    open_page: OpenPage, host_address: str, exported_folder: Path
) -> None:
    """Tests the size, too."""
    exported = open_page(host_address, service_workers="allow")
    files = {file for file in exported_folder.rglob("*") if file.is_file()}
    assert sum(file.stat().st_size for file in files) <= 1_100_000
    calculate(exported, "(12.5+3)*2", "calculator")
    answered(exported, "31")
    exported.get_by_label("Angles").select_option("degrees")
    answered(exported, "31")
    calculate(exported, "√2*sin(30)")
    answered(exported, "0.70710678")
    requests = exported.evaluate("performance.getEntriesByType('resource').map(e => e.name)")
    assert len(requests) <= 12  # few: each takes a round trip
    exported.evaluate("async () => { await navigator.serviceWorker.ready; }")
    exported.context.set_offline(True)
    exported.reload()
    calculate(exported, "471/299", "calculator")
    answered(exported, "1.57525084")
    exported.get_by_text("Look inside the model").click()
    expect(exported.locator(".inside [data-drawn]")).to_be_visible()
    calculate(exported, "5 km+3 km")
    expect(exported.get_by_role("button", name="Calculate 5+3")).to_be_visible()
    exported.context.set_offline(False)


def test_a_model_that_is_loading_shows_how_much_of_it_is_there(
    open_page: OpenPage, host_address: str
) -> None:
    page = open_page(host_address)
    release = hold(page, "**/models/*")
    page.reload()  # the example may have loaded the model
    page.get_by_label("Expression").fill("12.5*3")
    page.keyboard.press("Enter")
    expect(page.get_by_role("progressbar")).to_be_visible()
    assert violations(page) == []
    release()
    answered(page, "37.5")


@pytest.mark.parametrize("has_scripts", [True, False])
def test_no_link_leads_to_a_service(browser: Browser, host_address: str, has_scripts: bool) -> None:
    with new_context(browser, java_script_enabled=has_scripts) as context:
        page = context.new_page()
        page.goto(host_address)
        expect(page.get_by_text("This page needs JavaScript.", exact=True)).to_be_visible(
            visible=not has_scripts
        )
        expect(page.get_by_text("What the model wrote ↓")).to_be_visible(visible=has_scripts)
        links = page.locator("a").evaluate_all("all => all.map(e => e.getAttribute('href'))")
        door, lesson = "#q=7+8&model=calculator&off=1.n9", "#q=8+8&model=calculator&lesson=1"
        assert links == [door, "#work", lesson]


def test_an_example_plays_before_any_model_has_loaded(
    open_page: OpenPage, host_address: str
) -> None:
    page = open_page(host_address)
    hold(page, "**/models/*")
    page.reload()
    answered(page, "14082.9")
    expect(page.locator("#example")).to_be_visible()
    expect(page.locator("#history button")).to_have_count(0)


def test_a_host_that_failed_is_asked_again(browser: Browser, host_address: str) -> None:
    with new_context(browser, reduced_motion="reduce") as context:
        page = context.new_page()
        page.route("**/backend.json", lambda route: route.fulfill(status=503), times=1)
        page.goto(host_address)
        expect(page.get_by_role("combobox", name="Model")).to_be_enabled()
        calculate(page, "12.5*3")
        answered(page, "37.5")
