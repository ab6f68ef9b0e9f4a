"""Metrics for Prometheus."""

import asyncio
import errno
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

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

from api.logs import take_dropped
from calcgpt.base.errors import UserError
from calcgpt.base.files import locked

log = logging.getLogger(__name__)

# The `_created` series would double every counter and histogram, and nothing reads them.
disable_created_metrics()  # type: ignore[no-untyped-call]

REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
LAG_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
SHEDS = ("full", "rate", "deadline", "disconnected")
FOLDER_PREFIX = "calcgpt-metrics-"
FILE_BYTES = 1 << 19  # of a file of values: more than all labels that there can be take
LOCK_SECONDS = 60  # until a process has locked its new folder, at most


class AllocatedDict(MmapedDict):
    """Values of a process in a file, whose blocks are allocated before they are used.

    prometheus_client makes sparse files. If the disk is full, writing to one kills the process
    (SIGBUS). This class then keeps the values in memory instead, and /metrics lacks them.
    """

    def __init__(self, filename: str) -> None:
        try:
            with Path(filename).open("ab") as file:
                if not file.tell():
                    _allocate(file.fileno(), FILE_BYTES)
        except OSError as error:
            Path(filename).unlink(missing_ok=True)
            log.warning("/metrics lacks values of process %d: %s", os.getpid(), error.strerror)
            filename = f"/proc/self/fd/{os.memfd_create('metrics')}"
        super().__init__(filename)  # type: ignore[no-untyped-call]


def _allocate(file: int, n_bytes: int) -> None:
    """Appends zeros to a file, which must be open for appending. Raises OSError."""
    if os.write(file, bytes(n_bytes)) < n_bytes:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


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


@contextmanager
def shared_folder() -> Iterator[str]:
    """Yields an empty folder for PROMETHEUS_MULTIPROC_DIR, and removes it at the end. Also removes
    those of services that were killed: nobody locks them any more."""
    for lock in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*/.lock"):
        with suppress(UserError, OSError):  # it is locked, or another user's
            if time.time() - lock.stat().st_mtime > LOCK_SECONDS:
                with locked(lock.parent, "serving"):
                    shutil.rmtree(lock.parent)
    with (
        tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX) as folder,
        locked(Path(folder), "serving"),
    ):
        yield folder


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
