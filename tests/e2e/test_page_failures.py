"""Errors on the calculator's page, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser import answered, calculate, hold, leave_to_service, new_context, stop_clock
from serving import server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect

OpenPage = Callable[..., "Page"]


def selected(page: Page) -> str:
    return page.get_by_label("Expression").evaluate(
        "field => field.value.slice(field.selectionStart, field.selectionEnd)"
    )


def test_an_error_marks_its_position(page: Page) -> None:
    # Once: every selection asks again, and its error would be marked while the next is typed.
    page.get_by_role("combobox", name="Model").select_option("direct")  # which takes two places
    for expression, marked, line in [
        ("12.5*(3+x)", "x", "A number is expected, not 'x' (character 9)."),
        (
            "1 + 😀 + 2",
            "😀",
            "A number is expected, not '😀' (character 5).",
        ),  # two units of UTF-16, one character
        ("1+<img src=x onerror=alert(1)>", "<", "A number is expected, not '<'"),
        ("∜2", "∜", "not '∜'; this calculator has numbers, + − × ÷ ^ %"),
        ("√2", "√2", "A model without worked steps has no functions"),
        ("6÷2(1+2)", "(", "; 6÷2(3) is (6÷2)×3 to some and 6÷(2×3) to others"),
        ("2×/3", "/", "A number is expected, not '/'"),
        ("12345678901*2", "12345678901", "more than 10 characters"),
        ("1/(2-2)", "(2-2)", "ivision by zero"),
    ]:
        calculate(page, expression)
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text(line)
        mark = alert.locator("mark").inner_text()
        assert mark == selected(page)
        assert mark in marked
        assert alert.locator(".place").inner_text() == expression
        expect(page.locator("#answer")).to_be_empty()
    assert page.locator("img").count() == 0  # what was typed is never HTML
    calculate(page, "  ")
    expect(page.get_by_role("alert")).to_have_text("!Type an expression first, for example 12.5×3.")
    calculate(page, "12.5*")
    expect(page.get_by_role("alert")).to_contain_text(
        "The expression is not finished: a number is expected at its end."
    )
    expect(page.get_by_role("alert").locator("mark")).to_have_text("here", use_inner_text=False)
    page.get_by_role("combobox", name="Model").select_option("calculator")
    page.locator("#running").wait_for(state="hidden")  # it is asked, too
    page.get_by_label("Expression").focus()
    page.keyboard.type("3")  # at the end, where it is lacking
    expect(page.get_by_role("alert")).to_be_empty()
    page.keyboard.press("Enter")
    answered(page, "37.5")


@pytest.mark.parametrize(
    "damage",
    [
        "() => localStorage.setItem('calcgpt.history', '[null, {\"expression\": 1}]')",
        "() => localStorage.setItem('calcgpt.history', '{')",
    ],
)
def test_a_damaged_history_does_no_harm(
    window: Page, visit: Callable[[Page, str], Page], address: str, damage: str
) -> None:
    with window.context.new_page() as page:
        page.add_init_script(f"({damage})()")
        visit(page, address)
        calculate(page, "12.5*3")
        answered(page, "37.5")
        expect(page.locator("#history button")).to_have_count(1)


def test_a_question_waits_for_the_list_of_models_and_is_asked_once(page: Page) -> None:
    release = hold(page, "**/v1/models")
    page.reload()
    page.get_by_label("Expression").fill("12.5*3")
    page.keyboard.press("Enter")
    expect(page.locator("#running")).to_be_visible()
    release()
    answered(page, "37.5")
    expect(page.get_by_role("combobox", name="Model")).to_be_enabled()
    answered(page, "37.5")
    expect(page.locator("#history button")).to_have_count(1)


def test_a_page_that_has_its_model_needs_no_service(page: Page) -> None:
    calculate(page, "12.5*3")
    answered(page, "37.5")
    page.route("**/v1/**", lambda route: route.abort())
    calculate(page, "2*3.5")
    answered(page, "7")
    page.locator(".sheet [data-at='1']").hover()
    expect(page.locator(".readout .considered")).not_to_be_empty()
    page.get_by_role("combobox", name="Model").select_option("direct")
    expect(page.locator("#error .failure")).to_have_text("!The server cannot be reached.")


def test_stop_ends_the_request(unaided: Page) -> None:
    page = unaided
    hold(page, "**/v1/calculate/stream")
    page.get_by_label("Expression").fill("1+1")
    with page.expect_request("**/v1/calculate/stream"):  # or there is none to end
        page.keyboard.press("Enter")
    with page.expect_event("requestfailed") as gone:
        page.get_by_role("button", name="Stop").click()
    assert gone.value.failure == "net::ERR_ABORTED"
    expect(page.locator("#running")).to_be_hidden()
    expect(page.get_by_role("alert")).to_be_empty()


CUT = 'event: start\ndata: {"nodes": [{"expression": "1+1", "position": 0, "end": 3}]}\n\n'
PROBLEM = json.dumps({"status": 504, "title": "Gateway Timeout", "detail": "not answered in 30 s"})


# Responses to a calculation (None: no connection), and what the page says.
FAILURES: list[tuple[dict[str, Any] | None, str]] = [
    ({"body": CUT}, "The connection ended before the answer was complete."),
    ({"body": f"{CUT}event: error\ndata: {PROBLEM}\n\n"}, "Not answered in 30 s."),
    ({"body": f"{CUT}event: token\ndata: {{\n\n"}, "The connection ended"),
    ({"status": 500, "body": "<h1>"}, "The server answered with status 500."),
    (
        {"status": 429, "body": '{"detail": "too fast"}', "headers": {"Retry-After": "7"}},
        "Too fast. Try again in 7 seconds.",
    ),
    (
        {"status": 503, "body": '{"detail": "full"}', "headers": {"Retry-After": "1"}},
        "Full. Try again in a second.",
    ),
    (None, "The server cannot be reached."),
]


def respond(response: dict[str, Any] | None, route: Route) -> None:
    if response is None:
        route.abort()
    else:
        route.fulfill(**response)


def test_a_failure_is_one_clear_line(unaided: Page) -> None:
    page, stream = unaided, "**/v1/calculate/stream"
    for response, line in FAILURES:  # no line is part of the one before
        page.unroute(stream)
        page.route(stream, partial(respond, response))
        calculate(page, "1+1")
        expect(page.locator("#error .failure"), str(response)).to_contain_text(line)
        expect(page.locator("#nodes .writing"), str(response)).to_have_count(0)


def test_an_event_that_cannot_be_shown_ends_the_calculation(open_page: OpenPage) -> None:
    page = open_page(motion=True)
    leave_to_service(page)
    page.reload()  # the example may have loaded the model
    damaged = 'event: token\ndata: {"node": 7}\n\nevent: result\ndata: {}\n\n'
    page.route("**/v1/calculate/stream", lambda route: route.fulfill(body=CUT + damaged))
    calculate(page, "1+1")
    expect(page.locator("#error .failure")).to_contain_text("TypeError")


def test_a_failed_list_of_checkpoints_is_requested_again(open_page: OpenPage, address: str) -> None:
    page = open_page()
    page.goto("about:blank")  # or the list may be requested once more before the next page is there
    stop_clock(page)
    fails = iter([True, False, True])
    page.route(
        "**/v1/models",
        lambda route: route.fulfill(status=500) if next(fails, False) else route.continue_(),
    )
    page.goto(address)
    facts = page.locator("#model-facts")
    for _ in range(2):  # the second time, the list is the same as before
        expect(facts).to_have_text("The models could not be loaded. Trying again in 4 seconds.")
        page.clock.fast_forward(5000)
        expect(facts).to_contain_text("calculator; numbers of up to ")
        page.clock.fast_forward(3000)
    headers = {"Retry-After": "600"}
    page.route("**/v1/models", lambda route: route.fulfill(status=429, headers=headers), times=1)
    page.reload()
    expect(facts).to_have_text("The models could not be loaded. Trying again in 600 seconds.")


def test_a_service_with_keys_asks_for_one(open_page: OpenPage, tiny_folder: Path) -> None:
    with server(tiny_folder, CALCGPT_API_KEYS="clé€") as guarded:
        page = open_page(guarded.address)
        release = hold(page, "**/example.json")
        page.reload()
        expect(page.locator("#error .failure")).to_be_visible()
        release()  # its example begins later than the error comes
        answered(page, "14082.9")
        field = page.get_by_label("API key")
        expect(field).to_be_focused()
        for key, line in [
            ("clé😀", "This service requires an API key"),
            (" clé€\u200b", "This API key is not valid"),  # pasted with what cannot be seen
        ]:
            expect(page.locator("#error .failure")).to_contain_text(line)
            field.fill(key)
            page.keyboard.press("Enter")
        expect(page.get_by_role("combobox", name="Model")).to_have_value("tiny")
        expect(field).to_be_hidden()
        page.reload()  # it is kept for this tab
        expect(page.get_by_role("combobox", name="Model")).to_have_value("tiny")
        calculate(page, "1+1")
        expect(page.locator("#answer .disagrees")).to_be_visible()  # random weights


def test_a_model_that_did_not_load_is_loaded_for_the_next_question(page: Page) -> None:
    is_broken = True

    def respond(route: Route) -> None:
        if is_broken:
            route.fulfill(status=500)
        else:
            route.fallback()

    page.route("**/weights", respond)
    page.reload()  # nothing is loaded yet, nor taken from the browser's cache
    calculate(page, "1+2")
    expect(page.locator("#error .failure")).to_contain_text("The server answered with status 500.")
    is_broken = False
    calculate(page, "1+2")
    answered(page, "3")


NO_WORKER = "The model runs in a worker, and this browser allows none here."
FORBIDDEN = {
    "delete globalThis.Worker": NO_WORKER,
    "globalThis.Worker = class { constructor() { throw new DOMException('no'); } }": NO_WORKER,
    "delete globalThis.SharedArrayBuffer": "",
    """for (const name of ["localStorage", "sessionStorage", "indexedDB", "caches"])
        Object.defineProperty(window, name, { get() { throw new DOMException("no"); } });
    delete Navigator.prototype.serviceWorker;""": "",
}


@pytest.mark.parametrize("code", FORBIDDEN)
def test_an_exported_page_answers_or_says_what_the_browser_forbids(
    open_page: OpenPage, host_address: str, code: str
) -> None:
    page = open_page(host_address)
    page.add_init_script(code)
    for address in (host_address, f"{host_address}/#q=12.5*3"):
        page.goto("about:blank")
        page.goto(address)
        calculate(page, "12.5*3")
        expect(page.locator("#answer .value")).to_have_text([] if FORBIDDEN[code] else ["37.5"])
        expect(page.get_by_role("alert")).to_have_text(
            f"!{FORBIDDEN[code]}" if FORBIDDEN[code] else ""
        )


def test_a_page_that_is_opened_as_a_file_says_what_it_needs(
    browser: Browser, exported_folder: Path
) -> None:
    with new_context(browser) as context:
        page = context.new_page()
        page.goto((exported_folder / "index.html").as_uri())
        expect(page.get_by_role("alert")).to_contain_text(
            "This page needs a web host: run `python3"
        )


LOAD_TWICE = """async () => {
    const { Engine } = await import("/static/engine/engine.js");
    const engine = new Engine(async () => ({ manifest: {}, buffer: new ArrayBuffer(0) }));
    const load = () => engine.load("empty").catch(({ message }) => message);
    return [await load(), await load()];
}"""


def test_an_engine_that_did_not_start_is_started_again(plain_page: Page) -> None:
    requests: list[Route] = []

    def fail_once(route: Route) -> None:
        requests.append(route)
        if len(requests) == 1:
            route.abort()
        else:
            route.fallback()

    plain_page.route("**/engine/worker.js", fail_once)
    first, second = plain_page.evaluate(LOAD_TWICE)
    assert first == "The engine could not start."
    assert second == "The weights of this model are damaged."  # as a running worker says
