"""Each list of names in `calcgpt.config` is the list of the table that it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import pytest

from calcgpt import config
from calcgpt.data.batches import BATCHES
from calcgpt.data.tokenizer import TOKENIZERS
from calcgpt.model.attention import ATTENTIONS
from calcgpt.model.gpt import BLOCKS, INITS, MODELS
from calcgpt.model.layers import FEEDFORWARDS, NORMS
from calcgpt.model.positions import POSITIONS
from calcgpt.training.distributed import PARALLEL
from calcgpt.training.optim import OPTIMIZERS, SCHEDULES
from datagen import formats, steps
from datagen.distributions import DISTRIBUTIONS

TABLES: dict[str, tuple[Any, Mapping[str, Any] | tuple[str, ...]]] = {
    "architecture": (config.Architecture, MODELS),
    "position": (config.Position, POSITIONS),
    "attention": (config.Attention, ATTENTIONS),
    "feedforward": (config.FeedForward, FEEDFORWARDS),
    "norm": (config.Norm, NORMS),
    "norm_position": (config.NormPosition, BLOCKS),
    "init": (config.Init, INITS),
    "batches": (config.Batches, BATCHES),
    "optimizer": (config.Optimizer, OPTIMIZERS),
    "schedule": (config.Schedule, SCHEDULES),
    "parallel": (config.Parallel, PARALLEL),
    "tokenizer": (config.TokenizerName, TOKENIZERS),
    "format": (config.Format, formats.FORMATS),
    "distribution": (config.Distribution, DISTRIBUTIONS),
}


@pytest.mark.parametrize("field", TABLES)
def test_names_and_table_are_equal(field: str) -> None:
    names, table = TABLES[field]
    assert list(get_args(names)) == sorted(table)


@pytest.mark.parametrize("digits", range(1, 12))
def test_digits_are_those_of_the_worked_steps(digits: int) -> None:
    try:
        config.DataConfig(mixture={"blog": 1.0}, digits=digits)
    except ValueError:
        accepted = False
    else:
        accepted = True
    assert accepted == (steps.MIN_DIGITS <= digits <= steps.MAX_DIGITS)


def test_default_digits_are_those_of_datagen() -> None:
    data = config.DataConfig(mixture={"blog": 1.0})
    assert data.work_digits == formats.line_format(data.format).digits
