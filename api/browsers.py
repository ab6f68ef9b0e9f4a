"""Files that browsers ask for: each is compressed once, and known by its tag."""

import asyncio
import gzip
import hashlib
import re
import threading
from functools import lru_cache
from pathlib import Path

from fastapi.staticfiles import StaticFiles
from starlette.datastructures import Headers
from starlette.responses import FileResponse, Response
from starlette.staticfiles import NotModifiedResponse
from starlette.types import Scope

MIN_BYTES = 1_000  # shorter files are not compressed
MAX_SHARE = 0.9  # of a file that its compressed form may have
GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))")  # in Accept-Encoding


class Content:
    """Bytes that many clients ask for: as they are, and compressed, if that is shorter. Each form
    has a tag, and is made once."""

    def __init__(self, content: bytes, media_type: str | None) -> None:
        packed, tag = gzip.compress(content, 6, mtime=0), hashlib.sha256(content).hexdigest()
        self._media_type = media_type
        self._plain = content, {"ETag": f'"{tag}"', "Accept-Ranges": "none"}
        self._packed = self._plain
        if len(content) >= MIN_BYTES and len(packed) < MAX_SHARE * len(content):
            self._plain[1]["Vary"] = "Accept-Encoding"
            headers = {**self._plain[1], "ETag": f'"{tag}-gzip"', "Content-Encoding": "gzip"}
            self._packed = packed, headers

    def response(self, scope: Scope) -> Response:
        """Returns the form that a client takes, or 304 if it has it already."""
        asked = Headers(scope=scope)
        takes_gzip = GZIP.search(asked.get("accept-encoding", ""))
        content, headers = self._packed if takes_gzip else self._plain
        return or_not_modified(asked, Response(content, 200, headers, self._media_type))


def or_not_modified(asked: Headers, response: Response) -> Response:
    """Returns the response, or 304 if the client already has the content with its tag."""
    known = [tag.strip().removeprefix("W/") for tag in asked.get("if-none-match", "").split(",")]
    if response.headers["ETag"] in known:
        return NotModifiedResponse(response.headers)
    return response


class Files(StaticFiles):
    """The files of a folder, each read once, and always whole."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if not isinstance(response, FileResponse) or not response.stat_result:
            return response
        changed = response.stat_result.st_mtime_ns
        content = await asyncio.to_thread(_read, str(response.path), changed, response.media_type)
        return content.response(scope)


_READING = threading.Lock()  # so that a file that many ask for at once is compressed once


def _read(path: str, changed: int, media_type: str | None) -> Content:
    with _READING:
        return _content(path, changed, media_type)


@lru_cache(maxsize=1_000)
def _content(path: str, changed: int, media_type: str | None) -> Content:
    return Content(Path(path).read_bytes(), media_type)
