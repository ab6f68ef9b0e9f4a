"""Keys that are faster than the answer: nothing that is typed is lost, or goes to another text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from browser import answered, calculate, events_of_answer, hold, leave_to_service, press

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect

OpenPage = Callable[..., "Page"]
Held = tuple["Page", Callable[[], None]]
HELD = {"address": "**/weights", "host_address": "**/models/*"}
NAMES = {"+": "plus", "*": "times", "-": "minus", "/": "divided by", "=": "equals: calculate"}


@pytest.fixture(params=HELD)
def held(open_page: OpenPage, request: pytest.FixtureRequest) -> Held:
    """The page with a service, or without one. No answer comes before the function is called."""
    page = open_page(request.getfixturevalue(request.param))
    release = hold(page, HELD[request.param])
    page.reload()  # the example may have loaded the model
    expect(page.get_by_role("combobox", name="Model")).to_be_enabled()
    return page, release


def type_(page: Page, keys: str) -> None:
    page.get_by_label("Expression").focus()
    page.keyboard.type(keys)


def click(page: Page, keys: str) -> None:
    press(page, *(NAMES.get(key, key) for key in keys))


def typed(page: Page) -> str:
    """What is in the field, with the signs of the keypad."""
    return page.get_by_label("Expression").input_value().translate({42: "×", 45: "−", 47: "÷"})


@pytest.mark.parametrize("enter", [type_, click])
@pytest.mark.parametrize(
    ("keys", "asked", "answer", "left"),
    [
        ("2+3=*4=", ["2+3", "5×4"], "20", "5×4"),
        ("7*8=9*9=", ["9×9"], "81", "9×9"),
        ("2+3=*4=-1=", ["2+3", "5×4", "20−1"], "19", "20−1"),
        ("2+3==", ["2+3", "5+3"], "8", "5+3"),
        ("10/4==*2=", ["10÷4", "2.5÷4", "0.625×2"], "1.25", "0.625×2"),
        ("2+3=-7=*2", ["2+3", "5−7"], "−2", "−2×2"),
    ],
)
def test_keys_wait_for_the_answer(
    held: Held,
    enter: Callable[[Page, str], None],
    keys: str,
    asked: list[str],
    answer: str,
    left: str,
) -> None:
    page, release = held
    enter(page, keys)
    release()
    expect(page.locator("#history .expression")).to_have_text(asked[::-1])
    answered(page, answer)
    assert typed(page) == left


@pytest.mark.parametrize(
    ("keys", "left"),
    [
        ("7 8 9 Control+z", "78"),
        ("7 8 9 Control+z Control+z 4 Control+z Control+y", "74"),
        ("7 8 Control+z Control+z Control+Shift+Z", "7"),
        ("7 8 Escape Control+z", "78"),
        ("2 + 3 Enter Backspace", "2+"),
        ("2 + 3 Enter Control+a Backspace", ""),
        ("2 + 3 Enter Backspace 4 Control+z", "2+"),
    ],
)
def test_keys_of_the_keypad_are_taken_back(page: Page, keys: str, left: str) -> None:
    press(page, "C: clear")
    for key in keys.split():
        if key.isdigit() or key == "+":
            press(page, NAMES.get(key, key))
        else:
            page.keyboard.press(key)
    expect(page.get_by_label("Expression")).to_have_value(left)


def test_a_held_key_edits_and_asks_once(page: Page) -> None:
    type_(page, "12345+1")
    page.keyboard.down("Enter")
    page.keyboard.down("Enter")  # it repeats
    page.keyboard.up("Enter")
    answered(page, "12346")
    for _ in range(9):
        page.keyboard.down("Backspace")
    expect(page.get_by_label("Expression")).to_have_value("")
    expect(page.locator("#history button")).to_have_count(1)


def test_what_waits_can_be_edited(held: Held) -> None:
    page, release = held
    type_(page, "2+3=*45")
    page.keyboard.press("Backspace")
    page.keyboard.press("ArrowUp")  # what is typed stays there
    page.keyboard.type("=+1==")
    page.keyboard.press("Backspace")
    release()
    expect(page.locator("#history .expression")).to_have_text(["20+1", "5×4", "2+3"])
    answered(page, "21")


@pytest.mark.parametrize("enter", [type_, click])
def test_what_waits_for_an_answer_that_does_not_come_is_named(
    held: Held, enter: Callable[[Page, str], None]
) -> None:
    page, release = held
    enter(page, "2+=*4=")
    release()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The expression is not finished")
    expect(alert).to_contain_text("Typed after it, and not calculated: ×4=")
    assert typed(page) == "2+"


def test_what_waits_for_a_number_is_named_when_there_is_none(page: Page) -> None:
    held: list[Route] = []
    leave_to_service(page)
    page.route("**/v1/calculate/stream", lambda route: held.append(route))
    with page.expect_request("**/v1/calculate/stream"):
        type_(page, "2*3=+4=")
    expect(page.locator("#running")).to_be_visible()  # the request is held
    held[0].fulfill(body=events_of_answer(result=None, verified=False))
    answered(page, "not a number")
    expect(page.get_by_role("alert")).to_have_text("Typed after it, and not calculated: +4=")
    assert typed(page) == "2×3"


@pytest.mark.parametrize(
    ("result", "fraction", "continued"),
    [
        ("0.33333333", "1/3", "(1÷3)×3"),
        ("-0.33333333", "-1/3", "(−1÷3)×3"),
        ("0.33333333", "1111111111111/33333333333", "0.33333333×3"),  # too long
        ("0.33333333", None, "0.33333333×3"),
    ],
)
def test_a_rounded_answer_continues_with_its_exact_value(
    page: Page, result: str, fraction: str | None, continued: str
) -> None:
    body = events_of_answer(result=result, fraction=fraction, rounded=True)
    leave_to_service(page)
    page.route("**/v1/calculate/stream", lambda route: route.fulfill(body=body))
    calculate(page, "1/3")
    type_(page, "*3")
    assert typed(page) == continued


def test_a_key_that_is_pressed_before_the_example_plays_keeps_it_away(page: Page) -> None:
    release = hold(page, "**/example.json")
    page.reload()
    press(page, "C: clear")
    with page.expect_response("**/example.json") as response:
        release()
    response.value.finished()
    page.evaluate("() => new Promise((then) => requestIdleCallback(then))")  # it would play now
    expect(page.get_by_label("Expression")).to_have_value("")
    expect(page.locator("#example")).to_be_hidden()


def test_the_memory_and_the_last_answer(page: Page) -> None:
    field = page.get_by_label("Expression")
    press(page, "C: clear", "MR: recall the memory")
    expect(field).to_have_value("")
    press(page, "7", "times", "8", "M+: add to the memory")  # which asks first
    answered(page, "56")
    press(page, "M+: add to the memory", "minus", "6", "0", "equals: calculate")
    answered(page, "−4")
    press(page, "M+: add to the memory", "1", "plus", "MR: recall the memory")
    expect(field).to_have_value("1+(56+56−4)")
    field.press("Enter")
    answered(page, "109")
    press(page, "mod: remainder", "1", "0", "equals: calculate")
    answered(page, "9")
    press(page, "MC: clear the memory", "MR: recall the memory")
    expect(field).to_have_value("109 mod 10")
    field.fill("2*ans-ans")
    field.press("Enter")
    answered(page, "9")
    expect(field).to_have_value("2*9-9")
    press(page, "C: clear", "ans: the last answer")
    expect(field).to_have_value("9")
