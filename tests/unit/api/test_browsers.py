"""What browsers ask for: files that they may know, weights, and calls from other origins."""

import posixpath
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any

import pytest
from checkpoint_folders import make
from fastapi.testclient import TestClient
from serving import client_of, problem

from api.app import create_app
from api.service import load_model
from api.settings import Settings
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.browser import manifest_of
from calcgpt.registry import resolve

FILES = ["/", "/docs", "/static/calculator.js", "/static/swagger/swagger-ui.css"]
ORIGIN = "https://page.example"


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(create_app(Settings(cors_origins=ORIGIN), lambda: iter(()))) as started:
        yield started


@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize(
    "value", ["bytes=abc", "bytes=5-2", "items=0-5", "bytes=99999999-", "bytes=0-9", ""]
)
def test_a_file_is_always_sent_whole(client: TestClient, path: str, value: str) -> None:
    whole = client.get(path)
    response = client.get(path, headers={"Range": value})
    assert (response.status_code, response.content) == (200, whole.content)
    assert response.headers["Accept-Ranges"] == "none"


@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}'])
def test_a_known_file_is_not_sent_again(client: TestClient, path: str, form: str) -> None:
    tag = client.get(path).headers["ETag"]
    again = client.get(path, headers={"If-None-Match": form.format(tag)})
    assert (again.status_code, again.content) == (304, b"")
    assert (again.headers["ETag"], again.headers["Cache-Control"]) == (tag, "no-cache")
    assert client.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


def preflight(origin: str = ORIGIN, headers: str = "content-type") -> dict[str, str]:
    """Returns the headers of a preflight."""
    return {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": headers,
    }


def test_a_page_of_another_origin_may_not_call(client: TestClient) -> None:
    response = client.options("/v1/calculate", headers=preflight(origin="https://other.example"))
    assert response.status_code == 400
    assert "Access-Control-Allow-Origin" not in response.headers


@pytest.mark.parametrize(
    "names",
    ["authorization,content-type", "x-stainless-lang,x-stainless-os", "x-request-id"],
)
def test_pages_of_a_listed_origin_may_send_any_header_but_no_cookies(
    client: TestClient, names: str
) -> None:
    response = client.options("/v1/chat/completions", headers=preflight(headers=names))
    assert response.status_code == 200
    assert response.headers["Access-Control-Allow-Headers"] == names
    assert response.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert "Access-Control-Allow-Credentials" not in response.headers
    called = client.get("/healthz", headers={"Origin": ORIGIN, "X-Request-ID": "mine"})
    assert called.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert called.headers["Access-Control-Expose-Headers"] == "Retry-After, X-Request-ID"
    assert called.headers["X-Request-ID"] == "mine"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (None, "static/preview.png"),
        ("https://example.org", "https://example.org/static/preview.png"),
        ("http://localhost:8000/a&b/", "http://localhost:8000/a&amp;b/static/preview.png"),
    ],
)
def test_a_link_to_the_page_shows_a_picture(address: str | None, expected: str) -> None:
    client = TestClient(create_app(Settings(page_address=address), lambda: iter(())))
    html = client.get("/").text
    assert f'<meta property="og:image" content="{expected}">' in html
    off = client.get("/static/off.html").text  # to which links to a model without a part lead
    picture = expected.replace("preview", "off") if address else "off.png"
    assert f'<meta property="og:image" content="{picture}">' in off
    for page, name in ((html, "preview"), (off, "off")):
        header = client.get(f"/static/{name}.png").content[:24]  # of a PNG: its size comes last
        for side, size in zip(("width", "height"), struct.unpack(">16xII", header), strict=True):
            assert f'<meta property="og:image:{side}" content="{size}">' in page


def test_the_documentation_works_below_a_path() -> None:
    client = TestClient(create_app(Settings(), lambda: iter(())))
    named = re.findall(r'(?:href|src)="([^"]*)"', client.get("/docs").text)
    named += re.findall(r'fetch\("([^"]*)"\)', client.get("/static/docs.js").text)
    assert len(named) == 6
    for path in named:
        assert client.get(f"/{path}").status_code == 200


