"""The service worker of an exported page, on a host whose files browsers may keep for a while."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser import answered, calculate, new_context, static_host

from calcgpt.export import web

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

expect = pytest.importorskip("playwright.sync_api", reason="the page needs playwright").expect

# Registers the worker and looks for the new one until it controls the page. Once is not enough: a
# look joins one that the browser began by itself, perhaps before the new files were there.
UPDATE = """async name => {
    const registration = await navigator.serviceWorker.register("sw.js");
    for (;;) {
        await registration.update();
        await navigator.serviceWorker.ready;
        const names = await caches.keys();
        const { installing, waiting, active } = registration;
        const { controller } = navigator.serviceWorker;
        const controls = active?.state === "activated" && controller === active;
        const isNewest = !installing && !waiting && names.some(each => each.endsWith(name));
        if (controls && isNewest) return;
        await new Promise(resolve => setTimeout(resolve, 20));
    }
}"""
READ = "file => fetch(file).then(response => response.text())"
NAMES = "() => caches.keys()"
VERSION = r'(?<=")[0-9a-f]{16}(?=")'


@pytest.fixture
def host(tmp_path: Path) -> Iterator[str]:
    """The address of a host of everything in `tmp_path`. It lets browsers keep files for an hour;
    many hosts do so for some minutes."""
    with static_host(tmp_path, cache_control="max-age=3600") as address:
        yield address


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    with new_context(browser, service_workers="allow") as context:
        yield context


def opened(context: BrowserContext, address: str) -> Page:
    page = context.new_page()
    page.goto(address)
    return page


def write_page(folder: Path, text: str) -> str:
    """Writes a small page with a file and the weights of two models. Returns its version."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "models").mkdir(parents=True)
    (folder / "index.html").write_text('<!doctype html><link rel="icon" href="data:,">')
    for name in ("file.txt", "models/default.safetensors", "models/other.safetensors"):
        (folder / name).write_text(text)
    shutil.copy(web.PAGE / web.MARKER, folder)
    web._fill_service_worker(folder, "models/default.safetensors")
    [version] = re.findall(VERSION, (folder / web.MARKER).read_text())
    return str(version)


def test_a_new_version_has_none_of_the_files_of_the_old_one(
    context: BrowserContext, host: str, tmp_path: Path
) -> None:
    version = write_page(tmp_path / "page", "old")
    page = opened(context, f"{host}/page/")
    files = ("file.txt", "models/default.safetensors", "models/other.safetensors")
    assert [page.evaluate(READ, file) for file in files] == ["old"] * 3  # the browser has them
    page.evaluate(UPDATE, version)
    page.evaluate(UPDATE, write_page(tmp_path / "page", "new"))
    assert [page.evaluate(READ, file) for file in files] == ["new"] * 3


def test_an_old_tab_says_that_there_is_a_new_version(
    context: BrowserContext, host: str, tmp_path: Path, exported_folder: Path
) -> None:
    worker = shutil.copytree(exported_folder, tmp_path / "page") / web.MARKER
    page = opened(context, f"{host}/page/")
    [version] = re.findall(VERSION, worker.read_text())
    page.evaluate(UPDATE, version)
    calculate(page, "1+2")
    answered(page, "3")
    new = "0123456789abcdef"
    worker.write_text(re.sub(VERSION, new, worker.read_text()))
    page.wait_for_function("() => navigator.serviceWorker.oncontrollerchange")
    page.evaluate(UPDATE, new)
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("There is a new version of this page.")
    alert.get_by_role("button", name="Reload it").click()
    answered(page, "3")
    expect(alert).to_be_empty()


def test_two_pages_on_a_host_keep_their_files(
    context: BrowserContext, host: str, tmp_path: Path
) -> None:
    pages = []
    for name in ("first", "second"):
        version = write_page(tmp_path / name, name)
        pages.append(opened(context, f"{host}/{name}/"))
        pages[-1].evaluate(UPDATE, version)
    assert len(pages[0].evaluate(NAMES)) == 2
    context.set_offline(True)
    assert [page.evaluate(READ, "file.txt") for page in pages] == ["first", "second"]


def test_a_model_that_cannot_be_kept_is_used(
    context: BrowserContext, host: str, tmp_path: Path
) -> None:
    version = write_page(tmp_path / "page", "weights")
    (tmp_path / "page" / "models" / "other.safetensors").write_text("large" * 100_000)
    page = opened(context, f"{host}/page/")
    page.evaluate(UPDATE, version)
    session = context.new_cdp_session(page)
    session.send("Storage.overrideQuotaForOrigin", {"origin": host, "quotaSize": 50_000})
    assert len(page.evaluate(READ, "models/other.safetensors")) == 500_000
    session.send("Storage.overrideQuotaForOrigin", {"origin": host})
