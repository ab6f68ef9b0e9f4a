"""The metrics of one process and of several."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from api.telemetry import Metrics, watch_loop

COUNT = """
from api.telemetry import Metrics
metrics = Metrics()
metrics.tokens.labels("direct").inc(5)
metrics.request_seconds.labels("/").observe(0.01)
metrics.in_flight.inc(2)
"""
SHOW = """
import sys
from api.telemetry import Metrics
sys.stdout.buffer.write(Metrics().render()[0])
"""


FULL_DISK = """
mount -t tmpfs -o size={size}k tmpfs "$PROMETHEUS_MULTIPROC_DIR" && exec "$0" -c "$1"
"""
COUNT_AND_SHOW = f"""{COUNT}
print("calcgpt_requests_in_flight 2.0" in metrics.render()[0].decode())
assert metrics.tokens.labels("direct")._value.get() == 5
"""


class Samples:
    """The samples of a rendered page."""

    def __init__(self, page: bytes) -> None:
        families = text_string_to_metric_families(page.decode())
        self.samples = [sample for family in families for sample in family.samples]

    def __call__(self, name: str, **labels: str) -> float:
        (value,) = (s.value for s in self.samples if s.name == name and s.labels == labels)
        return value


def test_seconds_are_in_buckets_and_series_have_no_time_of_creation() -> None:
    metrics = Metrics()
    metrics.request_seconds.labels("/").observe(0.003)
    body, content_type = metrics.render()
    assert content_type.startswith("text/plain")
    sample = Samples(body)
    assert sample("calcgpt_request_seconds_bucket", route="/", le="0.0025") == 0
    assert sample("calcgpt_request_seconds_bucket", route="/", le="0.005") == 1
    assert not [s.name for s in sample.samples if s.name.endswith("_created")]


def test_reasons_start_at_zero() -> None:
    sample = Samples(Metrics().render()[0])
    for reason in ("full", "rate", "deadline", "disconnected"):
        assert sample("calcgpt_sheds_total", reason=reason) == 0


def test_each_process_shows_the_sum_of_all(tmp_path: Path) -> None:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}

    def started(code: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", code]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe)

    def render() -> Samples:
        return Samples(started(SHOW).communicate()[0])

    workers = [started(f"{COUNT}print(flush=True); input()") for _ in range(2)]
    for worker in workers:
        assert worker.stdout
        worker.stdout.readline()  # it has counted, and waits
    both = render()
    assert both("calcgpt_tokens_total", model="direct") == 10
    assert both("calcgpt_request_seconds_count", route="/") == 2
    assert both("calcgpt_requests_in_flight") == 4

    # After a process has died, only its counters remain, not its gauges.
    workers[0].kill()
    workers[0].communicate()
    one = render()
    assert one("calcgpt_tokens_total", model="direct") == 10
    assert one("calcgpt_requests_in_flight") == 2
    workers[1].communicate(b"\n")
    assert render()("calcgpt_requests_in_flight") == 0


async def _watch_while(metrics: Metrics, blocked: float) -> None:
    watcher = asyncio.create_task(watch_loop(metrics, interval=0.001))
    await asyncio.sleep(0)  # it has begun to wait
    time.sleep(blocked)
    while Samples(metrics.render()[0])("calcgpt_event_loop_lag_seconds_count") < 2:
        await asyncio.sleep(0)
    watcher.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watcher


def test_a_blocked_event_loop_is_measured() -> None:
    metrics = Metrics()
    asyncio.run(_watch_while(metrics, blocked=0.05))
    sample = Samples(metrics.render()[0])
    assert sample("calcgpt_event_loop_lag_seconds_sum") >= 0.05 - 0.001
    assert sample("calcgpt_event_loop_lag_seconds_bucket", le="+Inf") >= 2


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts a file system")
@pytest.mark.parametrize(("size", "some_are_kept"), [(16, False), (800, True)])
def test_a_full_disk_costs_metrics_and_not_the_process(
    tmp_path: Path, size: int, some_are_kept: bool
) -> None:
    """The disk has `size` KiB: too little for the first file, or for the second."""
    command = ["unshare", "-m", "sh", "-c", FULL_DISK.format(size=size), sys.executable]
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    ended = subprocess.run(
        [*command, COUNT_AND_SHOW], env=environment, capture_output=True, text=True, check=False
    )
    if "permission denied" in ended.stderr or "Operation not permitted" in ended.stderr:
        pytest.skip("mounts are not allowed")
    assert ended.returncode == 0, ended.stderr
    assert "No space left on device" in ended.stderr
    assert ended.stdout == f"{some_are_kept}\n"