def test_the_icon_for_home_screens_is_a_square_picture() -> None:
    client = TestClient(create_app(Settings(), lambda: iter(())))
    assert '<link rel="apple-touch-icon" href="static/touch-icon.png">' in client.get("/").text
    answer = client.get("/static/touch-icon.png")
    assert answer.headers["content-type"] == "image/png"
    assert struct.unpack(">16xII", answer.content[:24]) == (180, 180)


def test_the_page_and_its_files_are_compressed_but_no_answer_is(client: TestClient) -> None:
    plain = {"Accept-Encoding": "identity"}
    for path in ["/", "/static/calculator.js", "/static/page.css", "/openapi.json"]:
        compressed, whole = client.get(path), client.get(path, headers=plain)
        assert compressed.headers["Content-Encoding"] == "gzip"
        assert "Content-Encoding" not in whole.headers
        assert compressed.content == whole.content  # the client decompresses
        assert all("Accept-Encoding" in r.headers["Vary"] for r in (compressed, whole))
        assert compressed.headers["ETag"] != whole.headers["ETag"]
        refused = client.get(path, headers={"Accept-Encoding": "br, gzip;q=0"})
        assert refused.headers["ETag"] == whole.headers["ETag"]
    assert "Content-Encoding" not in client.get("/static/preview.png").headers
    for path in ("/v1/models", "/metrics"):
        assert "Content-Encoding" not in client.get(path).headers


def test_a_file_is_compressed_once(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    compressed: list[str] = []

    def counted(name: str) -> Callable[..., Any]:
        function = getattr(zlib, name)
        return lambda *args, **options: compressed.append(name) or function(*args, **options)

    for name in ("compress", "compressobj"):
        monkeypatch.setattr(zlib, name, counted(name))
    for _ in range(3):
        response = client.get("/static/swagger/swagger-ui-bundle.js")
        assert response.headers["Content-Encoding"] == "gzip"
    assert len(compressed) <= 1  # an earlier test may have asked for it


def test_the_page_lists_all_modules_that_it_loads(client: TestClient) -> None:
    html = client.get("/").text
    listed = re.findall(r'<link rel="modulepreload" href="static/([^"]*)">', html)
    for name in listed:
        text = client.get(f"/static/{name}").text
        imported = re.findall(r'^(?:import|export) [^"]*? from "([^"]*)";', text, re.M)
        folder = PurePosixPath(name).parent
        paths = {posixpath.normpath(folder / path) for path in imported}
        assert paths <= set(listed)
    assert {"calculator.js", "backend.js", "paper/work.js", "engine/worker.js"} <= set(listed)


def test_weights_and_manifest_are_sent_once() -> None:
    folder = resolve("calculator")
    checkpoint = Checkpoint.load(folder)
    with client_of(load_model(checkpoint)) as client:
        found = client.get("/v1/models/calculator/manifest")
        assert found.json() == manifest_of(checkpoint)
        assert found.json()["vocabulary"] == "$()*+-./0123456789:;=an|"

        response = client.get("/v1/models/calculator/weights")
        assert response.status_code == 200
        assert response.headers["content-type"] == "application/octet-stream"
        assert response.content == (folder / "model.safetensors").read_bytes()
        tag = response.headers["etag"]
        again = client.get("/v1/models/calculator/weights", headers={"If-None-Match": tag})
        assert (again.status_code, again.headers["cache-control"]) == (304, "private, no-cache")
        problem(client.get("/v1/models/large/weights"), 404, "unknown-model")


def test_a_model_of_another_form_is_not_for_the_browser() -> None:
    with client_of(load_model(make())) as client:
        for file in ("weights", "manifest"):
            refused = problem(client.get(f"/v1/models/made/{file}"), 404, "no-weights")
            message = "the engine of the page does not support architecture 'gpt'"
            assert refused["detail"] == message
