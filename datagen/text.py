"""Plain text to train on: `train.txt`, `val.txt` and `source.json` in a folder.

The text is cut once: the validation part follows the training part. Its bytes do not change.
`source.json` says where the text is from, and has the SHA-256 of both files.
"""

import hashlib
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from http.client import HTTPException, HTTPResponse
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Self
from urllib import request
from urllib.error import URLError
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, ConfigDict, StrictFloat, StrictInt, StrictStr, field_validator
from tqdm import tqdm

from datagen.dataset import MANIFEST, NAMES, SOURCE, is_intact, load, staged, writing
from datagen.errors import DataError, did_you_mean, one_line
from datagen.files import write_bytes, write_json
from datagen.splits import Split

PARTS = (Split.TRAIN, Split.VAL)
_READ_BYTES = 1 << 20


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


@dataclass(frozen=True)
class Limits:
    """Limits of a download: its bytes, the seconds without any data, and the seconds in all."""

    max_bytes: int = 1 << 30
    silence: float = 30.0
    total: float = 3600.0


class TextPart(BaseModel):
    """The content of one of the two files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    characters: StrictInt
    bytes: StrictInt
    sha256: StrictStr

    def is_intact(self, path: Path) -> bool:
        """Whether `path` has this content."""
        return is_intact(path, self.bytes, self.sha256)


class TextRecord(BaseModel):
    """`source.json`: the source of a text, and the content of its two files."""

    model_config = ConfigDict(frozen=True)

    source: StrictStr
    bytes: StrictInt
    sha256: StrictStr
    val_share: StrictFloat
    files: dict[Split, TextPart]
    split: StrictStr = "the first characters are train.txt, the others val.txt"

    @field_validator("files")
    @classmethod
    def _has_both_files(cls, files: dict[Split, TextPart]) -> dict[Split, TextPart]:
        if set(files) != set(PARTS):
            raise ValueError("needs train and val")
        return files

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Returns the record in a folder. Raises DataError if it is missing or damaged."""
        return load(cls, folder / SOURCE, "the record of a text")

    def save(self, folder: Path) -> None:
        """Writes `source.json`."""
        write_json(folder / SOURCE, self.model_dump())


def prepare_text(
    out: Path,
    source: str,
    *,
    sha256: str | None = None,
    val_share: float = 0.1,
    force: bool = False,
    progress: bool = True,
    limits: Limits = Limits(),  # frozen
) -> TextRecord:
    """Makes the data set of a text in the folder `out`, or continues it. Returns its record.

    `source` is a name in SOURCES, an http or https URL, or a file. `train.txt` gets the first
    `1 - val_share` of its characters, rounded down, `val.txt` the rest. `sha256` is the expected
    SHA-256 of the source; a name in SOURCES has one. `force` replaces another data set in `out`.
    `progress` shows a download on stderr.

    Raises DataError for any failure. Nothing is written if the SHA-256 is not the expected one, or
    if `out` holds another data set and `force` is False.
    """
    if not 0 < val_share < 1:
        raise DataError(f"the validation share must be between 0 and 1, not {val_share}")
    if sha256 is not None and not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise DataError(f"a SHA-256 is 64 hexadecimal digits, not {sha256!r}")
    expected = sha256.lower() if sha256 else None
    if named := SOURCES.get(source):
        source, expected = named.url, expected or named.sha256
    cut = None
    if is_url(source):
        _split_url(source)
    elif not os.path.exists(out):  # noqa: PTH110  # Path.exists raises for a name that is too long
        # A file that cannot be used leaves no folder behind.
        cut = _cut(_read(source, limits), source, expected, val_share)
    with writing(out):
        present = _present_text(out, val_share)
        if present and is_url(source) and present.source == source:
            expected = expected or present.sha256  # do not download it again
        if not present or present.sha256 != expected:
            if cut is None:
                cut = _cut(_content(source, limits, progress), source, expected, val_share)
            record, texts = cut
            if not present or present.files != record.files:
                _store(out, record, texts, force)
                return record
        if progress:
            tqdm.write(f"{out} is already complete", file=sys.stderr)
        return present


def default_folder(source: str) -> Path:
    """Returns `data/NAME`, where NAME is the source's name, or its file name without the suffix.

    `https://example.org/hamlet/input.txt` gives `data/input`. Raises DataError for a source without
    a file name.
    """
    stem = PurePosixPath(_split_url(source).path if is_url(source) else source).stem
    if not stem.strip("."):
        raise DataError(f"{source} does not name a file: say which folder to write to")
    return Path("data", stem)


def is_url(source: str) -> bool:
    """Whether a source is a URL, and not a file."""
    return "://" in source


