"""A file from the network, whole, into memory.

Plain text to train on: `train.txt`, `val.txt` and `source.json` in a folder.

The text is cut once, so that the validation part is what follows the training part, and otherwise
left as it is, byte for byte. `source.json` says where it came from, and vouches for the files.
"""

import hashlib
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath
from typing import Self
from urllib import request
from urllib.parse import SplitResult, urlsplit

from tqdm import tqdm

from datagen.errors import DataError
from datagen.files import read_json, write_bytes, write_json
from datagen.files import sha256 as file_sha256
from datagen.manifest import JOURNAL, MANIFEST, SOURCE, clear, final_path, writing
from datagen.splits import Split

MAX_BYTES = 1 << 30
_SILENCE = 30.0  # seconds that a server may say nothing
_PATIENCE = 3600.0  # seconds that the whole may take
_READ = 1 << 20


def is_url(source: str) -> bool:
    """Whether a source is to be fetched, rather than a file's path."""
    return "://" in source


def split_url(url: str) -> SplitResult:
    """The parts of an address; DataError unless it is one of http or https."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DataError(f"{url}: not an address of http or https")
    if "@" in parts.netloc:
        raise DataError("an address with a password in it is not taken: it would be noted")
    return parts


def fetch(url: str, *, progress: bool = False) -> bytes:
    """What an address of http or https holds, redirected by these alone.

    DataError, one line, where there is nothing to be had, it does not come whole, is larger
    than MAX_BYTES, or too slow. `progress` shows a bar on stderr.
    """
    split_url(url)
    try:
        asked = request.Request(url, headers={"User-Agent": "calcgpt"})
        with _opener().open(asked, timeout=_SILENCE) as response:
            return b"".join(_chunks(response, progress))
    except (OSError, HTTPException, ValueError) as error:  # ValueError: a malformed address
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"cannot fetch {url}: {reason}") from error


def _opener() -> request.OpenerDirector:
    """What follows redirections to http and https, and cannot so much as open a file or ftp."""
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler,
        request.HTTPHandler,
        request.HTTPSHandler,
        request.HTTPRedirectHandler,
        request.HTTPErrorProcessor,
        request.HTTPDefaultErrorHandler,
        request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener


def _chunks(response: HTTPResponse, progress: bool) -> Iterator[bytes]:
    """The body, as it comes. OSError where it is not what was announced, or too much."""
    total, received, begun = response.length, 0, time.monotonic()  # the total: None if not said
    with tqdm(total=total, unit="B", unit_scale=True, disable=not progress, file=sys.stderr) as bar:
        while (total or 0) <= MAX_BYTES and (chunk := response.read1(_READ)):
            received += len(chunk)
            if received > MAX_BYTES:
                break
            if time.monotonic() - begun > _PATIENCE:
                raise OSError(f"it takes more than {_PATIENCE:.0f} seconds")
            bar.update(len(chunk))
            yield chunk
    if max(total or 0, received) > MAX_BYTES:
        raise OSError(f"it is larger than {MAX_BYTES:,} bytes")
    if total is not None and received != total:
        raise OSError(f"it broke off after {received:,} of {total:,} bytes")


PARTS = (Split.TRAIN, Split.VAL)


@dataclass(frozen=True)
class KnownText:
    """A public text: where it is, and what it must be."""

    url: str
    sha256: str


KNOWN = {
    "tinyshakespeare": KnownText(
        "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
        "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
    )
}


@dataclass(frozen=True)
class TextPart:
    """What one of the two files holds."""

    characters: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class TextRecord:
    """What `source.json` says: where the text came from, what it was, what the files hold."""

    source: str
    bytes: int
    sha256: str
    val_share: float
    files: dict[Split, TextPart]

    def save(self, folder: Path) -> None:
        """Write `source.json`, atomically."""
        split = "the first characters are train.txt, the others val.txt"
        write_json(folder / SOURCE, {**asdict(self), "split": split})

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Raises DataError where there is no `source.json`, or it is damaged."""
        entries = read_json(folder / SOURCE)
        try:
            files = {part: TextPart(**entries["files"][part]) for part in PARTS}
            names = ("source", "bytes", "sha256", "val_share")
            return cls(**{name: entries[name] for name in names}, files=files)
        except (KeyError, TypeError) as error:
            raise DataError(f"{folder / SOURCE}: not a record of a text: {error}") from error


