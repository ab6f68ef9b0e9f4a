"""A name is resolved, or refused with the valid ones listed."""

from __future__ import annotations

import pytest

from calcgpt.errors import ConfigError
from calcgpt.model import ATTENTIONS, BLOCKS, FEEDFORWARDS, INITS, MODELS, NORMS, POSITIONS
from calcgpt.registry import Registry


@pytest.fixture
def shapes() -> Registry[str]:
    registry: Registry[str] = Registry("shape")
    registry.register("square")("a square")
    registry.register("circle")("a circle")
    return registry


def test_a_registered_name_is_resolved(shapes: Registry[str]) -> None:
    assert shapes["circle"] == "a circle"
    assert "circle" in shapes


def test_an_unknown_name_raises_and_lists_the_valid_ones(shapes: Registry[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        shapes["cube"]
    assert str(caught.value) == "unknown shape 'cube'; valid names: circle, square"
    assert "cube" not in shapes


def test_names_are_listed_in_order(shapes: Registry[str]) -> None:
    assert list(shapes) == ["circle", "square"]


def test_a_name_cannot_be_taken_twice(shapes: Registry[str]) -> None:
    with pytest.raises(ValueError, match="'circle' is registered twice"):
        shapes.register("circle")("another")
    assert shapes["circle"] == "a circle"


@pytest.mark.parametrize(
    ("registry", "known"),
    [
        (MODELS, "bigram gpt"),
        (
            POSITIONS,
            "alibi coupled coupled+rope integrated integrated-per-head learned learned+rope none "
            "rope shaw sinusoidal t5 t5-buckets",
        ),
        (ATTENTIONS, "full landmark window"),
        (FEEDFORWARDS, "geglu gelu gelu-tanh glu relu relu2 silu swiglu"),
        (NORMS, "layernorm rmsnorm"),
        (BLOCKS, "post pre"),
        (INITS, "gpt2 torch"),
    ],
    ids=lambda value: value.what if isinstance(value, Registry) else "",
)
def test_the_names_that_checkpoints_hold_stay_known(registry: Registry[object], known: str) -> None:
    assert set(known.split()) <= set(registry)
