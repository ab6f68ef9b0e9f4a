"""The calculator's page in a real browser, with the real service and the shipped models."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import httpx2 as httpx
import pytest
from browser import answered, calculate, stop_clock
from waiting import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect

WRONG = "313.46*217"  # `direct` gets it wrong: hardly any product is right
LONG = "12345/0.07"  # of which the work has over 200 characters
OpenPage = Callable[..., "Page"]


def plain(number: str) -> str:
    """A number as people write it."""
    return re.sub(r"\.0+(?!\d)", "", number)


def test_an_answer_with_its_evidence(page: Page) -> None:
    calculate(page, "12.5*3")
    answered(page, "37.5")
    expect(page.locator("#answer")).to_contain_text("Exact arithmetic agrees")
    expect(page.locator("#answer .sure")).to_have_text(re.compile(r"The model was (very )?sure\.$"))
    expect(page.locator("#nodes h3")).to_have_text("12.5×3 = 37.5")


def test_an_answer_to_another_expression_says_to_which(page: Page) -> None:
    field, question = page.get_by_label("Expression"), page.locator("#answer .question")
    shown, unseen = (re.compile(clip) for clip in ("^none$", "^inset"))
    calculate(page, "12.5*3", "calculator")
    answered(page, "37.5")
    expect(question).to_have_css("clip-path", unseen)
    keys = page.locator("#keypad").bounding_box()
    field.press("End")
    page.keyboard.type("4")
    expect(question).to_have_css("clip-path", shown)
    expect(question).to_have_text("12.5×3")
    assert page.locator("#keypad").bounding_box() == keys
    page.keyboard.press("Backspace")
    expect(question).to_have_css("clip-path", unseen)
    field.fill("2+2")
    page.keyboard.press("Enter")
    page.keyboard.type("+1")  # while the model still writes
    answered(page, "4")
    expect(question).to_have_css("clip-path", shown)
    expect(question).to_have_text("2+2")
    calculate(page, "2+2")
    expect(question).to_have_css("clip-path", unseen)
    field.press("ArrowUp")
    field.press("ArrowUp")
    expect(field).to_have_value("12.5×3")
    expect(question).to_have_css("clip-path", shown)


def test_the_answer_is_copied_as_a_plain_number(open_page: OpenPage) -> None:
    page = open_page(locale="de-DE", permissions=["clipboard-read", "clipboard-write"])
    clipboard = "() => navigator.clipboard.readText()"
    calculate(page, "1-12345,5*2", "calculator")
    answered(page, "−24690")
    page.keyboard.press("Control+C")
    assert page.evaluate(clipboard) == "-24690"
    calculate(page, "0,5-3")
    answered(page, "−2,5")
    page.get_by_role("button", name="Copy the answer").click()
    expect(page.get_by_role("button", name="Copied the answer")).to_be_visible()
    assert page.evaluate(clipboard) == "-2.5"
    page.get_by_label("Expression").press("Control+A")  # the user selects the question
    page.keyboard.press("Control+C")
    assert page.evaluate(clipboard) == "0,5-3"


def test_invisible_characters_are_not_pasted(page: Page) -> None:
    page.get_by_label("Expression").fill("1+3")
    page.keyboard.press("ArrowLeft")
    page.keyboard.insert_text("\u202a12\u200b.5\u202c")  # marks of direction around a number
    page.keyboard.type("0")
    expect(page.get_by_label("Expression")).to_have_value("1+12.503")
    page.goto(f"{page.url}#q=%E2%80%AA2%2B2%E2%80%AC")
    answered(page, "4")
    expect(page.get_by_label("Expression")).to_have_value("2+2")


def test_a_wrong_answer_names_the_wrong_step(page: Page, address: str) -> None:
    body = {"expression": f"(1+2)*{WRONG}", "model": "direct"}
    truth = httpx.post(f"{address}/v1/calculate", json=body, timeout=PATIENCE).json()
    agrees = [node["agrees"] for node in truth["nodes"]]
    assert agrees == [True, False, False]  # if not, WRONG needs another problem
    calculate(page, body["expression"], body["model"])
    answered(page, plain(truth["result"]))
    box = page.locator("#answer .disagrees")
    expect(box).to_contain_text("✗Exact arithmetic disagrees")
    expect(box.locator("dd")).to_have_text([plain(truth["result"]), plain(truth["exact"])])
    errors = [
        plain(f"Step {n}: {node['problem']} is {node['exact']}, not {node['result']}")
        for n, node in enumerate(truth["nodes"], 1)
        if not node["agrees"]
    ]
    expect(box.locator("li")).to_have_text([error.replace("*", "×") for error in errors])
    expect(page.locator("#answer .sure")).to_contain_text("The model gave this a chance of ")
    expect(page.locator("#nodes .node.wrong")).to_have_count(2)
    expect(page.locator("#history button")).to_contain_text("✗")


def test_a_checkpoint_can_be_selected(page: Page) -> None:
    facts = page.locator("#model-facts")
    choice = page.get_by_role("combobox", name="Model")
    expect(choice).to_have_value("calculator")
    expect(facts).to_contain_text("calculator; numbers of up to 10,100 characters")
    expect(page.locator("footer")).to_contain_text("a GPT of 41,596 parameters")
    places = page.get_by_label("Decimal places")
    expect(places.locator("option")).to_have_text([str(n) for n in range(31)])
    choice.select_option("direct")
    expect(facts).to_contain_text("direct, exact on 64.12%")
    expect(places).to_be_hidden()
    calculate(page, "753.78+910")
    expect(page.locator("#history .model")).to_have_text("direct")
    choice.select_option("calculator")
    expect(places).to_have_value("8")
    names = {
        "41,596 numbers, shows its work",
        "905,109 numbers, the blog’s model",
        "1,189,248 numbers, answers at once",
    }
    assert names <= set(choice.locator("option").all_inner_texts())


def test_numbers_have_any_size_whose_work_fits_in_the_context(page: Page) -> None:
    number = "123456789" * 13
    calculate(page, f"{number}*2", "calculator")
    expect(page.get_by_role("alert")).to_be_empty()
    expect(page.locator("#nodes h3")).to_contain_text(f"{number}×2 = ")
    calculate(page, f"{number * 5}*{number * 5}", "calculator")
    expect(page.get_by_role("alert")).to_contain_text("characters; the limit is 400,000")


def test_the_history_survives_a_reload(page: Page) -> None:
    calculate(page, "12.5*3")
    calculate(page, WRONG, "direct")
    page.reload()
    entries = page.get_by_role("list").locator("button:has(.expression)")
    expect(entries).to_have_count(2)
    expect(entries.last).to_have_accessible_name(re.compile(r"12.5×3 =\s37.5 agrees, calculator"))
    expect(entries.first).to_have_accessible_name(
        re.compile(r"313.46×217 =\s.* wrong, exact is 68020.82, direct")
    )
    alert = page.get_by_role("alert")
    calculate(page, "1+")
    expect(alert).not_to_be_empty()
    page.get_by_label("Expression").press("ArrowUp")
    expect(page.get_by_label("Expression")).to_have_value("313.46×217")
    expect(alert).to_be_empty()
    calculate(page, "1+")
    expect(alert).not_to_be_empty()
    entries.last.click()
    expect(page.get_by_label("Expression")).to_have_value("12.5×3")
    expect(alert).to_be_empty()
    page.get_by_role("button", name="Clear history").click()
    expect(entries).to_have_count(0)
    expect(page.locator("#no-history")).to_be_visible()
    # A reload would ask the question of the link again.
    assert page.evaluate("() => localStorage.getItem('calcgpt.history')") == "[]"


@pytest.fixture
def slow(open_page: OpenPage) -> Page:
    """The page after one second of slow motion, in which it shows work that is written already."""
    page = open_page(motion=True)
    page.get_by_label("Slow motion").check()
    stop_clock(page)
    page.get_by_label("Expression").fill(LONG)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Show all").wait_for()
    page.clock.run_for(1000)
    page.locator(".sheet [data-at]").nth(2).wait_for()  # it is at the first number
    return page


def test_slow_motion_can_be_skipped(slow: Page) -> None:
    assert slow.locator(".sheet [data-at]").count() < 20
    expect(slow.locator("#answer")).to_be_empty()
    expect(slow.locator("#work")).to_have_attribute("aria-busy", "true")
    slow.get_by_role("button", name="Show all").click()
    slow.clock.resume()  # it is drawn in slices
    answered(slow, "176357.14285714")
    assert slow.locator(".sheet [data-at]").count() > 80


def test_a_new_calculation_stops_the_previous_one(slow: Page) -> None:
    slow.get_by_label("Expression").fill("2+2")
    slow.keyboard.press("Enter")
    slow.clock.resume()
    expect(slow.locator("#nodes h3")).to_contain_text("2+2")
    slow.get_by_label("Slow motion").uncheck()
    answered(slow, "4")
    expect(slow.locator("#nodes h3")).to_have_text("2+2 = 4")
    expect(slow.locator("#history button")).to_have_count(1)


def test_a_phone_can_install_it(page: Page, address: str) -> None:
    session = page.context.new_cdp_session(page)
    manifest = session.send("Page.getAppManifest")
    assert manifest["errors"] == []
    assert manifest["url"] == f"{address}/static/app.webmanifest"
    start = json.loads(manifest["data"])["start_url"]
    assert urljoin(manifest["url"], start) == f"{address}/"
    reasons = session.send("Page.getInstallabilityErrors")["installabilityErrors"]
    assert [reason["errorId"] for reason in reasons] == ["in-incognito"]  # as all windows here are
    session.detach()
