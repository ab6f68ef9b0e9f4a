"""A real browser for tests: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, started; skips the test where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium")
    if not program:
        pytest.skip("chromium is not installed: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


def calculate(page: Page, expression: str, model: str | None = None) -> None:
    """Type an expression and press Enter; until the answer, or an error, is there."""
    if model:
        page.get_by_label("Checkpoint").select_option(model)  # waits until it is offered
    page.get_by_label("Expression").fill(expression)
    page.keyboard.press("Enter")
    page.locator("#running").wait_for(state="hidden")


def answered(page: Page, value: str) -> None:
    """Until the page shows this answer, and is done."""
    page.locator("#answer .value").get_by_text(value, exact=True).wait_for()
    page.locator("#running").wait_for(state="hidden")
