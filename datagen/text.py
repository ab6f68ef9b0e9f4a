"""Plain text to train on: `train.txt`, `val.txt` and `source.json` in a folder.

The text is cut once: the validation part follows the training part. Its bytes do not change.
`source.json` says where the text is from, and has the SHA-256 of both files.
"""

import hashlib
import re
import sys
import time
from fractions import Fraction
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib import request
from urllib.error import URLError
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, StrictFloat, StrictInt, StrictStr
from tqdm import tqdm

from datagen.dataset import NAMES, SOURCE, is_intact, load, staged, writing
from datagen.errors import DataError, did_you_mean, one_line
from datagen.files import check_output_folder, read_text, text_sha256, write_json

MAX_BYTES = 1 << 30
# Seconds of a download without any data, and in all.
MAX_SILENCE = 30.0
MAX_SECONDS = 3600.0


class TextSource(NamedTuple):
    """The address of a public text, and its SHA-256."""

    url: str
    sha256: str


SOURCES = {
    "tinyshakespeare": TextSource(
        "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
        "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
    )
}


class TextPart(BaseModel):
    """The content of one of the two files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    characters: StrictInt
    bytes: StrictInt
    sha256: StrictStr


class TextParts(BaseModel):
    """The content of both files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: TextPart
    val: TextPart


class TextRecord(BaseModel):
    """`source.json`: the source of a text, and the content of its two files."""

    model_config = ConfigDict(frozen=True)

    source: StrictStr
    bytes: StrictInt
    sha256: StrictStr
    val_share: StrictFloat
    files: TextParts
    split: StrictStr = "the first characters are train.txt, the others val.txt"


def prepare_text(
    out: Path,
    source: str,
    *,
    sha256: str | None = None,
    val_share: float = 0.1,
    force: bool = False,
    progress: bool = True,
) -> TextRecord:
    """Makes the data set of a text in the folder `out`, unless it is there. Returns its record.

    `source` is a name in SOURCES, an http or https URL, or a file. `train.txt` gets the first
    `1 - val_share` of its characters, rounded down, `val.txt` the rest. `sha256` is the expected
    SHA-256 of the source; a name in SOURCES has one. `force` replaces another data set in `out`.
    `progress` shows a download on stderr.

    Raises UserError for any failure. Nothing is written if the SHA-256 is not the expected one, or
    if `out` holds another data set and `force` is False.
    """
    if not 0 < val_share < 1:
        raise DataError(f"the validation share must be between 0 and 1, not {val_share}")
    if sha256 is not None and not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise DataError(f"a SHA-256 is 64 hexadecimal digits, not {sha256!r}")
    expected = sha256.lower() if sha256 else None
    if named := SOURCES.get(source):
        source, expected = named.url, expected or named.sha256
    if is_url(source):
        _url_path(source)
    record = _present_text(out, val_share)
    if record and is_url(source) and record.source == source:
        expected = expected or record.sha256  # do not download it again
    if record is None or record.sha256 != expected:
        check_output_folder(out)  # before a download
        text = fetch(source, progress) if is_url(source) else _read(source)
        if expected not in (None, digest := text_sha256(text)):
            raise DataError(f"{source} has the SHA-256 {digest}, not {expected}")
        record, parts = _cut(text, source, val_share)
        with writing(out):
            present = _present_text(out, val_share)
            if present is None or present.files != record.files:
                _store(out, record, parts, force)
                return record
            record = present
    if progress:
        tqdm.write(f"{out} is already complete", file=sys.stderr)
    return record


def default_folder(source: str) -> Path:
    """Returns `data/NAME`, where NAME is the source's name, or its file name without the suffix.

    `https://example.org/hamlet/input.txt` gives `data/input`. Raises DataError for a source without
    a file name.
    """
    stem = PurePosixPath(_url_path(source) if is_url(source) else source).stem
    if not stem.strip("."):
        raise DataError(f"{source} does not name a file: say which folder to write to")
    return Path("data", stem)


def is_url(source: str) -> bool:
    """Whether a source is a URL, and not a file."""
    return "://" in source


class _Redirections(request.HTTPRedirectHandler):
    """Follows redirections to http and https only."""

    def redirect_request(self, *arguments: Any) -> request.Request | None:
        _url_path(arguments[-1])
        return super().redirect_request(*arguments)


