"""`compare`, the one comparison of tests/parity, and `--parity-report`, which keeps its errors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from datagen.files import write_json

if TYPE_CHECKING:  # imported where it is used: the process that only starts workers does without
    import torch


class ParityReport:
    """What was compared, and the largest relative error of it over all tests of a session."""

    def __init__(self, file: str | None) -> None:
        self.file = file and Path(file)
        self.errors: dict[str, float] = {}

    def compare(
        self, actual: torch.Tensor, expected: torch.Tensor, what: str, rtol: float = 1e-5
    ) -> None:
        """Assert max|actual - expected| <= rtol * max(1, max|expected|), and keep the error.

        `what` names what is compared, as the report lists it: not which test or which numbers.
        """
        assert actual.shape == expected.shape, f"{what}: {actual.shape}, not {expected.shape}"
        assert actual.numel(), f"{what}: nothing to compare"
        actual, expected = (x.detach().cpu().double() for x in (actual, expected))
        error = ((actual - expected).abs().max() / expected.abs().max().clamp(min=1)).item()
        if math.isfinite(error):  # JSON has no other numbers; the test fails in any case
            self._keep({what: error})
        assert error <= rtol, f"{what}: relative error {error:.3g}, {rtol:.3g} allowed"

    def _keep(self, errors: dict[str, float]) -> None:
        for what, error in errors.items():
            self.errors[what] = max(error, self.errors.get(what, 0.0))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """A worker of xdist sends its part to the process that started it, which writes."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["parity"] = self.errors
        elif self.file:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            write_json(self.file, dict(sorted(self.errors.items())))

    @pytest.hookimpl(optionalhook=True)  # of xdist; called for each worker, before sessionfinish
    def pytest_testnodedown(self, node: Any) -> None:
        self._keep(getattr(node, "workeroutput", {}).get("parity", {}))
