"""The interface that all counterparts share, and the choice among them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import torch

from calcgpt.config import ModelConfig
from calcgpt.errors import ConfigError
from calcgpt.model import GPT, LanguageModel
from calcgpt.registry import Registry

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Weights = dict[str, torch.Tensor]


class Counterpart(ABC):
    """A class of `transformers`, registered under its name, that computes what a `GPT` does."""

    model_type: str  # the name of its config in `transformers`

    @classmethod
    def has(cls, config: ModelConfig) -> dict[str, tuple[Any, ...]]:
        """What this class can be: the values it has for the fields of a config, and for the
        properties. What is not named may be anything; what differs first is told. Here stands
        what most have in common."""
        return {
            "architecture": ("gpt",),
            "position": (),  # each has its own: named for its place in the order
            "attention": ("full",),
            "norm_position": ("pre",),
            "qk_norm": (False,),
        }

    @classmethod
    @abstractmethod
    def settings(cls, config: ModelConfig) -> dict[str, Any]:
        """The fields of the config of `transformers`, without the vocabulary."""

    @classmethod
    @abstractmethod
    def weights(cls, model: GPT) -> Weights:
        """Our weights, by the names that they have there; ConfigError for those it cannot hold."""

    @classmethod
    def build(cls, model: LanguageModel, **tokens: int | None) -> PreTrainedModel:
        """The same model as one of `transformers`, of the same type of numbers. `tokens`: the ids
        of the special tokens, as in `eos_token_id`, without which that library has its own."""
        from transformers import AutoConfig, AutoModelForCausalLM

        assert isinstance(model, GPT)
        settings = cls.settings(model.config) | {"vocab_size": model.vocab_size} | tokens
        config = AutoConfig.for_model(cls.model_type, **settings)
        theirs = AutoModelForCausalLM.from_config(config).to(model.head.weight.dtype)
        theirs.load_state_dict(cls.weights(model))
        return theirs.eval()


COUNTERPARTS: Registry[type[Counterpart]] = Registry("class of transformers")


def counterpart_of(config: ModelConfig) -> tuple[str, type[Counterpart]]:
    """The name of the class that computes what `config` describes, and how to get there.

    Raises ConfigError, one line that says of each class what it lacks, where there is none.
    """
    reasons = []
    for name in COUNTERPARTS:
        reason = difference(name, config)
        if reason is None:
            return name, COUNTERPARTS[name]
        reasons.append(reason)
    raise ConfigError(f"no class of transformers is this model: {'; '.join(reasons)}")


def difference(name: str, config: ModelConfig) -> str | None:
    """The first thing that the class `name` does otherwise than `config`; None: nothing."""
    for field, values in COUNTERPARTS[name].has(config).items():
        if (value := getattr(config, field)) not in values:
            return f"{field} is {value!r}, {name} has {' or '.join(map(repr, values))}"
    return None


def layers(model: GPT) -> list[Weights]:
    """The weights of each block, by their names within it."""
    return [Weights(block.state_dict()) for block in model.blocks]


def bias_or_zeros(weights: Weights, layer: str) -> torch.Tensor:
    """The bias of a layer, or what is the same as none, of as many numbers as it has outputs."""
    weight = weights[f"{layer}.weight"]
    return weights.get(f"{layer}.bias", weight.new_zeros(len(weight)))
