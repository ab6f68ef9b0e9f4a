"""A plugin for pytest that `benchmarks/mutants.py` runs it with.

mutmut asks which functions each test calls. What was called while a fixture was made, it would
lay to the first of the tests that share the fixture; here it is laid to all of them. And of the
tests that call a function the quick ones are run first: most mutants fall to those.
"""

from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from mutmut.state import state

MADE_BY: defaultdict[pytest.FixtureDef[Any], set[str]] = defaultdict(set)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
    called = state()._stats
    before = called.copy()
    called.clear()
    try:
        return (yield)
    finally:
        MADE_BY[fixturedef] |= called
        called |= before


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Function) -> None:
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        for definition in definitions:
            state()._stats.update(MADE_BY[definition])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seconds = state().duration_by_test
    of_file: defaultdict[Path, float] = defaultdict(float)
    for item in items:
        of_file[item.path] += seconds.get(item.nodeid, 0)
    items.sort(key=lambda item: (of_file[item.path], item.path, seconds.get(item.nodeid, 0)))