def fetch(url: str, progress: bool = False) -> str:
    """Returns the text at an http or https URL.

    Raises DataError if the download fails, is incomplete, or exceeds a limit, or if it is not
    UTF-8 text.
    """
    _url_path(url)
    try:
        message = request.Request(url, headers={"User-Agent": "calcgpt"})
        return _download(message, progress).decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{url} is not UTF-8 text: byte {error.start}") from None
    except (OSError, HTTPException, ValueError) as error:  # ValueError: a malformed URL
        cause = error.reason if type(error) is URLError else error  # without <urlopen error ...>
        reason = one_line(cause) or type(error).__name__
        raise DataError(f"cannot fetch {url}: {reason}") from error


def _url_path(url: str) -> str:
    """Returns the path of an http or https URL without a password. Raises DataError for others."""
    try:
        parts = urlsplit(url)
        is_http = parts.scheme in ("http", "https") and parts.hostname
    except ValueError:
        is_http = False
    if not is_http:
        raise DataError(f"{url}: not an http or https URL")
    if "@" in parts.netloc:
        raise DataError("a URL with a password is refused: source.json would show it")
    return parts.path


def _download(message: request.Request, progress: bool) -> bytearray:
    start, content = time.monotonic(), bytearray()
    opener = request.build_opener(_Redirections)
    with opener.open(message, timeout=MAX_SILENCE) as response:
        total = response.length  # None if it is not announced
        options = {"total": total, "unit": "B", "unit_scale": True, "file": sys.stderr}
        with tqdm(disable=not progress, **options) as bar:
            while True:
                if max(total or 0, len(content)) > MAX_BYTES:
                    raise OSError(f"the text is larger than {MAX_BYTES:,} bytes")
                if time.monotonic() - start > MAX_SECONDS:
                    raise OSError(f"the download takes more than {MAX_SECONDS:.0f} seconds")
                # At most one read from the socket: a server that sends byte by byte is timed too.
                if not (chunk := response.read1(1 << 20)):
                    break
                content += chunk
                bar.update(len(chunk))
    if len(content) < (total or 0):
        raise OSError(f"the download stopped after {len(content):,} of {total:,} bytes")
    return content


def _read(path: str) -> str:
    try:
        return read_text(Path(path), MAX_BYTES)
    except DataError as error:
        raise DataError(f"{error}{did_you_mean(path, SOURCES)}") from error


def _present_text(out: Path, val_share: float) -> TextRecord | None:
    """Returns the record of the text in `out`, if it is intact and has this validation share."""
    try:
        record = load(TextRecord, out / SOURCE, "the record of a text")
    except DataError:
        return None
    intact = all(
        is_intact(out / f"{name}.txt", part.bytes, part.sha256) for name, part in record.files
    )
    return record if intact and record.val_share == val_share else None


def _cut(text: str, source: str, val_share: float) -> tuple[TextRecord, dict[str, bytes]]:
    """Returns the record of a text and its two parts. Raises DataError if it is too short."""
    n_train = int(len(text) * (1 - Fraction(str(val_share))))  # exact: a float may be one off
    if not 0 < n_train < len(text):
        raise DataError(f"{source} is too short to be divided: {len(text)} characters")
    parts = {"train": text[:n_train], "val": text[n_train:]}
    encoded = {name: part.encode("utf-8") for name, part in parts.items()}
    files = {
        name: TextPart(
            characters=len(parts[name]), bytes=len(data), sha256=hashlib.sha256(data).hexdigest()
        )
        for name, data in encoded.items()
    }
    record = TextRecord(
        source=source,
        bytes=sum(map(len, encoded.values())),
        sha256=text_sha256(text),
        val_share=val_share,
        files=TextParts(**files),
    )
    return record, encoded


def _store(out: Path, record: TextRecord, parts: dict[str, bytes], force: bool) -> None:
    """Replaces what `out` holds. Without `force`, raises DataError if that is a data set."""
    if not force and (left := [name for name in NAMES if (out / name).exists()]):
        raise DataError(f"{out} holds another {left[0]} (--force replaces it)")
    with staged(out) as folder:
        for name, data in parts.items():
            (folder / f"{name}.txt").write_bytes(data)
        write_json(folder / SOURCE, record.model_dump())
