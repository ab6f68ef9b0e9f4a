"""What the tests of several packages share."""

import pytest

from calcgpt.checkpoint import Checkpoint


@pytest.fixture(scope="session")
def tiny_graph(tiny: Checkpoint, quick_exporter: None) -> bytes:
    """The ONNX graph of `tiny`, which takes seconds to make."""
    from calcgpt.export.onnx import to_onnx

    return bytes(to_onnx(tiny.model).SerializeToString())
