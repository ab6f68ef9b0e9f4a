"""Keys that are faster than the answer: nothing that is typed is lost, or goes to another text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from browser import answered, calculate, events_of_answer, hold, press, stop_clock

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect

OpenPage = Callable[..., "Page"]
Held = tuple["Page", Callable[[], None], Callable[["Page", str], None]]
NAMES = {
    "+": "plus",
    "*": "times",
    "-": "minus",
    "/": "divided by",
    "=": "equals: calculate",
}


def type_(page: Page, keys: str) -> None:
    page.get_by_label("Expression").focus()
    page.keyboard.type(keys)


def click(page: Page, keys: str) -> None:
    press(page, *(NAMES.get(key, key) for key in keys))


SERVICE, HOST = "address", "host_address"
HELD = {SERVICE: ("**/weights", type_), HOST: ("**/models/*", click)}


@pytest.fixture(params=HELD)
def held(
    clean: Callable[[str], Page], visit: Callable[[Page, str], Page], request: pytest.FixtureRequest
) -> Held:
    """The page with a service, or without one. No answer comes before the function is called. Then
    what enters keys: by the keyboard, or by the keypad."""
    address = request.getfixturevalue(request.param)
    weights, enter = HELD[request.param]
    page = clean(address)
    release = hold(page, weights)
    visit(page, address)
    expect(page.get_by_role("combobox", name="Model")).to_be_enabled()
    return page, release, enter


def typed(page: Page) -> str:
    """What is in the field, with the signs of the keypad."""
    return page.get_by_label("Expression").input_value().translate({42: "×", 45: "−", 47: "÷"})


@pytest.mark.parametrize(
    ("held", "keys", "asked", "answer", "left"),
    [
        (SERVICE, "2+3=*4=", ["2+3", "5×4"], "20", "5×4"),
        (HOST, "2+3=*4=-1=", ["2+3", "5×4", "20−1"], "19", "20−1"),
        (SERVICE, "7*8=9*9=", ["9×9"], "81", "9×9"),
        (HOST, "2+3=-7=*2", ["2+3", "5−7"], "−2", "−2×2"),
        (HOST, "2+3==", ["2+3", "5+3"], "8", "5+3"),
        (SERVICE, "10/4==*2=", ["10÷4", "2.5÷4", "0.625×2"], "1.25", "0.625×2"),
    ],
    indirect=["held"],
)
def test_keys_wait_for_the_answer(
    held: Held, keys: str, asked: list[str], answer: str, left: str
) -> None:
    page, release, enter = held
    enter(page, keys)
    release()
    expect(page.locator("#history .expression")).to_have_text(asked[::-1])
    answered(page, answer)
    assert typed(page) == left


# Keys of the keypad, by what stands on them, and of the keyboard; after "keyboard", of that alone.
# =4: this answer comes; @4+: this is in the field then; error: one comes; blur: the field loses the
# focus.
FLOWS = [
    "1 2 . 5 × 4 ⌫ 3 = =37.5 − 1 @37.5−1 = =36.5 ( 7 + 1 ) ÷ 2 @(7+1)÷2 Enter =4",
    "4 − 7 = =−3 ^ 2 @(−3)^2 C @",
    "√ 1 6 = =4 ! = @4! =24 C cos π ) = @cos(π) =−1 C @",
    "MR @ 7 × 8 M+ =56 M+ − 6 0 = =−4 M+ 1 + MR @1+(56+56−4) Enter =109 MC MR @1+(56+56−4)",
    "1 9 mod 1 0 = @19_mod_10 =9 C 2 * a n s - ans @2*ans-9 Enter =9 @2*9-9",
    "7 8 9 Control+z @78 Control+z @7 4 @74 Control+z Control+y @74 Escape @ Control+z @74",
    "7 8 Control+z Control+z @ Control+Shift+Z @7",
    "1 ÷ 0 = error 7 @7 C 1 ÷ 0 = error ⌫ @1÷ 4 Enter =0.25",
    "keyboard blur 1 2 * 4 Backspace 3 = =36 + 4 @36+4 Enter =40 x 2 @40×2 Enter =80",
    "keyboard 1 + 1 Enter =2 2 + 2 Enter =4 Control+a 1 2 * 3 4 ArrowUp @2+2 ArrowUp @1+1 ArrowDown"
    " @2+2 ArrowDown @12*34 ArrowUp Control+a 5 + 5 ArrowUp @2+2",
    "2 + 3 Enter =5 Backspace @2+ 4 Control+z @2+ Enter Control+a Backspace @",
]


@pytest.mark.parametrize("flow", FLOWS)
def test_keys(page: Page, flow: str) -> None:
    page.keyboard.press("Escape")
    steps = flow.removeprefix("keyboard").split()
    keypad = page.locator("#keypad button" if flow.startswith(steps[0]) else "#keypad .none")
    for step in steps:
        if step == "blur":
            page.get_by_label("Expression").blur()
        elif step[0] == "@":
            expect(page.get_by_label("Expression")).to_have_value(step[1:].replace("_", " "))
        elif step[0] == "=" and step != "=":
            answered(page, step[1:])
        elif step == "error":
            expect(page.locator("#error .failure")).to_be_visible()
        elif (key := keypad.get_by_text(step, exact=True)).count():
            key.click()  # which does not take the focus from the field
        else:
            page.keyboard.press(step)


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
    page, release, _ = held
    type_(page, "2+3=*45")
    page.keyboard.press("Backspace")
    page.keyboard.press("ArrowUp")  # what is typed stays there
    page.keyboard.type("=+1==")
    page.keyboard.press("Backspace")
    release()
    expect(page.locator("#history .expression")).to_have_text(["20+1", "5×4", "2+3"])
    answered(page, "21")


def test_what_waits_for_an_answer_that_does_not_come_is_named(held: Held) -> None:
    page, release, enter = held
    enter(page, "2+=*4=")
    release()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("The expression is not finished")
    expect(alert).to_contain_text("Typed after it, and not calculated: ×4=")
    assert typed(page) == "2+"


def test_what_waits_for_a_number_is_named_when_there_is_none(unaided: Page) -> None:
    page = unaided
    held: list[Route] = []
    page.route("**/v1/calculate/stream", lambda route: held.append(route))
    with page.expect_request("**/v1/calculate/stream"):
        type_(page, "2*3=+4=")
    expect(page.locator("#running")).to_be_visible()  # the request is held
    held[0].fulfill(body=events_of_answer(result=None, verified=False))
    answered(page, "not a number")
    expect(page.get_by_role("alert")).to_have_text("Typed after it, and not calculated: +4=")
    assert typed(page) == "2×3"


# Result, fraction, and what a product with 3 is then.
ROUNDED = [
    ("0.33333333", "1/3", "(1÷3)×3"),
    ("-0.33333333", "-1/3", "(−1÷3)×3"),
    ("0.33333333", "1111111111111/33333333333", "0.33333333×3"),  # too long
    ("0.33333333", None, "0.33333333×3"),
]


def test_a_rounded_answer_continues_with_its_exact_value(unaided: Page) -> None:
    page = unaided
    bodies = (
        events_of_answer(result=result, fraction=fraction, rounded=True)
        for result, fraction, _ in ROUNDED
    )
    page.route("**/v1/calculate/stream", lambda route: route.fulfill(body=next(bodies)))
    for _, _, continued in ROUNDED:
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


def test_an_example_plays_until_somebody_types(open_page: OpenPage) -> None:
    page = open_page(motion=True)
    stop_clock(page)
    page.reload()
    expect(page.locator("#example")).to_be_visible()
    page.clock.run_for(1000)
    page.locator(".sheet .cell").first.wait_for()
    page.get_by_role("group", name="Keypad").get_by_role("button", name="7", exact=True).click()
    expect(page.get_by_label("Expression")).to_have_value("7")
    expect(page.locator("#example")).to_be_hidden()
    expect(page.locator("#nodes > li")).to_have_count(0)
    page.clock.resume()
    page.reload()
    answered(page, "14082.9")
    expect(page.locator(".sheet .pointed")).to_have_text("6")
    expect(page.locator(".sheet .arcs path")).not_to_have_count(0)
    expect(page.locator("#history button")).to_have_count(0)
    assert "#" not in page.url
