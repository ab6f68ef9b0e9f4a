"""Fixtures for end-to-end tests: the calculator's page in a browser, and a cluster of Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2 as httpx
import pytest
from browser import chromium, leave_to_service, new_context, static_host
from ray_cluster import RayCluster, running_cluster
from serving import server
from waiting import PATIENCE, wait_for

from calcgpt.checkpoint import Checkpoint
from calcgpt.export import web
from calcgpt.registry import resolve, shipped_names

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Route

STATIC = Path(__file__).parents[2] / "api" / "static"
OpenPage = Callable[..., "Page"]
Visit = Callable[["Page", str], "Page"]


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    """A cluster of two CPUs, started once for all tests that use it."""
    pytest.importorskip("ray", reason="Ray is not installed: the extra `ray` installs it")
    with running_cluster() as cluster:
        yield cluster


_open_browser = ExitStack()
_browsers: list[Browser] = []  # at most one
_windows: list[Page] = []  # at most one


@pytest.fixture(scope="module")
def browser() -> Browser:
    """The browser of all tests of the page that run one after the other."""
    if not _browsers:
        _browsers.append(_open_browser.enter_context(chromium()))
        _open_browser.callback(_browsers.clear)
    return _browsers[0]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Function | None) -> None:
    """Closes the browser before a test without one: Playwright leaves an event loop that runs in
    this thread, beside which no other can."""
    if nextitem is None or "browser" not in nextitem.fixturenames:
        _open_browser.close()


@pytest.fixture(scope="module")
def plain_page(browser: Browser) -> Iterator[Page]:
    """An empty page that can import the modules of the calculator's page, without a service."""

    def fulfill(route: Route) -> None:
        name = urlsplit(route.request.url).path.removeprefix("/static/").removeprefix("/")
        if name:
            route.fulfill(path=STATIC / name)
        else:
            route.fulfill(content_type="text/html", body="")

    with new_context(browser) as context:
        context.route("http://plain.test/**", fulfill)
        page = context.new_page()
        page.goto("http://plain.test/")
        yield page


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """The address of a service that has loaded the shipped models. Not to be changed."""

    def is_complete() -> bool:
        listed = httpx.get(f"{running.address}/v1/models", timeout=PATIENCE).json()["data"]
        return {model["id"] for model in listed} >= set(shipped_names())

    with server("calculator", CALCGPT_OTHERS="yes") as running:
        wait_for(is_complete)
        yield running.address


@pytest.fixture
def visit() -> Iterator[Visit]:
    """Loads an address in a page.

    At the end, checks that the page had no errors. A request to another host is one: the browser
    finds no other.
    """
    errors: list[str] = []
    listeners = {
        "pageerror": lambda error: errors.append(str(error)),
        "console": lambda message: is_defect(message) and errors.append(message.text),
    }
    pages = []

    def load(page: Page, at: str) -> Page:
        pages.append(page)
        for event, listener in listeners.items():
            page.on(event, listener)
        page.goto(at)
        return page

    yield load
    for page in pages:
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
    assert errors == []


@pytest.fixture
def open_page(browser: Browser, visit: Visit, request: pytest.FixtureRequest) -> Iterator[OpenPage]:
    """Opens the page in a new window, which no other test uses. Without motion by default."""
    contexts = []

    def open_(at: str | None = None, motion: bool = False, **options: Any) -> Page:
        context = new_context(
            browser, reduced_motion="no-preference" if motion else "reduce", **options
        )
        contexts.append(context)
        return visit(context.new_page(), at or request.getfixturevalue("address"))

    yield open_
    for context in contexts:
        context.close()


@pytest.fixture
def window(browser: Browser) -> Page:
    """A window that the tests share, because a new one takes a second longer. No motion."""
    if not _windows:
        context = _open_browser.enter_context(new_context(browser, reduced_motion="reduce"))
        _windows.append(context.new_page())
        _open_browser.callback(_windows.clear)
    return _windows[0]


@pytest.fixture
def clean(window: Page) -> Callable[[str], Page]:
    """Makes that window as if it had never been at an address."""

    def make(at: str) -> Page:
        window.goto("about:blank")
        window.unroute_all()
        window.set_viewport_size({"width": 1280, "height": 720})
        window.emulate_media(media="null", color_scheme="null")
        session = window.context.new_cdp_session(window)
        session.send("Storage.clearDataForOrigin", {"origin": at, "storageTypes": "all"})
        session.detach()
        return window

    return make


@pytest.fixture
def reuse(clean: Callable[[str], Page], visit: Visit) -> Callable[[str], Page]:
    """Loads an address in that window, made clean."""
    return lambda at: visit(clean(at), at)


def is_defect(message: ConsoleMessage) -> bool:
    """Whether a message is an error other than a refusal by the service."""
    refused = (
        message.text.startswith("Failed to load resource") and "/v1/" in message.location["url"]
    )
    return message.type == "error" and not refused


@pytest.fixture
def page(reuse: Callable[[str], Page], address: str) -> Page:
    return reuse(address)


@pytest.fixture
def unaided(clean: Callable[[str], Page], visit: Visit, address: str) -> Page:
    """The page of a service whose models its own engine cannot run."""
    page = clean(address)
    leave_to_service(page)
    return visit(page, address)


@pytest.fixture(scope="session")
def exported_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page without a service."""
    out = tmp_path_factory.mktemp("web") / "page"
    web.export_page([Checkpoint.load(resolve("calculator"))], out, force=False)
    return out


@pytest.fixture(scope="session")
def host_address(exported_folder: Path) -> Iterator[str]:
    """The address of a static host of that page."""
    with static_host(exported_folder) as address:
        yield address


@pytest.fixture
def exported(reuse: Callable[[str], Page], host_address: str) -> Page:
    return reuse(host_address)
