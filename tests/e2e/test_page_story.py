"""The story of how a transformer does it. tests/unit/page compares its figures with torch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from browser import answered, calculate, violations

from calcgpt.registry import resolve
from datagen.work import render
from tools.node import in_node

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect

OpenPage = Callable[..., "Page"]
Dissection = dict[str, Any]
START = "How a transformer does it"
TITLES = [
    "Characters become numbers",
    "It is told where to look",
    "A head fetches digits",
    "Neurons add and multiply",
    "Layer by layer, the guess gets better",
    "Scores become a character",
    "Its numbers come from small corrections",
]
EXAMPLE = b"$8(0000000471*00000029.9)="
FOLLOWED = 20  # the 6 of 7 × 9 + 2 above + carry 1 = 66, by its index in what the model wrote
OFF = ["1.n51", "3.1"]  # a neuron that is for differences, and a head
DISSECT = """async ({ file, line, start, at, off }, read) => {
    const { readWeights } = await import("/static/engine/weights.js");
    const { Network } = await import("/static/engine/network.js");
    const { Memory, write } = await import("/static/engine/write.js");
    const { dissect, follow } = await import("/static/engine/dissect.js");
    const network = new Network(readWeights(read(file)), off);
    const memory = new Memory(network, "$()*+-./0123456789:;=an|");
    const text = [line, ...write(memory, line)].map((one) => one.text ?? one).join("");
    const found = dissect(memory, text, start + at);
    const active = [...follow(memory, text, start, found.neurons)];
    return { ...found, embeddings: Array.from(found.embeddings), active, text, start };
}"""


def dissected(line: bytes, at: int, off: list[str]) -> Dissection:
    """What the engine finds of a character, by its index in what the model wrote."""
    file = str(resolve("calculator") / "model.safetensors")
    asked = {"file": file, "line": line.decode(), "start": line.index(b"=") + 1, "at": at}
    result: Dissection = in_node(DISSECT, {**asked, "off": off})
    return result


@pytest.fixture(scope="module")
def expected() -> Dissection:
    return dissected(render([EXAMPLE])[0], FOLLOWED, [])


def numbers(texts: list[str]) -> list[float]:
    """The first number of each text."""
    found = [re.search(r"[-−+]?\d+(\.\d+)?", text) for text in texts]
    return [float(match[0].replace("−", "-")) if match else 0 for match in found]


def tab_to(page: Page, target: Locator) -> None:
    """Presses Tab until an element has the focus."""
    for _ in range(200):
        if target.evaluate("e => e === document.activeElement"):
            return
        page.keyboard.press("Tab")
    raise AssertionError("the keyboard does not lead there")


def shows(story: Locator, step: int) -> None:
    """Waits for the picture of a step."""
    expect(story).to_have_attribute("data-drawn", str(step))
    expect(story.get_by_role("heading", level=2)).to_have_text(TITLES[step - 1])


def check_columns(page: Page, story: Locator, expected: Dissection) -> None:
    expect(story.get_by_role("heading", level=2)).to_be_focused()
    tab_to(page, story.get_by_role("radio", checked=True))
    page.keyboard.press("ArrowLeft")  # from the 6 to the 5
    table = np.reshape(expected["embeddings"], (-1, expected["width"]))
    rows = table / np.linalg.norm(table, axis=1, keepdims=True)
    digits = [expected["vocabulary"].index(digit) for digit in "0123456789"]
    shown = story.locator(".similar .figure").all_text_contents()
    np.testing.assert_allclose(numbers(shown), rows[digits] @ rows[digits[5]], atol=0.006)


def check_places(page: Page, story: Locator, expected: Dissection) -> None:
    facts = story.locator(".facts")
    expect(facts).to_contain_text("product digit")
    expect(facts).to_contain_text("row 2, column 2")
    expect(story.locator(".text .framed")).to_have_text(["7", "2", "9", "1"])
    tab_to(page, story.get_by_role("slider", name="Character"))
    page.keyboard.press("ArrowRight")
    expect(story.locator(".sentence")).to_contain_text("= 66: writes 6, carries 6")
    expect(facts).to_contain_text("product carry")
    page.keyboard.press("ArrowLeft")
    expect(facts).to_contain_text("product digit")


def check_heads(page: Page, story: Locator, expected: Dissection) -> None:
    chosen = story.get_by_role("radio", checked=True)
    tab_to(page, chosen)
    first = story.get_by_role("radio").evaluate_all("all => all.findIndex(e => e.checked)")
    attention = np.reshape(expected["attention"], (-1, len(expected["sources"])))
    for index in range(first + 1, first + 1 + len(attention)):  # the arrow keys lead around
        page.keyboard.press("ArrowRight")
        layer, head = divmod(index % len(attention), expected["heads"])
        expect(chosen).to_have_accessible_name(f"layer {layer + 1} head {head + 1}")
        shown = [item.inner_text().split("\n") for item in story.locator(".weights li").all()]
        weights = np.sort(100 * attention[index % len(attention)])[::-1]
        figures = numbers([part for item in shown for part in item if part.endswith("%")])
        np.testing.assert_allclose(figures, [*weights, 100 - weights.sum()], atol=0.6)
    operands = story.locator(".operand").evaluate_all(
        "all => all.map(e => [e.textContent, e.style.getPropertyValue('--tint')])"
    )
    assert [text for text, _ in operands] == ["7", "9", "2", "1"]
    assert all(colour.startswith("var(--head-") for _, colour in operands)


def check_neurons(page: Page, story: Locator, expected: Dissection) -> None:
    neurons = expected["neurons"]
    labels = story.locator(".choices label")
    names = [f"layer {n['layer'] + 1}, no. {n['index'] + 1}" for n in neurons]
    expect(labels).to_contain_text(names)
    shown = labels.locator(".figure").all_text_contents()
    np.testing.assert_allclose(numbers(shown), [n["part"] for n in neurons], atol=0.051)
    sums = re.findall(r"(\d+\.\d) (?:points|of them)", story.inner_text())
    total = sum(expected["feedForward"])
    np.testing.assert_allclose(numbers(sums), [expected["lead"], total], atol=0.051)
    tab_to(page, story.get_by_role("radio", checked=True))
    page.keyboard.press("ArrowDown")
    activations = np.abs(np.array(expected["active"])[:, 1])
    most = np.argsort(-activations)[:3]
    strongest = story.locator(".strongest li")
    written = expected["text"][expected["start"] :]
    expect(strongest.locator("code")).to_have_text([written[at] for at in most])
    shares = numbers(strongest.locator(".figure").all_text_contents())
    np.testing.assert_allclose(shares, 100 * activations[most] / activations.max(), atol=0.51)


def check_layers(page: Page, story: Locator, expected: Dissection) -> None:
    ranked = [[one["text"] for one in layer] for layer in expected["ranked"]]
    expect(story.locator(".choices code")).to_have_text([best for best, *_ in ranked])
    tab_to(page, story.get_by_role("radio", checked=True))
    page.keyboard.press("ArrowRight")
    expect(story.locator(".weights code")).to_have_text(ranked[2][:5])


def check_choice(page: Page, story: Locator, expected: Dissection) -> None:
    ranked = expected["ranked"][-1]
    logits = np.array([one["logit"] for one in ranked])
    items = story.locator(".weights button")
    expect(items).to_have_text([one["text"] for one in ranked[:6]])
    shown = story.locator(".score").all_text_contents()
    np.testing.assert_allclose(numbers(shown), logits[:6], atol=0.051)
    tab_to(page, story.get_by_role("slider", name="Temperature"))
    page.keyboard.press("End")  # 10
    powers = np.exp(logits / 10)
    shown = [item.split("\n")[-1] for item in story.locator(".weights li").all_inner_texts()]
    np.testing.assert_allclose(numbers(shown), 100 * powers[:6] / powers.sum(), atol=0.7)
    items.nth(1).press("Enter")  # in place of the 6
    expect(story.locator(".what-if")).to_contain_text("Before, it was 14082.9.")
    expect(story.locator(".what-if .cell.off")).not_to_have_count(0)


def check_training(page: Page, story: Locator, expected: Dissection) -> None:
    copies = story.locator(".snapshots li")
    expect(copies).to_have_count(8)
    expect(copies.first).to_contain_text("✗")
    expect(copies.last).to_contain_text("✓ 14082.9")
    expect(story.locator("circle")).to_have_count(8)


CHECKS = [
    check_columns,
    check_places,
    check_heads,
    check_neurons,
    check_layers,
    check_choice,
    check_training,
]


def test_the_story_by_keyboard_says_what_torch_computes(page: Page, expected: Dissection) -> None:
    answered(page, "14082.9")  # the example
    tab_to(page, page.locator("#story-offer").get_by_role("button", name=START))
    page.keyboard.press("Enter")
    story = page.get_by_role("dialog")
    for step, check in enumerate(CHECKS, start=1):
        shows(story, step)
        check(page, story, expected)
        if step == len(CHECKS):
            break
        tab_to(page, story.get_by_role("button", name="Next"))
        page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    expect(story).to_have_count(0)
    expect(page.locator("#work")).to_be_focused()  # where the offer was
    answered(page, "14082.9")  # Escape was not for the calculator


def test_the_story_is_about_the_calculation_that_is_shown(
    exported: Page, host_address: str
) -> None:
    page = exported
    calculate(page, "58+67", "calculator")
    answered(page, "125")
    again = page.locator("footer").get_by_role("button", name=START)
    again.click()
    story = page.get_by_role("dialog")
    shows(story, 1)
    story.get_by_role("button", name="3: ").press("Enter")
    shows(story, 3)
    expect(story.locator(".sentence")).to_contain_text("5 + 6 + carry 1 = 12: writes 2, carries 1")
    story.locator(".paper [data-at]").first.click()
    expect(story.locator(".sentence")).not_to_contain_text("carry 1")
    at = re.search(r"story=3.*at=(\d+)|at=(\d+).*story=3", page.url)
    assert at
    chosen = story.locator(".sentence").inner_text()
    page.keyboard.type("7")  # is not for the calculator
    expect(page.get_by_label("Expression")).to_have_value("58+67")
    page.reload()
    shows(story, 3)
    expect(story.locator(".sentence")).to_have_text(chosen)
    story.get_by_role("button", name="Close").press("Enter")
    expect(page).not_to_have_url(re.compile("story"))

    calculate(page, "7")  # there is nothing to tell
    again.press("Enter")
    shows(story, 1)
    expect(story).to_contain_text("of 471×29.9")
    page.goto(f"{host_address}/#q=1%2B1&model=calculator")
    answered(page, "2")
    expect(story).to_have_count(0)


def test_the_story_is_of_the_model_without_the_parts_that_are_off(page: Page, address: str) -> None:
    prompt = b"$8(0000000012*0000000034)="
    at = render([prompt])[0].index(b";") + 2 - len(prompt)  # the first digit of a row
    expected = dissected(prompt, at, OFF)
    page.goto(f"{address}/#q=12*34&model=calculator&off={','.join(OFF)}&story=4&at={at + 1}")
    story = page.get_by_role("dialog")
    shows(story, 4)
    expect(story).to_contain_text("the model without neuron 51 of layer 1 and head 1 of layer 3.")
    check_neurons(page, story, expected)
    story.get_by_role("button", name="5: ").press("Enter")
    shows(story, 5)
    check_layers(page, story, expected)
    story.get_by_role("button", name="3: ").press("Enter")
    shows(story, 3)
    story.get_by_role("radio", name="layer 3 head 1").check()
    expect(story.locator(".weights")).to_have_text("It is switched off and fetches nothing.")
    story.get_by_role("button", name="Tell it with all parts on").click()
    expect(story.locator(".told p").first).to_contain_text("The characters that it may see")
    shows(story, 3)


def test_the_story_is_offered_once(page: Page) -> None:
    offer = page.locator("#story-offer")
    offer.get_by_role("button", name="No, thanks").press("Enter")
    expect(offer).to_be_hidden()
    expect(page.locator("#work")).to_be_focused()
    page.reload()
    answered(page, "14082.9")
    expect(offer).to_be_hidden()


@pytest.mark.parametrize(("width", "height"), [(320, 640), (844, 390)])
def test_the_story_fits_a_phone_and_passes_axe(
    open_page: OpenPage, address: str, width: int, height: int
) -> None:
    page = open_page(viewport={"width": width, "height": height})
    page.goto(f"{address}/#q=2.08-136.22&model=calculator&story=1")
    story = page.get_by_role("dialog")
    for step in range(1, 8):
        shows(story, step)
        hidden = story.locator(".body").evaluate("e => e.scrollWidth - e.clientWidth")
        assert hidden == 0, step
        for part in (story.locator(".told p").first, story.locator(".next")):
            expect(part).to_be_in_viewport(ratio=1)
        if width > height:  # text and picture are beside each other
            expect(story.locator(".showing > *").first).to_be_in_viewport()
        story.locator("summary").click()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert violations(page) == [], (step, scheme)
        story.get_by_role("button", name=re.compile("Next|Done")).click()
    expect(story).to_have_count(0)
