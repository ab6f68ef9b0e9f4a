"""The page without a service: an exported folder on a static host, the model run by Chromium."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser import answered, calculate, hold, new_context, violations

from calcgpt.checkpoint import Checkpoint
from calcgpt.export import web
from calcgpt.export.web import MAX_BYTES
from datagen.files import sha256

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
    others = {*(exported_folder / "models").iterdir()}
    others.remove(exported_folder / "models/calculator.safetensors")
    assert sum(file.stat().st_size for file in files - others) <= 3_100_000
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
    exported.get_by_role("button", name="Watch it learn").click()
    expect(exported.locator(".learning .title")).to_contain_text("After 50 steps")
    calculate(exported, "5 km+3 km")
    expect(exported.get_by_role("button", name="Calculate 5+3")).to_be_visible()
    exported.get_by_role("button", name="How a transformer does it").last.click()
    expect(exported.locator(".story")).to_be_visible()
    exported.context.set_offline(False)


def test_a_model_that_is_loading_shows_how_much_of_it_is_there(
    open_page: OpenPage, host_address: str
) -> None:
    page = open_page(host_address)
    release = hold(page, "**/models/*")
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
        story = page.get_by_role("button", name="How a transformer does it").last
        expect(story).to_be_visible(visible=has_scripts)
        links = page.locator("a").evaluate_all("all => all.map(e => e.getAttribute('href'))")
        assert links == ["#work"]


def test_an_example_plays_before_any_model_has_loaded(
    open_page: OpenPage, host_address: str
) -> None:
    page = open_page(host_address)
    hold(page, "**/models/*")
    page.reload()
    answered(page, "14082.9")
    expect(page.locator("#example")).to_be_visible()
    page.locator(".sheet [data-at='19']").hover()
    expect(page.locator(".readout .next")).to_contain_text("1 in")
    page.get_by_role("button", name="Look inside the model").click()
    expect(page.locator(".looked-at")).to_contain_text("It wrote")
    expect(page.locator("#history button")).to_have_count(0)


def test_a_host_that_failed_is_asked_again(browser: Browser, host_address: str) -> None:
    with new_context(browser, reduced_motion="reduce") as context:
        page = context.new_page()
        page.route("**/backend.json", lambda route: route.fulfill(status=503), times=1)
        page.goto(host_address)
        expect(page.get_by_role("combobox", name="Model")).to_be_enabled()
        calculate(page, "12.5*3")
        answered(page, "37.5")


def test_samples_and_other_checkpoints_side_by_side(
    exported: Page, checkpoints: dict[str, Checkpoint]
) -> None:
    calculate(exported, "471/299", "calculator")
    answered(exported, "1.57525084")
    exported.get_by_role("button", name="Compare models").click()
    tally, samples = exported.locator(".beside [role=status]"), exported.locator(".sample")
    # It begins with a temperature at which at least one differs.
    expect(samples.get_by_text("Differs from character")).not_to_have_count(0)
    temperature = exported.get_by_label("Temperature")
    temperature.fill("0")  # greedy
    expect(tally).to_have_text("6 of 6 samples end in the exact answer.")
    expect(samples.get_by_text("The same text as above")).to_have_count(6)
    temperature.fill("2")
    expect(samples.get_by_text("Differs from character")).not_to_have_count(0)
    expect(tally).to_contain_text("of 6 samples")
    drawn = samples.all_inner_texts()
    exported.get_by_label("Sample from").select_option("2")
    expect(tally).to_contain_text("of 6 samples")
    assert samples.all_inner_texts() != drawn
    exported.get_by_label("Sample from").select_option("")
    expect(samples).to_have_text(drawn, use_inner_text=True)  # a seed repeats them
    exported.get_by_role("button", name="Draw new samples").click()
    expect(samples.first).to_contain_text("Sample 7")
    expect(tally).to_contain_text("of 6 samples")

    exported.get_by_role("button", name="Run all models").click()
    expect(samples.locator("strong")).to_have_count(6 + len(checkpoints))
    others = samples.filter(has_not_text="Sample")
    expect(others.filter(has_text="206,016 numbers")).to_contain_text("✓ 1.57525084")
    expect(others.filter(has_text="the blog’s model")).to_contain_text("✗")
    exported.set_viewport_size({"width": 320, "height": 900})
    assert exported.evaluate("() => document.documentElement.scrollWidth") <= 320
    assert violations(exported) == []


PLAYED_TWICE = """() => {
    window.timers = 0;
    const setTimeout = window.setTimeout;
    const pause = 1200;  // between two snapshots
    window.setTimeout = (callback, ms) => ms === pause ? ++window.timers : setTimeout(callback, ms);
    const play = [...document.querySelectorAll(".learning button")].find(
        ({ textContent }) => textContent === "Play");
    for (let n = 0; n < 3; n += 1) play.click();  // Play, Pause, Play
}"""
WATCH = """() => {
    const panel = document.querySelector(".learning");
    const title = () => panel.querySelector(".title")?.textContent ?? "";
    const steps = () => title().match(/After [0-9,]+ steps/)?.[0];
    window.shown = [steps()];
    const observer = new MutationObserver(() => {
        if (!steps() || steps() === window.shown.at(-1)) return;
        if (window.shown.push(steps()) < 3) return;
        observer.disconnect();
        const buttons = [...panel.querySelectorAll("button")];
        buttons.find(({ textContent }) => textContent === "Pause").click();  // before it has ended
    });
    observer.observe(panel, { childList: true, subtree: true, characterData: true });
}"""


def test_a_training_can_be_watched(exported: Page) -> None:
    calculate(exported, "12*3", "direct")
    exported.get_by_role("button", name="Watch it learn").click()
    panel, steps = exported.locator(".learning"), exported.get_by_label("Steps of training")
    expect(panel.locator(".title")).to_contain_text("After 50 steps")
    expect(panel.locator(".sample .wrong")).to_contain_text("exact is 36")
    n = int(steps.get_attribute("max") or 0) + 1
    expect(panel.locator("circle")).to_have_count(n)
    steps.press("End")
    expect(panel.locator(".sample .right")).to_contain_text("36")
    expect(panel.locator(".plot .wrong, .plot .right")).to_have_text(["✗", "✓"])
    panel.locator("circle").nth(1).click()
    expect(panel.locator(".title")).to_contain_text("After 100 steps")
    exported.evaluate(WATCH)
    panel.get_by_role("button", name="Play").click()
    exported.wait_for_function("() => window.shown.length > 2")  # each is shown for a second
    expect(panel.get_by_role("button", name="Play")).to_be_visible()
    played = exported.evaluate("() => window.shown")[1:3]
    assert played == ["After 50 steps", "After 100 steps"]  # from the first on
    assert violations(exported) == []
    exported.evaluate(PLAYED_TWICE)
    expect(panel.get_by_role("button", name="Pause")).to_be_visible()
    exported.wait_for_function("() => window.timers > 0")
    steps.evaluate("slider => slider.dispatchEvent(new Event('input'))")  # shows it once more
    assert exported.evaluate("() => window.timers") == 1


def test_the_other_side_of_a_tie_is_not_wrong(exported: Page, host_address: str) -> None:
    exported.goto(f"{host_address}/#q=9/8&model=calculator&panel=learning&trained=2000")
    verdict = exported.locator(".learning .sample .right")
    expect(verdict).to_have_text("✓ 1.13 As near as 1.12, the even one.")
    expect(exported.locator(".learning .plot .right")).to_have_text("✓")


def test_a_training_that_did_not_load_is_loaded_again(
    open_page: OpenPage, host_address: str
) -> None:
    page = open_page(host_address)
    page.route("**/learning.json", lambda route: route.fulfill(body="no"), times=1)
    calculate(page, "12*3", "direct")
    button = page.get_by_role("button", name="Watch it learn")
    button.click()
    expect(page.locator(".learning .hint").first).to_have_text("The snapshots could not be loaded.")
    button.click()
    button.click()
    expect(page.locator(".learning .title")).to_contain_text("After 50 steps")


def test_snapshots_are_small_and_whole() -> None:
    folder = web.PAGE / "learning"
    run = json.loads((folder / "learning.json").read_text("utf-8"))
    files = {snapshot["file"]: snapshot["sha256"] for snapshot in run["snapshots"]}
    assert {path.name: sha256(path) for path in folder.glob("*.safetensors")} == files
    assert sum((folder / file).stat().st_size for file in files) <= MAX_BYTES
