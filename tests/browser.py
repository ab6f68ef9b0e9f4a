"""A browser for tests: Debian's Chromium, controlled by Playwright."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from waiting import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, Route

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # nothing else is asked
    # A new process of the browser for each address would take half a second.
    "--disable-site-isolation-trials",
    "--renderer-process-limit=1",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Runs the browser. Skips the test if it is not installed."""
    playwright = pytest.importorskip("playwright.sync_api", reason="the page needs playwright")
    playwright.expect.set_options(timeout=1000 * PATIENCE)
    program = shutil.which("chromium")
    if not program:
        pytest.skip("the page needs a browser (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=program, args=ARGUMENTS, timeout=1000 * PATIENCE
        )
        try:
            yield browser
        finally:
            browser.close()


def new_context(browser: Browser, **options: Any) -> BrowserContext:
    """Returns a context in which everything waits as long as `expect` does.

    It has no service workers, which hang after minutes in one browser, unless they are the subject:
    `service_workers="allow"`.
    """
    context = browser.new_context(**{"service_workers": "block", **options})
    context.set_default_timeout(1000 * PATIENCE)
    return context


def hold(page: Page, address: str) -> Callable[[], None]:
    """Holds the requests to an address. Returns a function that lets them go, and later ones."""
    held: list[Route] = []
    page.route(address, lambda route: held.append(route))

    def release() -> None:
        page.route(address, lambda route: route.continue_())  # from here on, none is held
        for route in held:
            route.continue_()

    return release


def stop_clock(page: Page) -> None:
    """Stops the time of the page: it passes only when `page.clock` lets it, however slow the test
    is. Without time, no timer ends and no frame is drawn. Use it in a window of its own, because
    the clock stays."""
    page.clock.install(time=0)
    page.clock.pause_at(3600)  # not earlier than the time is now


def press(page: Page, *names: str) -> None:
    """Presses buttons of the keypad."""
    keypad = page.get_by_role("group", name="Keypad")
    for name in names:
        keypad.get_by_role("button", name=name, exact=True).click()


def calculate(page: Page, expression: str, model: str | None = None) -> None:
    """Types an expression and presses Enter; waits for the answer or an error."""
    if model:
        page.get_by_role("combobox", name="Model").select_option(model)  # waits until it is offered
    page.get_by_label("Expression").fill(expression)
    page.keyboard.press("Enter")
    page.locator("#running").wait_for(state="hidden")


def answered(page: Page, value: str) -> None:
    """Waits until the page shows this answer and nothing runs."""
    page.locator("#answer .value").get_by_text(value, exact=True).wait_for()
    page.locator("#running").wait_for(state="hidden")


RESULT: dict[str, Any] = {
    "expression": "",
    "reading": None,
    "alternative": None,
    "result": "0",
    "exact": "0",
    "fraction": "0",
    "places": 8,
    "rounded": False,
    "verified": True,
    "confidence": {"answer": 1, "weakest_step": 1, "whole": 1},
    "nodes": [],
    "model": "",
}


def leave_to_service(page: Page) -> None:
    """Makes the service say, from the next load of the page on, that the engine of the page cannot
    run its models."""
    kind = "urn:calcgpt:problem:no-weights"
    page.route("**/weights", lambda route: route.fulfill(status=404, json={"type": kind}))


def events_of_answer(**fields: Any) -> str:
    """The events of an answer without operations, as the service sends them."""
    answer = json.dumps({**RESULT, **fields})
    return f"event: start\ndata: {answer}\n\nevent: result\ndata: {answer}\n\n"


def violations(page: Page, **options: Any) -> list[Any]:
    """Returns what axe finds wrong."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    result: list[Any] = axe.run(page, options=options).response["violations"]
    return result


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves the files of a folder, without a log. `cache_control` is sent with each of them."""

    cache_control = ""

    def parse_request(self) -> bool:
        """Ignores the time that a browser asks about. It is in whole seconds: two versions that a
        test writes within one would be the same."""
        parsed = super().parse_request()
        if parsed:
            del self.headers["If-Modified-Since"]
        return parsed

    def end_headers(self) -> None:
        if self.cache_control:
            self.send_header("Cache-Control", self.cache_control)
        super().end_headers()

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def static_host(folder: Path, cache_control: str = "") -> Iterator[str]:
    """Serves the files of a folder; yields the address."""
    kind = type("Handler", (QuietHandler,), {"cache_control": cache_control})
    handler = functools.partial(kind, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as host:
        threading.Thread(target=host.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{host.server_address[1]}"
        host.shutdown()
