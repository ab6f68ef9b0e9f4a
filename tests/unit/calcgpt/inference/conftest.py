"""What several tests of inference share."""

from collections.abc import Callable
from typing import Any

import pytest

from calcgpt.checkpoint import Checkpoint
from calcgpt_lab.model.base import LanguageModel
from calcgpt_lab.model.gpt import build_model
from calcgpt_lab.model.stored import checkpoint_of


@pytest.fixture
def variant(tiny: Checkpoint) -> Callable[..., Checkpoint]:
    """Returns `tiny` with another config, and with the same weights if they fit."""

    def make(weight_change: float = 0.0, **config_changes: Any) -> Checkpoint:
        config = tiny.model.config.model_copy(update=config_changes)
        model: LanguageModel = build_model(config, len(tiny.tokenizer)).eval()
        weights = tiny.model.state_dict()
        if all(
            name in weights and tensor.shape == weights[name].shape
            for name, tensor in model.state_dict().items()
        ):
            model.load_state_dict(weights)
            next(model.parameters()).data[1, 2] += weight_change
        recipe = tiny.recipe.model_copy(update={"model": config})
        return checkpoint_of(tiny.name, recipe, tiny.tokenizer, model, tiny.metrics)

    return make
