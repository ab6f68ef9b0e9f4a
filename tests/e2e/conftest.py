"""Fixtures for end-to-end tests: the calculator's page in a browser, and a cluster of Ray."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from browser import chromium
from forks import PATIENCE
from ray_cluster import RayCluster, running_cluster
from serving import server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

OpenPage = Callable[..., "Page"]


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[RayCluster]:
    """A cluster of two CPUs, started once for all tests that use it."""
    pytest.importorskip("ray", reason="Ray is not installed: the extra `ray` installs it")
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """The address of a service with the shipped models. Not to be changed."""
    with server("scratchpad", CALCGPT_OTHERS="yes") as running:
        yield running.address


@pytest.fixture
def open_page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[OpenPage]:
    """Opens the page, without motion by default.

    At the end, checks that the page had no errors and sent no requests to other hosts.
    """
    contexts, errors, requested, hosts = [], [], [], set()

    def open_(at: str | None = None, motion: bool = False, **options: Any) -> Page:
        at = at or request.getfixturevalue("address")
        hosts.add(at)
        context = browser.new_context(
            reduced_motion="no-preference" if motion else "reduce", **options
        )
        context.set_default_timeout(1000 * PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda m: is_defect(m) and errors.append(m.text))
        page.on("request", lambda sent: requested.append(sent.url))
        page.goto(at)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert errors == []
    assert requested
    assert [url for url in requested if not url.startswith(tuple(f"{at}/" for at in hosts))] == []


def is_defect(message: ConsoleMessage) -> bool:
    """Whether a message is an error other than a refusal by the service."""
    refused = (
        message.text.startswith("Failed to load resource") and "/v1/" in message.location["url"]
    )
    return message.type == "error" and not refused


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    return open_page()
