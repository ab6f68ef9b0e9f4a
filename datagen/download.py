"""A file from the network, whole, into memory."""

import sys
import time
from collections.abc import Iterator
from http.client import HTTPException, HTTPResponse
from urllib import request
from urllib.parse import SplitResult, urlsplit

from tqdm import tqdm

from datagen.errors import DatasetError

MAX_BYTES = 1 << 30
_SILENCE = 30.0  # seconds that a server may say nothing
_PATIENCE = 3600.0  # seconds that the whole may take
_READ = 1 << 20


def is_url(source: str) -> bool:
    """Whether a source is to be fetched, rather than a file's path."""
    return "://" in source


def split_url(url: str) -> SplitResult:
    """The parts of an address; DatasetError unless it is one of http or https."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DatasetError(f"{url}: not an address of http or https")
    if "@" in parts.netloc:
        raise DatasetError("an address with a password in it is not taken: it would be noted")
    return parts


def fetch(url: str, *, progress: bool = False) -> bytes:
    """What an address of http or https holds, redirected by these alone.

    DatasetError, one line, where there is nothing to be had, it does not come whole, is larger
    than MAX_BYTES, or too slow. `progress` shows a bar on stderr.
    """
    split_url(url)
    try:
        asked = request.Request(url, headers={"User-Agent": "calcgpt"})
        with _opener().open(asked, timeout=_SILENCE) as response:
            return b"".join(_chunks(response, progress))
    except (OSError, HTTPException, ValueError) as error:  # ValueError: a malformed address
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DatasetError(f"cannot fetch {url}: {reason}") from error


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
