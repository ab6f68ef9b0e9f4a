"""What is counted and measured, for Prometheus."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

# They would double every counter and histogram, and nothing reads them.
disable_created_metrics()  # type: ignore[no-untyped-call]

REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
LAG_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
BATCH_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
SHEDS = ("full", "rate", "deadline", "disconnected")


class Metrics:
    """The metrics of one application.

    Where several processes serve, PROMETHEUS_MULTIPROC_DIR must name an empty folder before this
    module is imported: the values are kept there, and any process shows those of all.
    """

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self._registry = registry
        self.requests = Counter(
            "calcgpt_requests",
            "Requests answered",
            ("route", "method", "status"),
            registry=registry,
        )
        self.request_seconds = Histogram(
            "calcgpt_request_seconds",
            "Seconds until a request was answered",
            ("route",),
            buckets=REQUEST_SECONDS,
            registry=registry,
        )
        self.queue_depth = Gauge(
            "calcgpt_queue_depth",
            "Problems that wait for the model",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.in_flight = Gauge(
            "calcgpt_requests_in_flight",
            "Expressions admitted and not yet answered",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.batch_size = Histogram(
            "calcgpt_batch_size",
            "Rows in a forward pass",
            ("model",),
            buckets=BATCH_ROWS,
            registry=registry,
        )
        self.tokens = Counter(
            "calcgpt_tokens", "Characters that the model wrote", ("model",), registry=registry
        )
        self.answers = Counter(
            "calcgpt_answers",
            "Answers, and whether exact arithmetic agrees",
            ("model", "verified"),
            registry=registry,
        )
        self.sheds = Counter(
            "calcgpt_sheds", "Requests given up, and why", ("reason",), registry=registry
        )
        self.loop_lag = Histogram(
            "calcgpt_event_loop_lag_seconds",
            "Seconds by which the event loop was late",
            buckets=LAG_SECONDS,
            registry=registry,
        )
        for reason in SHEDS:  # shown as 0 from the start: what has no value cannot be watched
            self.sheds.labels(reason)

    def render(self) -> tuple[bytes, str]:
        """All of them in Prometheus' text format, and its content type."""
        registry = self._registry
        if folder := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            _forget_the_dead(Path(folder))
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry), CONTENT_TYPE_LATEST


def _forget_the_dead(folder: Path) -> None:
    """Gauges of a process that was killed say what is no more."""
    for file in folder.glob("gauge_live*_*.db"):
        pid = int(file.stem.rpartition("_")[2])
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            mark_process_dead(pid)  # type: ignore[no-untyped-call]


async def watch_loop(metrics: Metrics, interval: float = 0.1) -> None:
    """Measure by how much the event loop is late, every `interval` seconds, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + interval
        await asyncio.sleep(interval)
        metrics.loop_lag.observe(max(0.0, loop.time() - due))
