"""A model of a user's own task on the page: with its own questions in place of the keypad."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from browser import leave_to_service, static_host, violations
from serving import server

from calcgpt import Task, load_recipe, train
from calcgpt.checkpoint import Checkpoint
from calcgpt.export.web import export_page
from calcgpt.inference.questions import ask

if TYPE_CHECKING:
    from playwright.sync_api import Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect


def echo(random: Random) -> str:
    word = "".join(random.choices("ab🙂", k=random.randint(1, 5)))
    return f"{word}={word.upper()}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint that was trained until its answers have an end."""
    shape = ["model.n_layer=1", "model.n_embd=32", "model.n_head=2", "model.block_size=16"]
    steps = ["train.steps=60", "train.batch_size=16", "train.eval_problems=3"]
    recipe = load_recipe("task", [*shape, *steps])
    return train(recipe, Task(echo), tmp_path_factory.mktemp("runs") / "echo", progress=False)


@pytest.fixture(params=["service", "service that is asked", "export"])
def address(request: pytest.FixtureRequest, folder: Path, tmp_path: Path) -> Iterator[str]:
    if request.param == "export":
        export_page([Checkpoint.load(folder)], tmp_path / "page", force=False)
        with static_host(tmp_path / "page") as host:
            yield host
        return
    with server(folder) as service:
        yield service.address


def test_a_box_takes_questions_and_has_examples(
    open_page: Callable[..., Page], address: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    checkpoint = Checkpoint.load(folder)
    examples = checkpoint.metrics["examples"]
    [told, typed] = ask(checkpoint, checkpoint.model, [examples[0], "a🙂b"])
    assert told.result
    assert typed.result
    page = open_page(address)
    if "asked" in request.node.callspec.id:
        leave_to_service(page)
    chips = page.get_by_role("list", name="Examples").get_by_role("button")
    expect(chips).to_have_text(examples)
    expect(page.get_by_role("group", name="Keypad")).to_be_hidden()
    expect(page.get_by_text("Every answer is written")).to_be_hidden()
    chips.first.click()
    answer = page.locator("#reply .value")
    expect(answer).to_have_text(told.result)
    page.get_by_label("Question").fill("a🙂b")
    page.keyboard.press("Enter")
    expect(answer).to_have_text(typed.result)
    expect(page.locator("#reply .characters")).to_have_text(f"a🙂b={typed.result}$")
    page.go_back()
    expect(answer).to_have_text(told.result)
    page.get_by_label("Question").fill("x")
    page.keyboard.press("Enter")
    expect(page.locator("#reply .failure")).to_contain_text("x")
    assert violations(page) == []
