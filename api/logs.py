"""Logs of the service: a JSON object a line for machines, or text for people."""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""Of the request that is being served; every log record of it has it."""


def configure(format: Literal["auto", "json", "text"] = "auto", level: str = "info") -> None:
    """Send the records of all loggers, uvicorn's too, to stderr. `auto` is text where that is a
    terminal, JSON elsewhere. uvicorn must be told `log_config=None`, or it takes its own back."""
    if format == "auto":
        format = "text" if sys.stderr.isatty() else "json"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Json() if format == "json" else Text())
    handler.addFilter(_add_request_id)
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.captureWarnings(True)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"  # RequestLog says more


def _add_request_id(record: logging.LogRecord) -> bool:
    if identity := request_id.get():
        record.request_id = identity
    return True


def _time(record: logging.LogRecord) -> str:
    """UTC, as 2026-01-31T23:59:59.999+00:00."""
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")


class Json(JsonFormatter):
    """A record as one JSON object: time, level, logger, message, request_id, what the record has
    of its own, and `exception`, the traceback as one string."""

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
            # uvicorn's message once more, with colours
            reserved_attrs=[*RESERVED_ATTRS, "color_message"],
        )

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return _time(record)


class Text(logging.Formatter):
    """A record as one line: time, level, logger, message, request id. The lines of a traceback
    follow, indented, so that none can be taken for a record."""

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
    """The text with whatever could move a terminal's cursor or begin a line escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
