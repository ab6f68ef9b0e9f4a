"""Logs, as JSON or text."""

import collections
import logging
import os
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from itertools import accumulate
from multiprocessing.util import Finalize
from typing import Literal

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

log = logging.getLogger(__name__)

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the current request, added to its log records."""


def configure(format: Literal["auto", "json", "text"] = "auto", level: str = "info") -> None:
    """Sends the records of all loggers, uvicorn's included, to stderr.

    `auto` means text if stderr is a terminal, else JSON. uvicorn needs `log_config=None`, or it
    restores its own configuration.
    """
    if format == "auto":
        format = "text" if sys.stderr.isatty() else "json"
    handler = _handler()
    handler.setFormatter(JsonLogFormatter() if format == "json" else TextLogFormatter())
    handler.addFilter(_add_request_id)
    handler.addFilter(RateLimitFilter().passes)
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False  # not written
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.captureWarnings(True)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"  # RequestLog replaces it


def _handler() -> logging.Handler:
    try:
        return QueuedHandler(os.dup(sys.stderr.fileno()))
    except (OSError, ValueError):  # it is no file, as in tests
        return logging.StreamHandler(sys.stderr)


# Waking a thread for each record would take longer than to write it: records wait for others.
GATHER_SECONDS, AT_ONCE = 0.05, 100
MAX_QUEUED = 1 << 22  # bytes of records that are not written yet; more are dropped
FLUSH_SECONDS = 1.0  # for which the end of a process waits until all are written


class QueuedHandler(logging.Handler):
    """Writes records to a file in a thread of its own.

    So nothing waits if nobody reads the log. Records that do not fit in the queue are dropped and
    counted, and the next that fits says how many. The file is written without Python's buffer,
    whose lock would keep a process from ending.
    """

    def __init__(self, file: int) -> None:
        """`file` is an open file, which this object closes."""
        super().__init__()
        self._file = file
        self._is_closed = False
        self._start()
        os.register_at_fork(after_in_child=self._start)  # which inherits no thread
        # Also before `os._exit` at the end of a process of multiprocessing.
        Finalize(None, self.flush, exitpriority=0)

    def _start(self) -> None:
        self._lines: deque[bytes] = deque()
        self._n_bytes = 0  # in the queue, or being written
        self._n_dropped = 0  # since `take_dropped`
        self._unreported = 0  # of them
        self._changed = threading.Condition()  # guards all these
        if not self._is_closed:
            threading.Thread(target=self._write_all, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = f"{self.format(record)}\n".encode("utf-8", "backslashreplace")
        except Exception:
            self.handleError(record)
            return
        with self._changed:
            if self._n_bytes + len(line) > MAX_QUEUED:
                self._drop(1)
                return
            self._lines.append(line)
            self._n_bytes += len(line)
            self._changed.notify_all()

    def _drop(self, n: int) -> None:
        self._n_dropped += n
        self._unreported += n

    def take_dropped(self) -> int:
        """Returns how many records have been dropped since the last call."""
        with self._changed:
            n, self._n_dropped = self._n_dropped, 0
            return n

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._is_closed)
                if not self._lines:
                    break
                is_few = len(self._lines) < AT_ONCE
            if is_few:
                time.sleep(GATHER_SECONDS)
            with self._changed:
                n = min(len(self._lines), AT_ONCE)
                lines = [self._lines.popleft() for _ in range(n)]
            n_written = self._write(b"".join(lines))
            with self._changed:
                ends = list(accumulate(map(len, lines)))
                self._n_bytes -= ends[-1]
                self._drop(sum(end > n_written for end in ends))
                n = self._unreported if n_written == ends[-1] else 0
                self._unreported -= n
                self._changed.notify_all()
            if n:
                self._report(n)
        os.close(self._file)

    def _report(self, n: int) -> None:
        """Writes how many were dropped, past the queue: there it could be dropped, too."""
        message = f"{n} log records were dropped: they were not read in time"
        values = {"name": log.name, "levelno": logging.WARNING, "levelname": "WARNING"}
        record = logging.makeLogRecord(values | {"msg": message})
        self._write(f"{self.format(record)}\n".encode())

    def _write(self, data: bytes) -> int:
        """Returns how many bytes could be written."""
        rest = memoryview(data)
        with suppress(OSError):  # the disk is full, or the reader is gone
            while rest:
                rest = rest[os.write(self._file, rest) :]
        return len(data) - len(rest)

    def flush(self) -> None:
        """Waits until all records are written, at most FLUSH_SECONDS."""
        with self._changed:
            self._changed.wait_for(lambda: not self._n_bytes, FLUSH_SECONDS)

    def close(self) -> None:
        self.flush()
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        super().close()


def flush() -> None:
    """Waits until the records so far are written, but not long."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def take_dropped() -> int:
    """Returns how many records have been dropped since the last call."""
    handlers = logging.getLogger().handlers
    return sum(h.take_dropped() for h in handlers if isinstance(h, QueuedHandler))


MAX_RECORDS = 20  # a minute, from one line of a library's code
LIBRARIES = ("uvicorn", "asyncio", "concurrent", "py")  # loggers whose records clients can cause


class RateLimitFilter:
    """A filter against floods of log records, which clients can cause in libraries.

    Passes MAX_RECORDS per minute from each line of a library's code. The last record says that more
    are dropped. The service itself writes one record for each request.
    """

    def __init__(self) -> None:
        self._minute = 0
        self._counts: collections.Counter[tuple[str, int]] = collections.Counter()

    def passes(self, record: logging.LogRecord) -> bool:
        """Returns whether the record is to be written."""
        if record.name.partition(".")[0] not in LIBRARIES:
            return True
        if self._minute != (minute := int(record.created // 60)):
            self._minute = minute
            self._counts.clear()
        caller = record.pathname, record.lineno
        self._counts[caller] += 1
        if self._counts[caller] == MAX_RECORDS:
            record.msg = f"{record.msg} (and no more of these in this minute)"
        return self._counts[caller] <= MAX_RECORDS


def _add_request_id(record: logging.LogRecord) -> bool:
    if identity := request_id.get():
        record.request_id = identity
    return True


def _time(record: logging.LogRecord) -> str:
    """Returns the time in UTC, such as 2026-01-31T23:59:59.999+00:00."""
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


class JsonLogFormatter(JsonFormatter):
    """Formats a record as one JSON object.

    The object has time, level, logger, message, request_id, the extras of the record, and
    `exception`, the traceback as one string.
    """

    def __init__(self) -> None:
        super().__init__(
            "%(asctime)s %(levelname)s %(name)s %(message)s",
            rename_fields={
                "asctime": "time",
                "levelname": "level",
                "name": "logger",
                "exc_info": "exception",
                "stack_info": "stack",
            },
            reserved_attrs=[*RESERVED_ATTRS, "color_message"],  # uvicorn's coloured copy
        )

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return _time(record)


class TextLogFormatter(logging.Formatter):
    """Formats a record as one line: time, level, logger, message, request id.

    The lines of a traceback follow, indented, so that they cannot be mistaken for records.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname:<7} {record.name}: {record.getMessage()}"
        if identity := getattr(record, "request_id", None):
            line += f" [{identity}]"
        lines = [line]
        if record.exc_info:
            lines += self.formatException(record.exc_info).splitlines()
        if record.stack_info:
            lines += record.stack_info.splitlines()
        return "\n    ".join(_printable(line) for line in lines)


def _printable(text: str) -> str:
    """Returns the text with control characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
