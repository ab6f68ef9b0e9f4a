"""Logs, as JSON or text, and metrics for Prometheus."""

import asyncio
import logging
import os
import sys
import threading
import time
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from logging.handlers import QueueHandler
from pathlib import Path
from queue import Full, Queue
from typing import Any, Literal

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
    values,
)
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

log = logging.getLogger(__name__)

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the current request, added to its log records."""


def configure_logs(format: Literal["auto", "json", "text"] = "auto", level: str = "info") -> None:
    """Sends the records of all loggers, uvicorn's included, to stderr.

    `auto` means text if stderr is a terminal, else JSON. uvicorn needs `log_config=None`, or it
    restores its own configuration.
    """
    if format == "auto":
        format = "text" if sys.stderr.isatty() else "json"
    handler = _handler()
    handler.setFormatter(JsonLogFormatter() if format == "json" else TextLogFormatter())
    handler.addFilter(_add_request_id)
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False  # not written
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.captureWarnings(True)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"  # RequestLog replaces it


def _handler() -> logging.Handler:
    try:
        return LineHandler(os.dup(sys.stderr.fileno()))
    except (OSError, ValueError):  # it is no file, as in tests
        return logging.StreamHandler(sys.stderr)


GATHER_SECONDS = 0.05  # waking the thread for each record would take longer than to write it
MAX_QUEUED = 10_000  # records that are not written yet; more are dropped
FLUSH_SECONDS = 1.0  # for which the end of a process waits until all are written


class LineHandler(QueueHandler):
    """Writes records to a file in a thread of its own.

    So nothing waits if nobody reads the log. Records that do not fit in the queue are dropped and
    counted. The file is written without Python's buffer, whose lock would keep a process from
    ending.
    """

    def __init__(self, file: int) -> None:
        """`file` is an open file."""
        self._lines: Queue[bytes] = Queue(MAX_QUEUED)
        super().__init__(self._lines)
        self._n_dropped, self._counting = 0, threading.Lock()
        threading.Thread(target=self._write_all, args=(file,), name="log", daemon=True).start()

    def prepare(self, record: logging.LogRecord) -> bytes:
        return f"{self.format(record)}\n".encode("utf-8", "backslashreplace")

    def enqueue(self, record: Any) -> None:
        try:
            self._lines.put_nowait(record)
        except Full:
            self._drop(1)

    def _drop(self, n: int) -> None:
        with self._counting:
            self._n_dropped += n

    def take_dropped(self) -> int:
        """Returns how many records have been dropped since the last call."""
        with self._counting:
            n, self._n_dropped = self._n_dropped, 0
            return n

    def _write_all(self, file: int) -> None:
        while True:
            lines = [self._lines.get()]
            time.sleep(GATHER_SECONDS)
            lines += [self._lines.get_nowait() for _ in range(self._lines.qsize())]
            rest = memoryview(b"".join(lines))
            try:
                while rest:
                    rest = rest[os.write(file, rest) :]
            except OSError:  # the disk is full, or the reader is gone
                self._drop(len(lines))
            for _ in lines:
                self._lines.task_done()

    def flush(self) -> None:
        """Waits until all records are written, at most FLUSH_SECONDS."""
        with self._lines.all_tasks_done:
            self._lines.all_tasks_done.wait_for(
                lambda: not self._lines.unfinished_tasks, FLUSH_SECONDS
            )


def flush_logs() -> None:
    """Waits until the records so far are written, but not long."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def take_dropped() -> int:
    """Returns how many records have been dropped since the last call."""
    handlers = logging.getLogger().handlers
    return sum(h.take_dropped() for h in handlers if isinstance(h, LineHandler))


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


# The `_created` series would double every counter and histogram, and nothing reads them.
disable_created_metrics()  # type: ignore[no-untyped-call]

REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
LAG_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
SHEDS = ("full", "rate", "deadline", "disconnected")
FILE_BYTES = 1 << 19  # of a file of values: more than all labels that there can be take


class AllocatedDict(MmapedDict):
    """Values of a process in a file, whose blocks are allocated before they are used.

    prometheus_client makes sparse files. If the disk is full, writing to one kills the process
    (SIGBUS). This class then keeps the values in memory instead, and /metrics lacks them.
    """

    def __init__(self, filename: str) -> None:
        try:
            with Path(filename).open("ab") as file:
                if not file.tell():
                    file.write(bytes(FILE_BYTES))
        except OSError as error:
            Path(filename).unlink(missing_ok=True)
            log.warning("/metrics lacks values of process %d: %s", os.getpid(), error.strerror)
            filename = f"/proc/self/fd/{os.memfd_create('metrics')}"
        super().__init__(filename)  # type: ignore[no-untyped-call]


values.MmapedDict = AllocatedDict  # type: ignore[assignment, attr-defined]  # it makes files


class Metrics:
    """The metrics of one application.

    If several processes serve, PROMETHEUS_MULTIPROC_DIR must name an empty folder before this
    module is imported. The values are kept there, and each process renders those of all.
    """

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        counter = partial(Counter, registry=registry)
        histogram = partial(Histogram, registry=registry)
        gauge = partial(Gauge, registry=registry, multiprocess_mode="livesum")
        self.requests = counter(
            "calcgpt_requests", "Requests answered", ("route", "method", "status")
        )
        self.request_seconds = histogram(
            "calcgpt_request_seconds",
            "Seconds from request to response",
            ("route",),
            buckets=REQUEST_SECONDS,
        )
        self.in_flight = gauge("calcgpt_requests_in_flight", "Operations in progress")
        self.tokens = counter("calcgpt_tokens", "Characters written by the model", ("model",))
        self.answers = counter(
            "calcgpt_answers", "Answers, by whether exact arithmetic agrees", ("model", "verified")
        )
        self.abstentions = counter(
            "calcgpt_abstentions",
            "Answers withheld: not as sure, or not verified, as requested",
            ("model", "reason"),
        )
        self.sheds = counter("calcgpt_sheds", "Requests shed, by reason", ("reason",))
        self.loop_lag = histogram(
            "calcgpt_event_loop_lag_seconds",
            "Seconds that the event loop was late",
            buckets=LAG_SECONDS,
        )
        self.dropped = counter(
            "calcgpt_log_records_dropped", "Log records that were not read in time"
        )
        for reason in SHEDS:  # start at 0: Prometheus cannot watch a series that does not exist
            self.sheds.labels(reason)

    def render(self) -> tuple[bytes, str]:
        """Returns the metrics in Prometheus' text format, and its content type."""
        registry = self._registry
        if folder := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            _remove_dead_processes(Path(folder))
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry), CONTENT_TYPE_LATEST


def _remove_dead_processes(folder: Path) -> None:
    """Removes the gauges of processes that were killed."""
    for file in folder.glob("gauge_live*_*.db"):
        pid = int(file.stem.rpartition("_")[2])
        try:
            os.kill(pid, 0)
        except OSError:  # there is no such process, or by now another user's
            with suppress(FileNotFoundError):  # another process removes the same files
                mark_process_dead(pid)  # type: ignore[no-untyped-call]


async def watch_loop(metrics: Metrics, interval: float = 0.1) -> None:
    """Measures the lag of the event loop every `interval` seconds, until cancelled. Also counts the
    log records that are dropped."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + interval
        await asyncio.sleep(interval)
        metrics.loop_lag.observe(max(0.0, loop.time() - due))
        if n := take_dropped():
            metrics.dropped.inc(n)
