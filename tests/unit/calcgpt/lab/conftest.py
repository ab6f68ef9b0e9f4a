"""Fixtures for the tests of sweeps."""

from collections.abc import Callable

import pytest
from sweeps import SPACE

from calcgpt.lab.space import Space, load_space


@pytest.fixture
def space(recipe_file: Callable[[str], str]) -> Space:
    """A space of two hyperparameters over the recipe `nano`."""
    return load_space(recipe_file(SPACE))
