"""The page with a model of worked steps: places and rounding."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
import uvicorn
from browser import answered, calculate, leave_to_service
from fake_decoder import calculator_model, worked_model
from forks import PATIENCE
from serving import wait_for

from api.app import create_app
from api.settings import Settings

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect
Reuse = Callable[[str], "Page"]


@pytest.fixture(scope="module")
def wide_address() -> Iterator[str]:
    """The address of a service with a model of worked steps and one of two places, both right."""
    models = (
        worked_model(name="wide"),
        calculator_model(name="narrow"),
    )
    app = create_app(Settings(deadline=PATIENCE), lambda: iter(models))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        wait_for(lambda: server.started)
        wait_for(lambda: len(list(app.state.service.models)) == len(models))
        (socket,) = server.servers[0].sockets
        yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE)


@pytest.fixture
def page(reuse: Reuse, wide_address: str) -> Page:
    """The page of that service, which calculates: the weights of its models are random."""
    page = reuse(wide_address)
    leave_to_service(page)
    return page


def test_answers_have_the_chosen_places(page: Page) -> None:
    places = page.get_by_label("Decimal places")
    expect(places).to_have_value("8")
    expect(page.locator("#model-facts")).to_contain_text("numbers of up to 10,100 characters")
    calculate(page, "1/3")
    answered(page, "0.33333333")
    expect(page.locator("#answer .rounded")).to_have_text(
        "rounded to 8 places, exactly 1/3 = 0.3 repeating"  # the 3 has a line over it
    )
    assert places.locator("option").all_inner_texts() == [str(n) for n in range(31)]
    places.select_option("1")
    calculate(page, "1/4")
    answered(page, "0.2")
    expect(page.locator("#answer .rounded")).to_contain_text("rounded to 1 place: a tie")
    calculate(page, "1/2")
    answered(page, "0.5")
    expect(page.locator("#answer .rounded")).to_have_count(0)
    page.get_by_role("combobox", name="Model").select_option("narrow")
    expect(places).to_be_hidden()
    calculate(page, "1/3")
    answered(page, "0.33")
    page.get_by_role("combobox", name="Model").select_option("wide")
    expect(places).to_have_value("8")
