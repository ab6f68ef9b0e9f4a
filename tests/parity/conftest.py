"""The fixture of the parity tests."""

from collections.abc import Callable

import pytest


@pytest.fixture
def compare(request: pytest.FixtureRequest) -> Callable[..., None]:
    """`compare(actual, expected, what, rtol=1e-5)`: see `parity_report.ParityReport.compare`."""
    return request.config.pluginmanager.get_plugin("parity-report").compare
