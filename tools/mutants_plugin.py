"""A plugin for pytest that `tools/mutants.py` runs it with.

mutmut records which functions each test calls. It counts calls during the setup of a shared fixture
only for the first test that uses the fixture. This plugin counts them for all tests that use it. It
also runs quick tests first, because they catch most mutants.
"""

from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from mutmut.state import state

CALLED_BY_FIXTURE: defaultdict[pytest.FixtureDef[Any], set[str]] = defaultdict(set)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
    called = state()._stats
    before = called.copy()
    called.clear()
    try:
        return (yield)
    finally:
        CALLED_BY_FIXTURE[fixturedef] |= called
        called |= before


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Function) -> None:
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        for definition in definitions:
            state()._stats.update(CALLED_BY_FIXTURE[definition])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seconds = state().duration_by_test
    seconds_of_file: defaultdict[Path, float] = defaultdict(float)
    for item in items:
        seconds_of_file[item.path] += seconds.get(item.nodeid, 0)
    items.sort(
        key=lambda item: (seconds_of_file[item.path], item.path, seconds.get(item.nodeid, 0))
    )
