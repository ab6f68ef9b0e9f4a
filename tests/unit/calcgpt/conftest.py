"""What the tests of several packages share."""

import subprocess
from typing import Any

import pytest

from calcgpt.checkpoint import Checkpoint


@pytest.fixture(scope="session")
def tiny_graph(tiny: Checkpoint, quick_exporter: None) -> bytes:
    """The ONNX graph of `tiny`, which takes seconds to make."""
    from calcgpt.export.onnx import to_onnx

    return bytes(to_onnx(tiny.model).SerializeToString())


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that the test starts with `subprocess`."""
    processes: list[subprocess.Popen[bytes]] = []

    class RecordedProcess(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            processes.append(self)

    monkeypatch.setattr(subprocess, "Popen", RecordedProcess)
    return processes