def _content(source: str, limits: Limits, progress: bool) -> bytes:
    return fetch(source, limits, progress) if is_url(source) else _read(source, limits)


def fetch(url: str, limits: Limits, progress: bool = False) -> bytes:
    """Downloads an http or https URL. Redirections to other schemes fail.

    Raises DataError if the download fails, is incomplete, or exceeds a limit.
    """
    _split_url(url)
    try:
        message = request.Request(url, headers={"User-Agent": "calcgpt"})
        with _opener().open(message, timeout=limits.silence) as response:
            return b"".join(_chunks(response, limits, progress))
    except (OSError, HTTPException, ValueError) as error:  # ValueError: a malformed URL
        cause = error.reason if type(error) is URLError else error  # without <urlopen error ...>
        reason = one_line(cause) or type(error).__name__
        raise DataError(f"cannot fetch {url}: {reason}") from error


def _split_url(url: str) -> SplitResult:
    """Returns the parts of an http or https URL without a password. Raises DataError for others."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DataError(f"{url}: not an http or https URL")
    if "@" in parts.netloc:
        raise DataError("a URL with a password is refused: source.json would show it")
    return parts


def _opener() -> request.OpenerDirector:
    """Returns an opener that does not follow redirections to file, ftp and data URLs."""
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


def _chunks(response: HTTPResponse, limits: Limits, progress: bool) -> Iterator[bytes]:
    """Yields the body as it arrives. Raises OSError if it is incomplete or exceeds a limit."""
    length, received, start = response.length, 0, time.monotonic()  # length: None if not announced
    with tqdm(
        total=length, unit="B", unit_scale=True, disable=not progress, file=sys.stderr
    ) as bar:
        while max(length or 0, received) <= limits.max_bytes:
            # At most one read from the socket: a server that sends byte by byte is still timed.
            chunk = response.read1(_READ_BYTES)
            if not chunk:
                break
            if time.monotonic() - start > limits.total:
                raise OSError(f"the download takes more than {limits.total:.0f} seconds")
            received += len(chunk)
            bar.update(len(chunk))
            yield chunk
    if max(length or 0, received) > limits.max_bytes:
        raise OSError(f"the text is larger than {limits.max_bytes:,} bytes")
    if length is not None and received != length:
        raise OSError(f"the download stopped after {received:,} of {length:,} bytes")


def _read(path: str, limits: Limits) -> bytes:
    try:
        with Path(path).open("rb") as file:
            content = file.read(limits.max_bytes + 1)
    except OSError as error:
        hint = did_you_mean(path, SOURCES)
        raise DataError(f"cannot read {path}: {error.strerror}{hint}") from error
    if len(content) > limits.max_bytes:
        raise DataError(f"{path} is larger than {limits.max_bytes:,} bytes")
    return content


def _present_text(out: Path, val_share: float) -> TextRecord | None:
    """Returns the record of the text in `out`, if it is intact and has this validation share."""
    try:
        record = TextRecord.load(out)
    except DataError:
        return None
    intact = all(record.files[part].is_intact(out / f"{part}.txt") for part in PARTS)
    return record if intact and record.val_share == val_share else None


def _cut(
    content: bytes, source: str, expected: str | None, val_share: float
) -> tuple[TextRecord, dict[Split, bytes]]:
    """Returns the record of a text and its two parts. Raises DataError if the text has another
    SHA-256 than `expected`, is not UTF-8, or is too short."""
    digest = hashlib.sha256(content).hexdigest()
    if expected not in (None, digest):
        raise DataError(f"{source} has the SHA-256 {digest}, not {expected}")
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
        part: TextPart(
            characters=characters[part],
            bytes=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
        )
        for part, data in texts.items()
    }
    record = TextRecord(
        source=source, bytes=len(content), sha256=digest, val_share=val_share, files=files
    )
    return record, texts


def _store(out: Path, record: TextRecord, texts: dict[Split, bytes], force: bool) -> None:
    """Replaces what `out` holds. Without `force`, raises DataError if that is not a part of this
    text."""
    for name in NAMES if not force else ():
        path, part = out / name, record.files.get(Split(name[:-4])) if name[-4:] == ".txt" else None
        if name == MANIFEST and path.exists():
            raise DataError(f"{out} holds a data set of problems (--force replaces it)")
        if name != SOURCE and path.exists() and not (part and part.is_intact(path)):
            raise DataError(f"{out} holds another {name} (--force replaces it)")
    with staged(out) as folder:
        for split, text in texts.items():
            write_bytes(folder / f"{split}.txt", text)
        record.save(folder)
