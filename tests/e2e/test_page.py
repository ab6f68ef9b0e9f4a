"""The calculator's page in a real browser, with the real service and the shipped models."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

import httpx2 as httpx
import matplotlib.image
import pytest
from browser import answered, calculate, stop_clock, violations
from forks import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect

WRONG = "313.46*217"  # `direct` gets it wrong: hardly any product is right
LONG = "12345/0.07"  # of which the work has over 200 characters
OpenPage = Callable[..., "Page"]
DOUBTFUL = """all => all.forEach(cell => {
    cell.style.setProperty("--doubt", 0.99);
    cell.classList.add("doubtful", "off");
})"""


def press(page: Page, *names: str) -> None:
    keypad = page.get_by_role("group", name="Keypad")
    for name in names:
        keypad.get_by_role("button", name=name, exact=True).click()


def rows(page: Page) -> list[str]:
    return page.locator("#nodes .characters").all_text_contents()


def plain(number: str) -> str:
    """A number as people write it."""
    return re.sub(r"\.0+(?!\d)", "", number)


# axe does not check texts of a single character.
CONTRAST = """all => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    const luminance = (...layers) => {
        for (const colour of layers) {
            canvas.fillStyle = colour;
            canvas.fillRect(0, 0, 1, 1);
        }
        const linear = [...canvas.getImageData(0, 0, 1, 1).data].map((value) =>
            value <= 10 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    const card = getComputedStyle(document.querySelector(".work")).backgroundColor;
    return all.map((e) => {
        const { color, backgroundColor } = getComputedStyle(e);
        const [low, high] = [luminance(color), luminance(card, backgroundColor)].sort(
            (a, b) => a - b);
        return (high + 0.05) / (low + 0.05);
    });
}"""


def test_an_answer_with_its_evidence(page: Page, address: str) -> None:
    calculate(page, "12.5*3")
    answered(page, "37.5")
    expect(page.locator("#answer")).to_contain_text("Exact arithmetic agrees")
    expect(page.locator("#answer .sure")).to_have_text(re.compile(r"The model was (very )?sure\.$"))
    expect(page.locator("#nodes h3")).to_have_text("12.5×3 = 37.5")

    body = {"expression": "12.5*3", "model": "scratchpad-long"}
    (node,) = httpx.post(f"{address}/v1/calculate", json=body, timeout=PATIENCE).json()["nodes"]
    work = rows(page)
    assert work[0] == node["prompt"]
    assert "".join(work[1:]) == node["output"]
    assert [row[0] for row in work[2:]] == [";", ":", "="]  # a part of the work each

    characters = page.locator("#nodes .line:not(:first-child) .characters span")
    assert characters.count() == len(node["output"])
    for tip in characters.evaluate_all("all => all.map(e => e.title)"):
        assert re.fullmatch(r".: (100|\d+(\.\d+)?)%", tip)


def test_the_shade_is_the_doubt(page: Page) -> None:
    calculate(page, "6/344")  # other digits of its quotient are nearly as probable
    shades = page.locator("#nodes .line:not(:first-child) .characters span").evaluate_all(
        """all => all.map(e => [parseFloat(e.title.slice(3)), e.style.getPropertyValue("--doubt"),
            getComputedStyle(e).backgroundColor, getComputedStyle(e).textDecorationLine])"""
    )
    doubtful = [shade for shade in shades if shade[0] < 90]
    assert doubtful
    assert all(float(doubt) > 0.7 and line == "underline" for _, doubt, _, line in doubtful)
    sure = [shade for shade in shades if shade[0] > 99.9]
    assert len(sure) > len(doubtful)
    assert all(float(doubt) == 0 and line == "none" for _, doubt, _, line in sure)
    assert {colour for *_, colour, _ in doubtful}.isdisjoint({colour for *_, colour, _ in sure})
    by_probability = [
        float(doubt) for _, doubt, *_ in sorted(shades, key=lambda s: (s[0], -float(s[1])))
    ]
    assert by_probability == sorted(by_probability, reverse=True)


def test_an_improbable_digit_is_underlined_on_paper(page: Page) -> None:
    calculate(page, WRONG, "direct")
    lines = page.locator(".sheet [data-at]").evaluate_all(
        """all => all.map(e => [Number(e.style.getPropertyValue("--doubt")) > 0.71, // 90%
            getComputedStyle(e).textDecorationLine])"""
    )
    assert [True, "underline"] in lines
    assert [True, "none"] not in lines
    assert [False, "underline"] not in lines


def test_the_keypad_continues_from_a_result_or_starts_again(page: Page) -> None:
    press(page, "1", "2", "point", "5", "times", "4", "delete", "3", "equals: calculate")
    answered(page, "37.5")
    press(page, "minus", "1", "equals: calculate")
    expect(page.get_by_label("Expression")).to_have_value("37.5−1")
    answered(page, "36.5")
    press(page, "open parenthesis", "7", "plus", "1", "close parenthesis", "divided by", "2")
    expect(page.get_by_label("Expression")).to_have_value("(7+1)÷2")
    page.keyboard.press("Enter")  # the mouse has not taken the focus away
    answered(page, "4")
    press(page, "minus", "7", "equals: calculate")
    answered(page, "−3")
    press(page, "to the power of", "2")
    expect(page.get_by_label("Expression")).to_have_value("(−3)^2")
    press(page, "C: clear")
    expect(page.get_by_label("Expression")).to_have_value("")
    expect(page.locator("#answer")).to_be_empty()


def test_the_keyboard_works_wherever_the_focus_is(page: Page) -> None:
    page.get_by_role("combobox", name="Model").select_option("scratchpad-long")
    page.get_by_label("Expression").blur()
    page.keyboard.type("12*4")
    page.keyboard.press("Backspace")
    page.keyboard.type("3=")
    answered(page, "36")
    page.keyboard.type("+4")
    expect(page.get_by_label("Expression")).to_have_value("36+4")
    page.keyboard.press("Enter")
    answered(page, "40")
    page.keyboard.type("x2")
    expect(page.get_by_label("Expression")).to_have_value("40×2")
    page.keyboard.press("Enter")
    answered(page, "80")

    page.get_by_role("button", name="7", exact=True).focus()
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")  # presses the key it is on
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(page.get_by_label("Expression")).to_have_value("78")
    page.keyboard.type("-8=")
    answered(page, "70")

    page.get_by_label("Expression").focus()
    page.keyboard.press("Tab")  # does not move the caret
    page.get_by_role("button", name="plus").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Expression")).to_have_value("70+")
    page.get_by_label("Expression").fill("5😀")
    press(page, "delete")  # both units of UTF-16
    expect(page.get_by_label("Expression")).to_have_value("5")


def test_an_answer_to_another_expression_says_to_which(page: Page) -> None:
    field, question = page.get_by_label("Expression"), page.locator("#answer .question")
    shown, unseen = (re.compile(clip) for clip in ("^none$", "^inset"))
    calculate(page, "12.5*3", "scratchpad-long")
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


def test_invisible_characters_are_not_pasted(page: Page) -> None:
    page.get_by_label("Expression").fill("1+3")
    page.keyboard.press("ArrowLeft")
    page.keyboard.insert_text("\u202a12\u200b.5\u202c")  # marks of direction around a number
    page.keyboard.type("0")
    expect(page.get_by_label("Expression")).to_have_value("1+12.503")
    page.goto(f"{page.url}#q=%E2%80%AA2%2B2%E2%80%AC")
    answered(page, "4")
    expect(page.get_by_label("Expression")).to_have_value("2+2")


def test_an_input_method_keeps_its_keys(page: Page) -> None:
    calculate(page, "1+1", "scratchpad-long")
    answered(page, "2")
    urls: list[str] = []
    page.on("request", lambda request: urls.append(request.url))
    session = page.context.new_cdp_session(page)
    composed = {"text": "7+8", "selectionStart": 3, "selectionEnd": 3}
    session.send("Input.imeSetComposition", composed)
    for key in ("9", "Enter"):  # it chooses a candidate, and accepts it
        session.send("Input.dispatchKeyEvent", {"type": "rawKeyDown", "key": key})
    expect(page.get_by_label("Expression")).to_have_value("7+8")
    session.send("Input.insertText", {"text": "7+8"})  # what it does then
    session.detach()
    page.keyboard.press("Enter")
    answered(page, "15")
    assert [url.endswith("/v1/calculate/stream") for url in urls].count(True) == 1


def test_the_focus_is_not_lost_with_what_had_it(open_page: OpenPage) -> None:
    page = open_page(motion=True)
    field = page.get_by_label("Expression")
    page.get_by_role("combobox", name="Model").select_option("scratchpad-long")
    page.locator("#examples").get_by_role("button", name="12.5×3").press("Enter")
    answered(page, "37.5")
    expect(field).to_be_focused()
    calculate(page, "1" * 45 + "+2")
    page.get_by_role("button", name="Calculate anyway").press("Enter")
    expect(page.locator("#answer")).not_to_be_empty()
    expect(field).to_be_focused()
    page.get_by_label("Slow motion").check()
    stop_clock(page)  # or it ends by itself
    field.fill("2+2")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Show all").press("Enter")
    answered(page, "4")
    expect(field).to_be_focused()
    page.locator(".sheet [tabindex='0']").press("Escape")  # closes the box beside the digit
    page.keyboard.press("Escape")
    expect(page.locator("#answer")).to_be_empty()
    expect(field).to_be_focused()


def test_each_step_shows_its_part_of_the_expression(page: Page) -> None:
    calculate(page, "(1+2)*(3-4)")
    answered(page, "−3")
    expect(page.locator("#nodes h3")).to_have_text(["1+2 = 3", "3−4 = −1", "3×−1 = −3"])
    expect(page.locator("#nodes .context b")).to_have_text(["1+2", "3−4", "(1+2)×(3−4)"])


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
    assert rows(page)[1::2] == [node["output"] for node in truth["nodes"]]  # a row each: no steps
    expect(page.locator("#history button")).to_contain_text("✗")


def test_a_checkpoint_can_be_selected(page: Page) -> None:
    facts = page.locator("#model-facts")
    choice = page.get_by_role("combobox", name="Model")
    expect(choice).to_have_value("scratchpad-long")
    expect(facts).to_contain_text("806,272 parameters, exact on ")
    expect(facts).to_contain_text("10,000 test problems; numbers of up to 40 digits, 8 places")
    expect(page.locator("footer")).to_contain_text("a GPT of 806,272 parameters")
    choice.select_option("direct")
    expect(facts).to_contain_text("1,189,248 parameters, exact on 64.12%")
    calculate(page, "753.78+910")
    expect(page.locator("#history .model")).to_have_text("direct")
    names = {
        "Shows its work (scratchpad-long)",
        "The blog’s model (blog)",
        "Answers at once (direct)",
    }
    assert names <= set(choice.locator("option").all_inner_texts())


def test_long_work_is_seen_from_its_lowest_digit_and_without_notes_beside_it(page: Page) -> None:
    calculate(page, f"{'123456789' * 4}*{'987654321' * 4}")
    rows = page.locator(".sheet.long .row")
    expect(rows.first.locator(".cell").last).to_be_in_viewport()
    expect(rows.first.locator(".cell").last).to_have_text("9")
    notes = [note.bounding_box() for note in page.locator(".sheet.long .note").all()[:6]]
    assert all(box is not None and box["height"] < 30 for box in notes)
    result = page.locator("#answer .result").text_content() or ""
    assert " =\u00a01219326313" in result  # the sign does not stand on a line by itself


def test_a_model_can_be_asked_beyond_what_it_was_measured_for(page: Page) -> None:
    number = "123456789" * 4 + "12345"
    calculate(page, f"{number}+2", "scratchpad-small")
    expect(page.get_by_role("alert")).to_contain_text("measured for numbers of at most 40 digits")
    page.get_by_role("button", name="Calculate anyway").click()
    expect(page.locator("#answer")).to_contain_text("The model was not measured for such numbers.")
    expect(page.get_by_role("alert")).to_be_empty()
    expect(page.locator("#nodes h3")).to_contain_text(f"{number}+2 = ")


def test_the_history_survives_a_reload(page: Page) -> None:
    calculate(page, "12.5*3")
    calculate(page, WRONG, "direct")
    page.reload()
    entries = page.get_by_role("list").locator("button:has(.expression)")
    expect(entries).to_have_count(2)
    expect(entries.last).to_have_accessible_name(re.compile(r"12.5×3 =\s37.5 agrees, scratchpad"))
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


def test_tabs_share_the_history(open_page: OpenPage, address: str) -> None:
    page = open_page()
    with page.context.new_page() as other:
        other.goto(address)
        for tab, expression in ((page, "1+1"), (other, "2+2"), (page, "3+3")):
            calculate(tab, expression)
            for shown in (page, other):
                expect(shown.locator("#history .expression").first).to_have_text(expression)
        expect(other.locator("#history .expression")).to_have_text(["3+3", "2+2", "1+1"])
        page.get_by_role("button", name="Clear history").click()
        expect(other.locator("#no-history")).to_be_visible()


def test_slow_motion_can_be_skipped(open_page: OpenPage) -> None:
    page = open_page(motion=True)
    page.get_by_label("Slow motion").check()
    stop_clock(page)
    page.get_by_label("Expression").fill(LONG)
    page.keyboard.press("Enter")
    show_all = page.get_by_role("button", name="Show all")
    show_all.wait_for()  # the model has written everything
    page.clock.run_for(1000)
    page.locator(".sheet [data-at]").nth(2).wait_for()  # it is at the first number
    assert page.locator(".sheet [data-at]").count() < 20
    expect(page.locator("#answer")).to_be_empty()
    expect(page.locator("#work")).to_have_attribute("aria-busy", "true")
    show_all.click()
    answered(page, "176357.14285714")
    assert page.locator(".sheet [data-at]").count() > 100


def test_a_new_calculation_stops_the_previous_one(open_page: OpenPage) -> None:
    page = open_page(motion=True)
    page.get_by_label("Slow motion").check()
    stop_clock(page)
    page.get_by_label("Expression").fill(LONG)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Show all").wait_for()
    page.clock.run_for(1000)
    page.locator(".sheet [data-at]").nth(2).wait_for()  # it is at the first number
    page.get_by_label("Expression").fill("2+2")
    page.keyboard.press("Enter")
    page.clock.resume()
    expect(page.locator("#nodes h3")).to_contain_text("2+2")
    page.get_by_label("Slow motion").uncheck()
    answered(page, "4")
    expect(page.locator("#nodes h3")).to_have_text("2+2 = 4")
    expect(page.locator("#history button")).to_have_count(1)


SIZES = """all => all.map(e => {
    const { width, height } = e.getBoundingClientRect();
    return [e.innerText, width, height];
})"""


LINES = """() => ["[for=places]", "#places", "#history li:last-child .expression"].map(
    (selector) => document.querySelector(selector).getBoundingClientRect().toJSON())"""


def test_it_fits_every_width(page: Page) -> None:
    calculate(page, "(313.46-12)*(7+8.5)/9")
    calculate(page, WRONG, "direct")
    page.get_by_role("combobox", name="Model").select_option("scratchpad-long")  # with places
    page.locator("#running").wait_for(state="hidden")  # it is asked, too
    for width in (320, 360, 640, 768, 1280, 1920):
        page.set_viewport_size({"width": width, "height": 740})
        label, places, earlier = page.evaluate(LINES)
        assert places["top"] < label["top"] < label["bottom"] < places["bottom"], width
        assert earlier["height"] < 1.6 * label["height"], "it is in one line"
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        sizes = page.get_by_role("button").evaluate_all(SIZES)
        assert len(sizes) > 20
        assert [small for small in sizes if min(small[1:]) < 44] == [], width


def test_nested_steps_are_indented_by_a_few_levels(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 740})
    for expression, levels in [("+".join("123456789"), [4, 4, 4, 4, 3, 2, 1, 0]), ("2^6", [0] * 5)]:
        calculate(page, expression, "scratchpad-tiny")
        expect(page.locator("#nodes .node .head")).to_have_count(len(levels))
        depths = "all => all.map(e => Number(e.style.getPropertyValue('--depth')))"
        assert page.locator("#nodes .node").evaluate_all(depths) == levels
        widths = page.locator("#nodes .node .head").evaluate_all(
            "all => all.map(e => e.offsetWidth)"
        )
        assert min(widths) > 200
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390


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


def test_it_is_accessible_and_has_readable_contrast(page: Page, tmp_path: Path) -> None:
    for expression, model in [
        ("6/344", "scratchpad-long"),
        (f"1+{WRONG}", "direct"),
        ("1+x", "direct"),
    ]:
        calculate(page, expression, model)
        if model == "scratchpad-long":
            page.get_by_text("How to read the work").click()
        assert violations(page, rules={"color-contrast": {"enabled": False}}) == []
        # axe looks at the contrast of hidden text only if it is not hidden from readers.
        page.evaluate(
            "() => document.querySelectorAll('[aria-hidden]').forEach(e => e.ariaHidden = null)"
        )
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert violations(page, runOnly=["color-contrast"]) == []
            shaded = page.locator(".characters span, .swatch, .sheet .cell")
            assert min(shaded.evaluate_all(CONTRAST)) >= 4.5
            page.locator(".sheet .cell").evaluate_all(DOUBTFUL)
            assert min(shaded.evaluate_all(CONTRAST)) >= 4.5
            if model != "scratchpad-long":
                continue
            file = tmp_path / "page.png"
            page.screenshot(path=file)
            pixels = matplotlib.image.imread(file)[..., :3]
            assert pixels.std() > 0.05  # more than a single colour
            assert (pixels.mean() > 0.5) == (scheme == "light")


def test_a_screen_reader_reads_the_answer_once(page: Page) -> None:
    answered(page, "14082.9")  # the example, of which it says nothing
    expect(page.locator("#answer")).to_have_attribute("aria-live", "off")
    page.evaluate(
        """() => {
            window.heard = [];
            const region = document.querySelector("#answer");
            new MutationObserver(() => region.textContent && heard.push(region.innerText))
                .observe(region, {childList: true, subtree: true, characterData: true});
        }"""
    )
    calculate(page, "12.5*3")
    answered(page, "37.5")
    (heard,) = page.evaluate("() => window.heard")
    assert re.sub(r"\s+", " ", heard).startswith("12.5×3 = 37.5")
    spoken = page.locator("#nodes .line .unseen").all_text_contents()
    assert re.fullmatch(r"work: \+521\+3", spoken[1])
    assert spoken[2].startswith("row by row: ;3")
    hidden = page.locator("#nodes .seen")
    assert set(hidden.evaluate_all("all => all.map(e => e.ariaHidden)")) == {"true"}
    for control in page.get_by_role("button").all():
        expect(control).to_have_accessible_name(re.compile(r"\w|^[0-9]$"))
    assert page.locator("html").get_attribute("lang") == "en"
    for landmark in ("banner", "main", "contentinfo"):
        expect(page.get_by_role(landmark)).to_have_count(1)
