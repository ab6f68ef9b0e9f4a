"""The logs: one record is one line with the id of its request."""

import io
import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api import telemetry

log = logging.getLogger("service.part")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextmanager
def logging_to(stream: io.StringIO, *args: Any) -> Iterator[io.StringIO]:
    """Configures logging with `stream` as stderr, and restores everything after the block."""
    root = logging.getLogger()
    handlers, level, stderr = root.handlers, root.level, sys.stderr
    root.handlers, sys.stderr = [], stream
    for name in ("uvicorn", "uvicorn.error"):  # a server that ran in this process set them
        library = logging.getLogger(name)
        library.setLevel(logging.NOTSET)
        library.disabled = False
    try:
        telemetry.configure_logs(*args)
        yield stream
    finally:
        root.handlers, sys.stderr = handlers, stderr
        root.setLevel(level)
        logging.captureWarnings(False)


def records(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_record_is_one_json_object_with_its_extras() -> None:
    with logging_to(io.StringIO(), "json") as stream:
        log.info("answered %d", 5, extra={"status": 200, "route": "/v1/calculate"})
    (record,) = records(stream)
    time = record.pop("time")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", time)
    assert record == {
        "level": "INFO",
        "logger": "service.part",
        "message": "answered 5",
        "status": 200,
        "route": "/v1/calculate",
    }


@pytest.mark.parametrize("format", ["json", "text"])
def test_records_have_the_id_of_the_current_request(format: str) -> None:
    with logging_to(io.StringIO(), format) as stream:
        token = telemetry.request_id.set("request-7")
        log.info("within")
        telemetry.request_id.reset(token)
        log.info("after")
    within, after = stream.getvalue().splitlines()
    assert "request-7" in within
    assert "request" not in after


def test_records_that_nobody_reads_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "MAX_QUEUED", 100)
    reader, writer = os.pipe()
    handler = telemetry.LineHandler(writer)
    n = 1_000
    for i in range(n):
        handler.handle(logging.makeLogRecord({"msg": f"{i} {'x' * 995}"}))  # nothing waits
    n_dropped = handler.take_dropped()
    assert 0 < n_dropped < n
    assert handler.take_dropped() == 0
    with os.fdopen(reader, encoding="utf-8") as file:
        written = [int(file.readline().split(" ")[0]) for _ in range(n - n_dropped)]
    handler.flush()
    assert written == sorted(set(written))


def test_records_that_cannot_be_written_are_counted() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    handler = telemetry.LineHandler(writer)
    handler.handle(logging.makeLogRecord({"msg": "lost"}))
    handler.flush()
    assert handler.take_dropped() == 1


def test_a_traceback_is_one_string() -> None:
    with logging_to(io.StringIO(), "json") as stream:
        try:
            raise ValueError("first\nsecond")
        except ValueError:
            log.exception("failed", stack_info=True)
    (record,) = records(stream)
    assert record["level"] == "ERROR"
    assert record["exception"].startswith("Traceback (most recent call last):\n")
    assert record["exception"].endswith("ValueError: first\nsecond")
    assert "test_a_traceback_is_one_string" in record["stack"]


def test_the_lines_of_a_traceback_are_indented_in_text() -> None:
    with logging_to(io.StringIO(), "text") as stream:
        try:
            raise ValueError("first\n2026-01-01T00:00:00.000+00:00 INFO    forged: record\x1b[2J")
        except ValueError:
            log.exception("failed")
    first, *others = stream.getvalue().splitlines()
    assert first.endswith("ERROR   service.part: failed")
    assert all(line.startswith("    ") for line in others)
    assert others[-1].endswith(r"forged: record\x1b[2J")


@given(st.text())
def test_no_value_can_forge_a_record(value: str) -> None:
    with logging_to(io.StringIO(), "json") as stream:
        log.warning("got %s", value, extra={"value": value})
    assert stream.getvalue().count("\n") == 1
    (record,) = records(stream)
    assert record["value"] == value
    assert record["message"] == f"got {value}"

    with logging_to(io.StringIO(), "text") as stream:
        log.warning("got %s", value)
    (line,) = stream.getvalue().splitlines()
    assert line.isprintable()


@pytest.mark.parametrize(("stream", "is_json"), [(io.StringIO(), True), (Terminal(), False)])
def test_auto_is_text_on_a_terminal(stream: io.StringIO, is_json: bool) -> None:
    with logging_to(stream):
        log.info("hello")
    assert stream.getvalue().startswith("{") == is_json


def test_uvicorn_logs_alike_and_its_access_log_is_off() -> None:
    handler = logging.StreamHandler(io.StringIO())
    logging.getLogger("uvicorn").addHandler(handler)
    logging.getLogger("uvicorn.access").addHandler(handler)
    with logging_to(io.StringIO(), "json") as stream:
        logging.getLogger("uvicorn.error").info("Started", extra={"color_message": "\x1b[36m"})
        assert not logging.getLogger("uvicorn.access").hasHandlers()
    (record,) = records(stream)
    assert (record["logger"], record["message"]) == ("uvicorn.error", "Started")
    assert "color_message" not in record
    assert handler.stream.getvalue() == ""