def default_folder(source: str) -> Path:
    """`data/` and the source's name, or that of its file without the ending: `data/input` for
    `https://example.org/hamlet/input.txt`. DataError where it has none."""
    stem = PurePosixPath(split_url(source).path if is_url(source) else source).stem
    if not stem.strip("."):
        raise DataError(f"{source} does not name a file: say which folder to write to")
    return Path("data", stem)


def prepare_text(
    out: Path,
    source: str,
    *,
    sha256: str | None = None,
    val_share: float = 0.1,
    force: bool = False,
    progress: bool = True,
) -> TextRecord:
    """Make the data set of a text in the folder `out`, or finish it, or find that it is there.

    `source` is a name in KNOWN, an address of http or https, or a file. `train.txt` is the first
    `1 - val_share` of its characters, rounded down, `val.txt` the rest. Where the source has not
    the SHA-256 that is given, or that KNOWN gives, nothing is kept. An `out` that holds anything
    but this data set or a part of it is left as it is, and DataError raised, unless `force`.
    All that goes wrong is a DataError of one line. `progress` shows a download on stderr.
    """
    if not 0 < val_share < 1:
        raise DataError(f"the validation share must be between 0 and 1, not {val_share}")
    if sha256 is not None and not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise DataError(f"a SHA-256 is 64 hexadecimal digits, not {sha256!r}")
    expected = sha256.lower() if sha256 else None
    if known := KNOWN.get(source):
        source, expected = known.url, expected or known.sha256
    with writing(out):
        found = _find(out, val_share)
        if found and is_url(source) and found.source == source:
            expected = expected or found.sha256  # what was fetched once is not fetched again
        if not found or found.sha256 != expected:
            content = fetch(source, progress=progress) if is_url(source) else _read(Path(source))
            record, texts = _cut(content, source, expected, val_share)
            if not found or found.files != record.files:
                _store(out, record, texts, force)
                return record
        if progress:
            tqdm.write(f"{out} is already complete", file=sys.stderr)
        return found


def _find(out: Path, val_share: float) -> TextRecord | None:
    """The record of the text in `out`, if there is one that is cut like this, and intact."""
    try:
        record = TextRecord.load(out)
    except DataError:
        return None
    intact = all(_is_intact(final_path(out, part), record.files[part]) for part in PARTS)
    return record if intact and record.val_share == val_share else None


def _is_intact(path: Path, part: TextPart) -> bool:
    return path.is_file() and path.stat().st_size == part.bytes and file_sha256(path) == part.sha256


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise DataError(f"{path} is larger than {MAX_BYTES:,} bytes")
    return content


def _cut(
    content: bytes, source: str, expected: str | None, val_share: float
) -> tuple[TextRecord, dict[Split, bytes]]:
    """The two parts of a text, and its record. DataError if it is not what it should be."""
    found = hashlib.sha256(content).hexdigest()
    if expected not in (None, found):
        raise DataError(f"{source} is not what it should be: SHA-256 {found}, not {expected}")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{source} is not UTF-8 text: byte {error.start}") from error
    n_train = int(len(text) * (1 - Fraction(str(val_share))))  # exact: a float may be one off
    if not 0 < n_train < len(text):
        raise DataError(f"{source} is too short to be divided: {len(text)} characters")
    n_bytes = len(text[:n_train].encode("utf-8"))
    texts = {Split.TRAIN: content[:n_bytes], Split.VAL: content[n_bytes:]}
    characters = {Split.TRAIN: n_train, Split.VAL: len(text) - n_train}
    files = {
        part: TextPart(characters[part], len(texts[part]), hashlib.sha256(texts[part]).hexdigest())
        for part in PARTS
    }
    return TextRecord(source, len(content), found, val_share, files), texts


def _store(out: Path, record: TextRecord, texts: dict[Split, bytes], force: bool) -> None:
    """Write the files, the record last; no two texts are ever mixed."""
    if force:
        clear(out)
    for split in Split:
        path, part = final_path(out, split), record.files.get(split)
        if path.exists() and not (part and _is_intact(path, part)):
            raise DataError(f"{out} holds another {path.name} (--force replaces it)")
    for name in (MANIFEST, JOURNAL):
        if (out / name).exists():
            raise DataError(f"{out} holds a data set of problems (--force replaces it)")
    for part_, text in texts.items():
        write_bytes(final_path(out, part_), text)
    record.save(out)
