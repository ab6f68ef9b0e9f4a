"""Texts from the network, from servers that behave and that misbehave."""

import hashlib
import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest
from commands import RunCli
from forks import PATIENCE

from datagen import text
from datagen.errors import DataError
from datagen.files import sha256
from datagen.text import SOURCES, TextSource, prepare_text

TEXT = "To be, or not to be: ÷\r\n".encode() * 5_000
SHA256 = hashlib.sha256(TEXT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Answers by the path of the request."""

    protocol_version = "HTTP/1.1"
    requested: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.requested.append(self.path)
        name = self.path.split("?")[0].strip("/").partition(".")[0].partition("/")[0]
        self.close_connection = True
        getattr(self, f"send_{name}", lambda: self.send_error(404))()

    def log_message(self, *_: object) -> None:
        pass

    def head(self, length: int | None = len(TEXT), code: int = 200, **headers: str) -> None:
        self.send_response(code)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()

    def send_good(self) -> None:
        self.head()
        self.wfile.write(TEXT)

    def send_unannounced(self) -> None:
        self.head(None)
        self.wfile.write(TEXT)

    def send_chunked(self) -> None:
        self.head(None, Transfer_Encoding="chunked")
        self.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(TEXT), TEXT))

    def send_cut(self) -> None:
        self.head()
        self.wfile.write(TEXT[:1000])

    def send_cutchunks(self) -> None:
        self.head(None, Transfer_Encoding="chunked")
        self.wfile.write(b"%x\r\n%b" % (len(TEXT), TEXT[:1000]))

    def send_moved(self) -> None:
        self.head(0, 302, Location="/good.txt")

    def send_circle(self) -> None:
        self.head(0, 302, Location="/circle")

    def send_away(self) -> None:
        self.head(0, 302, Location=self.path.partition("?")[2])

    def send_announcedhuge(self) -> None:
        self.head(10**15)

    def send_huge(self) -> None:
        self.head(None)
        for _ in range(100):
            self.wfile.write(TEXT)

    def send_silence(self) -> None:
        self.head()
        self.wfile.flush()
        self.connection.recv(1)  # until the client gives up

    def send_drip(self) -> None:
        self.head()
        while True:  # until the client gives up
            self.wfile.write(b"a")
            self.wfile.flush()
            time.sleep(0.1)

    def send_image(self) -> None:
        self.head(4)
        self.wfile.write(b"\x89PNG")

    def send_empty(self) -> None:
        self.head(0)

    def send_rubbish(self) -> None:
        self.wfile.write(b"SSH-2.0-OpenSSH\r\n\r\n")

    def send_nothing(self) -> None:
        pass


class Server(ThreadingHTTPServer):
    """Ignores clients that disconnect."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        pass


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of the server. `Handler.requested` holds the paths of the requests."""
    Handler.requested.clear()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Server(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def text_of(folder: Path) -> bytes:
    return (folder / "train.txt").read_bytes() + (folder / "val.txt").read_bytes()


@pytest.mark.parametrize("path", ["good.txt", "unannounced", "chunked", "moved"])
def test_a_text_is_downloaded_once(
    run_cli: RunCli, tmp_path: Path, address: str, path: str
) -> None:
    command = ("datagen", "text", tmp_path / "out", "--source", f"{address}/{path}")
    first = run_cli(*command)
    assert first.code == 0, first.err
    assert text_of(tmp_path / "out") == TEXT
    assert SHA256 in first.out  # to be pinned
    n_requests = len(Handler.requested)
    again = run_cli(*command)
    assert (again.code, again.out) == (0, first.out)
    assert "already complete" in again.err
    assert len(Handler.requested) == n_requests
    assert run_cli(*command, "--sha256", SHA256).code == 0


def test_the_folder_is_named_after_the_source(
    run_cli: RunCli, tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_cli("datagen", "text", "--quiet", "--source", f"{address}/good.txt")
    assert text_of(tmp_path / "data" / "good") == TEXT
    monkeypatch.setitem(SOURCES, "hamlet", TextSource(f"{address}/good.txt", SHA256))
    assert run_cli("datagen", "text", "--source", "hamlet").code == 0
    assert text_of(tmp_path / "data" / "hamlet") == TEXT
    monkeypatch.setitem(SOURCES, "macbeth", TextSource(f"{address}/good.txt", "0" * 64))
    assert SHA256 in run_cli("datagen", "text", "--source", "macbeth").err
    assert not (tmp_path / "data" / "macbeth").exists()


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("absent", "404"),
        ("cut", "the download stopped after 1,000 of"),
        ("cutchunks", "IncompleteRead"),
        ("circle", "infinite loop"),
        ("away?file:///etc/hostname", "not allowed"),
        ("away?ftp://127.0.0.1/x", "not an http or https URL"),
        ("away?data:text/plain,abc", "not allowed"),
        ("announcedhuge", "larger than 1,000,000 bytes"),
        ("huge", "larger than 1,000,000 bytes"),
        ("silence", "timed out"),
        ("drip", "more than 1 seconds"),
        ("image", "not UTF-8 text: byte 0"),
        ("empty", "too short"),
        ("rubbish", "SSH-2.0"),
        ("nothing", "closed connection"),
        ("not a path", "control characters"),
    ],
)
def test_a_server_that_misbehaves_is_one_line(
    tmp_path: Path, address: str, path: str, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "MAX_BYTES", 1_000_000)
    for name, limit in (("MAX_SILENCE", "silence"), ("MAX_SECONDS", "drip")):
        monkeypatch.setattr(text, name, 1.0 if path == limit else PATIENCE)
    out = tmp_path / "out"
    with pytest.raises(DataError) as caught:
        prepare_text(out, f"{address}/{path}", progress=False)
    (line,) = str(caught.value).splitlines()
    assert complaint in line
    assert not out.exists()


def test_the_command_shows_the_error_of_a_server(
    run_cli: RunCli, tmp_path: Path, address: str
) -> None:
    ended = run_cli("datagen", "text", tmp_path / "out", "--source", f"{address}/absent")
    assert ended.error == f"cannot fetch {address}/absent: HTTP Error 404: Not Found"


def test_the_hash_of_a_present_text_is_checked(
    run_cli: RunCli, tmp_path: Path, address: str
) -> None:
    command = ("datagen", "text", tmp_path / "out", "--source", f"{address}/good", "--quiet")
    assert run_cli(*command, "--sha256", SHA256).code == 0
    other = run_cli(*command, "--sha256", "0" * 64)  # though the present text is from that URL
    assert other.code == 2
    assert text_of(tmp_path / "out") == TEXT


@pytest.mark.parametrize(
    "source",
    [
        "http://127.0.0.1:1/x",
        "https://127.0.0.1:1/x",
        "http://a.invalid/x",
        "http://[::1/x",
        "ftp://127.0.0.1/x",
        "file:///etc/hostname",
        "http:///x",
        "http://me:secret@127.0.0.1/x",
        "http://127.0.0.1:port/x",
        f"http://{'a' * 64}.invalid/x",
        "http://127.0.0.1/ø",
    ],
)
def test_a_source_that_is_no_url(run_cli: RunCli, tmp_path: Path, source: str) -> None:
    ended = run_cli("datagen", "text", tmp_path / "out", "--source", source, "--quiet")
    assert "secret" not in ended.error
    assert not (tmp_path / "out").exists()


def test_problems_is_the_default_subcommand(run_cli: RunCli, here: Path) -> None:
    sizes = ("--train", 30, "--val", 5, "--test", 5, "--quiet")
    for command in (
        ("out", *sizes),
        (*sizes, "before"),
        ("problems", "named", *sizes),
        ("./text", *sizes),
    ):
        ended = run_cli("datagen", *map(str, command))
        assert ended.code == 0, ended.err
        assert ended.out.endswith(": 30 training, 5 validation and 5 test problems\n")
    manifests = [path.read_bytes() for path in here.glob("*/manifest.json")]
    assert len(manifests) == 4
    assert len(set(manifests)) == 1
    assert run_cli("datagen").err == "error: Missing argument 'OUT'.\n"
    assert run_cli("datagen", "text").err == "error: Missing option '--source'.\n"


def test_help_shows_the_options_of_the_default(run_cli: RunCli) -> None:
    assert "--train" in run_cli("datagen", "-h").out
    assert "--sha256" in run_cli("datagen", "text", "--help").out


def test_a_model_is_trained_on_it(run_cli: RunCli, here: Path) -> None:
    Path("play.txt").write_bytes(TEXT)
    ended = run_cli("datagen", "text", "--source", "play.txt")
    assert ended.code == 0, ended.err
    recipe = "--recipe text --set train.steps=2 --set model.n_layer=1 --device cpu"
    ended = run_cli("train", *recipe.split(), "--data", "data/play", "--out", "run", "--quiet")
    assert ended.code == 0, ended.err
    assert '"val_loss"' in Path("run", "metrics.jsonl").read_text()
    scores = ("eval", "run", "--data", "data/play/val.txt", "--json", "scores.json", "--quiet")
    ended = run_cli(*scores, "--device", "cpu")
    assert (ended.code, ended.err) == (0, "")
    record = json.loads(Path("scores.json").read_text())
    assert record["file_sha256"] == sha256(Path("data/play/val.txt"))
    for option in ("--seed=0", "--engine=torch", "--errors=1"):
        ended = run_cli(*scores, option)
        assert "predicts text: use no other options than --data, --json, --device" in ended.error
    Path("own.txt").write_text("".join(f"{n}=1\n" for n in range(10)))
    ended = run_cli("eval", "run", "--task", "own.txt", "--quiet")
    assert ended.error.endswith("step-00000002 predicts text: it has no answers to score")
