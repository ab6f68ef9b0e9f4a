"""The story of how a transformer does it. Its figures, against torch."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from browser import answered, calculate, violations
from numpy.typing import NDArray

from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.calculator import Calculator
from calcgpt.lab.inspection import attention_weights, layer_logits
from calcgpt.model.gpt import GPT
from datagen.coordinates import coordinates
from datagen.slots import LOWEST, Kind
from datagen.work import render

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect

OpenPage = Callable[..., "Page"]
START = "How a transformer does it"
TITLES = [
    "Characters become numbers",
    "Every character has a place",
    "A head fetches digits",
    "Neurons add and multiply",
    "Layer by layer, the guess gets better",
    "Scores become a character",
    "200,000 numbers from small corrections",
]
EXAMPLE = b"$8(0000000471*00000029.9)="
FOLLOWED = 20  # the 6 of 7 × 9 + 2 above + carry 1 = 66, by its index in what the model wrote
# Figures are rounded to one decimal place, and the page has weights of 16 bits.
TOLERANCE = 0.11


OFF = ["2.n24", "4.1"]  # a neuron that is for sums, and a head


@dataclass
class Expected:
    """What torch computes for the character that the story follows."""

    text: str
    start: int  # the first position that the model wrote
    position: int
    vocabulary: str
    embeddings_VC: NDArray[np.float32]
    attention_LHT: NDArray[np.float32]
    logits_MV: NDArray[np.float32]  # M: the embedding, each layer
    hidden_LTF: NDArray[np.float32]
    parts_LF: NDArray[np.float32]  # what each neuron adds to the lead of the character


@pytest.fixture(scope="module")
def expected(checkpoints: dict[str, Checkpoint]) -> Expected:
    [line] = render([EXAMPLE])
    return computed(checkpoints["calculator"], line.decode(), len(EXAMPLE), FOLLOWED)


def computed(checkpoint: Checkpoint, text: str, start: int, at: int) -> Expected:
    """What torch computes for a character, by its index in what the model wrote."""
    model, tokenizer = checkpoint.model, checkpoint.tokenizer
    assert isinstance(model, GPT)
    position = start + at
    tokens_T = torch.from_numpy(tokenizer.encode(text[:-1]).astype("int64"))
    hidden, last = [], []
    downs = [model.get_submodule(f"blocks.{layer}.ff.down") for layer in range(len(model.blocks))]
    for down in downs:
        down.register_forward_pre_hook(lambda _, given: hidden.append(given[0][0]))
    model.norm.register_forward_pre_hook(lambda _, given: last.append(given[0]))
    with torch.inference_mode():
        model(tokens_T[None])
        hidden_LTF = torch.stack(hidden)
        attention_LHTT = attention_weights(model, tokens_T)
        logits_MV = layer_logits(model, tokens_T)[:, position - 1]
        best, second = logits_MV[-1].topk(2).indices
        x_C = last[0][0, position - 1]
        scale_C = model.get_parameter("norm.weight") / (x_C.square().mean() + 1e-6).sqrt()
        direction_C = (model.head.weight[best] - model.head.weight[second]) * scale_C
        down_LFC = torch.stack([down.get_parameter("weight").T for down in downs])
        parts_LF = hidden_LTF[:, position - 1] * (down_LFC @ direction_C)
    vocabulary = "".join(tokenizer.decode(range(len(model.config.characters))))
    return Expected(
        text,
        start,
        position,
        vocabulary,
        model.token_embedding.weight.detach().numpy(),
        attention_LHTT[:, :, position - 1].numpy(),
        logits_MV.numpy(),
        hidden_LTF.numpy(),
        parts_LF.numpy(),
    )


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


def check_columns(page: Page, story: Locator, expected: Expected) -> None:
    expect(story.get_by_role("heading", level=2)).to_be_focused()
    tab_to(page, story.get_by_role("radio", checked=True))
    page.keyboard.press("ArrowLeft")
    rows = expected.embeddings_VC / np.linalg.norm(expected.embeddings_VC, axis=1, keepdims=True)
    digits = [expected.vocabulary.index(digit) for digit in "0123456789"]
    chosen = expected.vocabulary.index(expected.text[expected.position - 2])
    shown = story.locator(".similar .figure").all_text_contents()
    np.testing.assert_allclose(numbers(shown), rows[digits] @ rows[chosen], atol=0.011)


def check_places(page: Page, story: Locator, expected: Expected) -> None:
    facts = story.locator(".facts")
    kind, _, row, column, *_ = coordinates(expected.text.encode())[expected.position]
    expect(facts).to_contain_text(Kind(kind).name.lower().replace("_", " "))
    expect(facts).to_contain_text(f"row {row}, column {column - LOWEST + 1}")
    expect(story.locator(".text .framed")).to_have_text(["7", "2", "9", "1"])
    tab_to(page, story.get_by_role("slider", name="Character"))
    page.keyboard.press("ArrowRight")
    expect(story.locator(".sentence")).to_contain_text("= 66: writes 6, carries 6")
    expect(facts).to_contain_text("product carry")
    page.keyboard.press("ArrowLeft")
    expect(facts).to_contain_text("product digit")


def check_heads(page: Page, story: Locator, expected: Expected) -> None:
    chosen = story.get_by_role("radio", checked=True)
    tab_to(page, chosen)
    first = story.get_by_role("radio").evaluate_all("all => all.findIndex(e => e.checked)")
    for index in range(first + 1, first + 9):  # the arrow keys lead around
        page.keyboard.press("ArrowRight")
        layer, head = index // 2 % 4, index % 2
        expect(chosen).to_have_accessible_name(f"layer {layer + 1} head {head + 1}")
        shown = [item.inner_text().split("\n")[1] for item in story.locator(".weights li").all()]
        largest = np.sort(100 * expected.attention_LHT[layer, head])[::-1][: len(shown)]
        np.testing.assert_allclose(numbers(shown), largest, atol=0.6)
    colours = story.locator(".operand").evaluate_all(
        "all => all.map(e => [e.textContent, e.style.getPropertyValue('--tint')])"
    )
    factors, addends = "var(--head-2)", "var(--head-1)"
    assert colours == [["7", factors], ["9", factors], ["2", addends], ["1", addends]]


def check_neurons(page: Page, story: Locator, expected: Expected) -> None:
    parts, width = expected.parts_LF.flatten(), expected.parts_LF.shape[1]
    order = np.argsort(-np.abs(parts))[:6]
    labels = story.locator(".choices label")
    expect(labels).to_contain_text([f"layer {i // width + 1}, no. {i % width + 1}" for i in order])
    shown = labels.locator(".figure").all_text_contents()
    np.testing.assert_allclose(numbers(shown), parts[order], atol=TOLERANCE)
    best, second = np.sort(expected.logits_MV[-1])[::-1][:2]
    sums = re.findall(r"(\d+\.\d) (?:points|of them)", story.inner_text())
    np.testing.assert_allclose(numbers(sums), [best - second, parts.sum()], atol=TOLERANCE)
    tab_to(page, story.get_by_role("radio", checked=True))
    page.keyboard.press("ArrowDown")
    layer, index = divmod(order[1], width)
    activations = np.abs(expected.hidden_LTF[layer, expected.start - 1 :, index])
    most = np.argsort(-activations)[:3]
    strongest = story.locator(".strongest li")
    written = expected.text[expected.start :]
    expect(strongest.locator("code")).to_have_text([written[at] for at in most])
    shares = numbers(strongest.locator(".figure").all_text_contents())
    # The page shows whole percents, and its weights have 16 bits.
    np.testing.assert_allclose(shares, 100 * activations[most] / activations.max(), atol=1)


def check_layers(page: Page, story: Locator, expected: Expected) -> None:
    guesses = [expected.vocabulary[index] for index in expected.logits_MV.argmax(axis=1)]
    expect(story.locator(".choices code")).to_have_text(guesses)
    tab_to(page, story.get_by_role("radio", checked=True))
    page.keyboard.press("ArrowRight")
    ranked = [expected.vocabulary[index] for index in np.argsort(-expected.logits_MV[2])[:5]]
    expect(story.locator(".weights code")).to_have_text(ranked)


def check_choice(page: Page, story: Locator, expected: Expected) -> None:
    logits = expected.logits_MV[-1]
    ranked = np.argsort(-logits)[:6]
    expect(story.locator(".weights code")).to_have_text([expected.vocabulary[i] for i in ranked])
    shown = story.locator(".score").all_text_contents()
    np.testing.assert_allclose(numbers(shown), logits[ranked], atol=TOLERANCE)
    tab_to(page, story.get_by_role("slider", name="Temperature"))
    page.keyboard.press("End")  # 10
    powers = np.exp(logits / 10)
    shown = [item.split("\n")[-1] for item in story.locator(".weights li").all_inner_texts()]
    np.testing.assert_allclose(numbers(shown), 100 * powers[ranked] / powers.sum(), atol=0.7)


def check_training(page: Page, story: Locator, expected: Expected) -> None:
    copies = story.locator(".snapshots li")
    expect(copies).to_have_count(8)
    expect(copies.first).to_contain_text("✗")
    expect(copies.last).to_contain_text("✓ 14082.9")
    expect(story.get_by_role("slider", name="Steps of training")).to_be_enabled()


CHECKS = [
    check_columns,
    check_places,
    check_heads,
    check_neurons,
    check_layers,
    check_choice,
    check_training,
]


def test_the_story_by_keyboard_says_what_torch_computes(page: Page, expected: Expected) -> None:
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

    calculate(page, "58+67", "direct")  # it shows no work
    again.press("Enter")
    shows(story, 1)
    expect(story).to_contain_text("of 471×29.9")
    page.goto(f"{host_address}/#q=1%2B1&model=calculator")
    answered(page, "2")
    expect(story).to_have_count(0)


def test_the_story_is_of_the_model_without_the_parts_that_are_off(
    page: Page, address: str, checkpoints: dict[str, Checkpoint]
) -> None:
    broken = checkpoints["calculator"].without(OFF)
    [node] = Calculator(broken).calculate("12*34").nodes
    assert node.prompt
    assert node.output
    at = node.output.index(";") + 2
    expected = computed(broken, node.prompt + node.output, len(node.prompt), at)
    page.goto(f"{address}/#q=12*34&model=calculator&off={','.join(OFF)}&story=4&at={at + 1}")
    story = page.get_by_role("dialog")
    shows(story, 4)
    expect(story).to_contain_text("the model without neuron 24 of layer 2 and head 1 of layer 4.")
    check_neurons(page, story, expected)
    story.get_by_role("button", name="5: ").press("Enter")
    shows(story, 5)
    check_layers(page, story, expected)
    story.get_by_role("button", name="3: ").press("Enter")
    shows(story, 3)
    story.get_by_role("radio", name="layer 4 head 1").check()
    expect(story.locator(".weights")).to_have_text("It is switched off and fetches nothing.")
    story.get_by_role("button", name="Tell it with all parts on").click()
    expect(story.locator(".told p").first).to_contain_text("The digits that it needs")
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
