"""The tour of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from browser import answered

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect


def test_the_tour_asks_a_model_that_shows_its_work(page: Page) -> None:
    model = page.get_by_role("combobox", name="Model")
    model.select_option("direct")
    page.locator("#tour-offer").get_by_role("button", name="Take the tour").press("Enter")
    expect(page.locator(".toured")).to_be_visible()
    answered(page, "14082.9")
    expect(model).to_have_value("calculator")
    page.keyboard.press("Escape")
    expect(model).to_have_value("direct")


def test_the_tour_without_a_model_that_answers_at_once(page: Page) -> None:
    def without(route: Route) -> None:
        response = route.fetch()
        models = [m for m in response.json()["data"] if m["id"].startswith("calculator")]
        route.fulfill(response=response, json={"data": models})

    page.route("**/v1/models", without)
    page.reload()
    expect(page.get_by_role("combobox", name="Model")).to_be_enabled()  # they decide on the steps
    page.locator("#tour-offer").get_by_role("button", name="Take the tour").click()
    tour = page.get_by_role("dialog")
    for _ in range(4):
        tour.get_by_role("button", name="Next").click()
    expect(tour).to_contain_text("5 of 5")
    expect(page.locator(".toured")).to_be_visible()
    page.keyboard.press("Enter")  # in the tour
    tour.get_by_role("button", name="Done").click()
    expect(page.locator("#history button")).to_have_count(0)


def test_the_tour_is_offered_once(page: Page, address: str) -> None:
    expect(page.get_by_role("combobox", name="Model")).to_be_enabled()  # the last step needs one
    offer = page.locator("#tour-offer")
    offer.get_by_role("button", name="Take the tour").press("Enter")
    tour, model = page.get_by_role("dialog"), page.get_by_role("combobox", name="Model")
    for title in ["The question", "Digits backwards", "The steps", "Where it looks"]:
        expect(tour.get_by_role("heading")).to_have_text(title)
        expect(page.locator(".toured")).to_be_visible()
        if title == "Where it looks":
            expect(page.locator(".arcs path")).not_to_have_count(0)
        tour.get_by_role("button", name="Next").press("Enter")
    tour.get_by_role("button", name="Next").press("Enter")
    expect(page.locator(".toured")).to_contain_text("Exact arithmetic disagrees")
    expect(model).to_have_value("blog")
    tour.get_by_role("button", name="Back").press("Enter")
    answered(page, "14082.9")  # the example again
    expect(page.locator(".toured")).to_contain_text("The model was")
    expect(model).to_have_value("calculator")
    tour.get_by_role("button", name="Back").press("Enter")
    expect(page.locator(".toured.pointed")).to_be_visible()
    tour.get_by_role("button", name="Skip").press("Enter")
    expect(tour).to_be_hidden()
    expect(page.locator("#work")).to_be_focused()  # where the offer was
    expect(model).to_have_value("calculator")
    page.get_by_role("button", name="Take the tour").press("Enter")
    expect(tour).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Take the tour")).to_be_focused()
    page.goto(address)
    expect(page.get_by_role("combobox", name="Model")).to_have_value("calculator")
    expect(offer).to_be_hidden()


def test_the_tour_ends_with_the_model_that_it_began_with(page: Page) -> None:
    expect(page.get_by_role("combobox", name="Model")).to_be_enabled()  # the last step needs one
    page.get_by_role("button", name="Take the tour").first.click()
    tour = page.get_by_role("dialog")
    for _ in range(5):
        tour.get_by_role("button", name="Next").click()
    expect(page.locator(".toured")).to_contain_text("Exact arithmetic disagrees")
    expect(page.get_by_label("Expression")).to_be_in_viewport()
    tour.get_by_role("button", name="Done").click()
    answered(page, "68020.82")
    expect(page.get_by_role("combobox", name="Model")).to_have_value("calculator")
    expect(page.locator("#history button")).to_have_count(0)
