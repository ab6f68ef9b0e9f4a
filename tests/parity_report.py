"""The comparison of tests/parity, and `--parity-report`, which writes its errors to a file."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from calcgpt.base.files import write_json

if TYPE_CHECKING:  # the process that only starts workers does not need torch
    import torch


class ParityReport:
    """The largest relative error of each comparison, over all tests of a session."""

    def __init__(self, file: str | None) -> None:
        self.file = file and Path(file)
        self.errors: dict[str, float] = {}

    def compare(
        self, actual: torch.Tensor, expected: torch.Tensor, what: str, rtol: float = 1e-5
    ) -> None:
        """Asserts that max|actual - expected| <= rtol * max(1, max|expected|). Records the error.

        `what` is the line of the report. Several comparisons may share it.
        """
        assert actual.shape == expected.shape, f"{what}: {actual.shape}, not {expected.shape}"
        assert actual.numel(), f"{what}: nothing to compare"
        actual, expected = (x.detach().cpu().double() for x in (actual, expected))
        error = ((actual - expected).abs().max() / expected.abs().max().clamp(min=1)).item()
        if math.isfinite(error):  # JSON has no infinity; the test fails anyway
            self._record({what: error})
        assert error <= rtol, f"{what}: relative error {error:.3g}, {rtol:.3g} allowed"

    def _record(self, errors: dict[str, float]) -> None:
        for what, error in errors.items():
            self.errors[what] = max(error, self.errors.get(what, 0.0))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Writes the report. A worker of xdist sends its errors to the main process instead."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["parity"] = self.errors
        elif self.file:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.file, dict(sorted(self.errors.items())))

    @pytest.hookimpl(optionalhook=True)  # of xdist; called for each worker, before sessionfinish
    def pytest_testnodedown(self, node: Any) -> None:
        self._record(getattr(node, "workeroutput", {}).get("parity", {}))
