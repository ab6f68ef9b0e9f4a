"""The look inside the model. tests/unit/page compares its figures with torch."""

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
BUTTON = "Look inside the model"
EXAMPLE = b"$8(0000000471*00000029.9)="
FOLLOWED = 20  # the 6 of 7 × 9 + 2 above + carry 1 = 66, by its index in what the model wrote
OFF = ["1.n51", "3.1"]  # a neuron that is for differences, and a head
DISSECT = """async ({ file, line, start, at, off }, read) => {
    const { readWeights } = await import("/static/engine/weights.js");
    const { Network } = await import("/static/engine/network.js");
    const { Memory, write } = await import("/static/engine/write.js");
    const { dissect } = await import("/static/engine/dissect.js");
    const network = new Network(readWeights(read(file)), off);
    const memory = new Memory(network, "$()*+-./0123456789:;=an|");
    const text = [line, ...write(memory, line)].map((one) => one.text ?? one).join("");
    const found = dissect(memory, text, start + at);
    return { ...found, text, start };
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


def shows(inside: Locator, character: str) -> None:
    """Waits for the views of a character."""
    expect(inside).to_have_attribute("data-drawn", character)


def check_heads(page: Page, view: Locator, expected: Dissection) -> None:
    chosen = view.get_by_role("radio", checked=True)
    tab_to(page, chosen)
    first = view.get_by_role("radio").evaluate_all("all => all.findIndex(e => e.checked)")
    attention = np.reshape(expected["attention"], (-1, len(expected["sources"])))
    for index in range(first + 1, first + 1 + len(attention)):  # the arrow keys lead around
        page.keyboard.press("ArrowRight")
        layer, head = divmod(index % len(attention), expected["heads"])
        expect(chosen).to_have_accessible_name(f"layer {layer + 1} head {head + 1}")
        shown = [item.inner_text().split("\n") for item in view.locator(".weights li").all()]
        weights = np.sort(100 * attention[index % len(attention)])[::-1]
        figures = numbers([part for item in shown for part in item if part.endswith("%")])
        np.testing.assert_allclose(figures, [*weights, 100 - weights.sum()], atol=0.6)
    expect(view.locator("p").first).to_contain_text("here: product digit)")


def check_neurons(page: Page, view: Locator, expected: Dissection) -> None:
    neurons, vocabulary = expected["neurons"], expected["vocabulary"]
    items = view.locator(".weights li")
    expect(items).to_contain_text(
        [f"neuron {n['index'] + 1} of layer {n['layer'] + 1}" for n in neurons]
    )
    shown = [item.split("\n")[1] for item in items.all_inner_texts()]
    np.testing.assert_allclose(numbers(shown), [n["part"] for n in neurons], atol=0.051)
    sums = re.findall(r"(-?\d+\.\d) (?:points|of them)", view.inner_text())
    total = sum(expected["feedForward"])
    np.testing.assert_allclose(numbers(sums), [expected["lead"], total], atol=0.051)
    effects = {digit: neurons[0]["effects"][vocabulary.index(digit)] for digit in "0123456789"}
    most, next_, *_, least = sorted(effects, key=lambda digit: -effects[digit])
    expect(items.first).to_contain_text(f"for {most} and {next_}, and most against {least}")


def check_layers(page: Page, view: Locator, expected: Dissection) -> None:
    ranked = [[one["text"] for one in layer] for layer in expected["ranked"]]
    expect(view.locator(".choices code")).to_have_text([best for best, *_ in ranked])
    tab_to(page, view.get_by_role("radio", checked=True))
    page.keyboard.press("ArrowRight")
    expect(view.locator(".weights code")).to_have_text(ranked[2][:5])


def check_choice(page: Page, view: Locator, expected: Dissection) -> None:
    ranked = expected["ranked"][-1][:5]
    items = view.locator(".weights button")
    expect(items).to_have_text([one["text"] for one in ranked])
    figures = [item.split("\n")[-1] for item in view.locator(".weights li").all_inner_texts()]
    np.testing.assert_allclose(numbers(figures), [one["logit"] for one in ranked], atol=0.051)
    tab_to(page, items.nth(1))
    page.keyboard.press("Enter")  # in place of the 6
    expect(view.locator(".what-if")).to_contain_text("Before, it was 14082.9.")
    expect(view.locator(".what-if .cell.off")).not_to_have_count(0)


CHECKS = [check_heads, check_neurons, check_layers, check_choice]


def test_the_look_inside_by_keyboard_says_what_torch_computes(
    page: Page, expected: Dissection
) -> None:
    answered(page, "14082.9")  # the example
    page.locator("#nodes").get_by_role("button", name=BUTTON).press("Enter")
    inside = page.get_by_role("dialog")
    shows(inside, "6")
    expect(inside.get_by_role("heading", level=2)).to_be_focused()
    expect(inside.locator(".framed")).to_have_text(["7", "2", "1", "9"])
    operands = inside.locator(".operand").evaluate_all(
        "all => all.map(e => [e.textContent, e.style.getPropertyValue('--tint')])"
    )
    assert [text for text, _ in operands] == ["7", "9", "2", "1"]
    assert all(colour.startswith("var(--head-") for _, colour in operands)
    for view, check in zip(inside.locator("section").all(), CHECKS, strict=True):
        check(page, view, expected)
    page.keyboard.press("Escape")
    expect(inside).to_have_count(0)
    answered(page, "14082.9")  # Escape was not for the calculator


def test_the_look_inside_is_into_the_calculation_that_is_shown(
    exported: Page, host_address: str
) -> None:
    page = exported
    calculate(page, "58+67", "calculator")
    answered(page, "125")
    again = page.locator("footer").get_by_role("button", name=BUTTON)
    again.click()
    inside = page.get_by_role("dialog")
    shows(inside, "2")
    expect(inside.locator(".sentence")).to_contain_text("5 + 6 + carry 1 = 12: writes 2, carries 1")
    inside.locator(".paper [data-at]").first.click()
    expect(inside.locator(".sentence")).not_to_contain_text("carry 1")
    assert re.search(r"inside=1.*at=\d+|at=\d+.*inside=1", page.url)
    chosen = inside.locator(".sentence").inner_text()
    page.keyboard.type("7")  # is not for the calculator
    expect(page.get_by_label("Expression")).to_have_value("58+67")
    page.reload()
    expect(inside.locator(".sentence")).to_have_text(chosen)
    inside.get_by_role("button", name="Close").press("Enter")
    expect(page).not_to_have_url(re.compile("inside"))

    calculate(page, "7")  # there is nothing to show
    again.press("Enter")
    expect(inside).to_contain_text("There is nothing to look into yet")
    number_alone = page.locator("#history button").first
    expect(number_alone).to_have_text("7=\u00a07")
    page.goto(f"{host_address}/#q=1%2B1&model=calculator")
    answered(page, "2")
    expect(inside).to_have_count(0)
    page.goto(f"{host_address}/#q=7%2B8&model=calculator&inside=1")
    shows(inside, "5")  # the lowest digit


def test_the_look_is_into_the_model_without_the_parts_that_are_off(
    page: Page, address: str
) -> None:
    prompt = b"$8(0000000012*0000000034)="
    at = render([prompt])[0].index(b";") + 2 - len(prompt)  # the first digit of a row
    expected = dissected(prompt, at, OFF)
    page.goto(f"{address}/#q=12*34&model=calculator&off={','.join(OFF)}&inside=1&at={at + 1}")
    inside = page.get_by_role("dialog")
    expect(inside).to_contain_text("without neuron 51 of layer 1 and head 1 of layer 3.")
    heads, neurons, layers, _ = inside.locator("section").all()
    check_neurons(page, neurons, expected)
    check_layers(page, layers, expected)
    heads.get_by_role("radio", name="layer 3 head 1").check()
    expect(heads.locator(".weights")).to_have_text("It is switched off and fetches nothing.")
    inside.get_by_role("button", name="Look with all parts on").click()
    expect(inside).not_to_contain_text("without neuron 51")
    expect(heads.locator(".weights")).not_to_contain_text("switched off")


@pytest.mark.parametrize(("width", "height"), [(320, 640), (844, 390), (1280, 800)])
def test_the_look_inside_fits_and_passes_axe(
    open_page: OpenPage, address: str, width: int, height: int
) -> None:
    page = open_page(viewport={"width": width, "height": height})
    page.goto(f"{address}/#q=2.08-136.22&model=calculator&inside=1")
    inside = page.get_by_role("dialog")
    expect(inside).to_have_attribute("data-drawn", re.compile("."))
    assert inside.locator(".body").evaluate("e => e.scrollWidth - e.clientWidth") == 0
    expect(inside.locator(".sentence")).to_be_in_viewport(ratio=1)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert violations(page) == [], scheme
