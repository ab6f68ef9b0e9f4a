"""What a class of `transformers` says of itself, so that a model can be exported as one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import torch

from calcgpt.config import ModelConfig
from calcgpt.model.base import LanguageModel
from calcgpt.model.gpt import GPT

if TYPE_CHECKING:
    from transformers import PreTrainedModel


Weights = dict[str, torch.Tensor]


class HFClass(ABC):
    """A causal language model of `transformers`: which configs it can express, and how."""

    model_type: str  # of its config in `transformers`

    def supported(self, config: ModelConfig) -> dict[str, tuple[Any, ...]]:
        """Returns the supported values of fields and properties of a config. Any other field may
        have any value. `unsupported` checks the fields in this order."""
        return {
            "architecture": ("gpt",),
            "position": (),  # set by each class; listed here for the order
            "attention": ("full",),
            "norm_position": ("pre",),
            "qk_norm": (False,),
        }

    @abstractmethod
    def settings(self, config: ModelConfig) -> dict[str, Any]:
        """Returns the fields of the config of `transformers`, without the vocabulary."""

    @abstractmethod
    def weights(self, model: GPT) -> Weights:
        """Returns the weights under their names in `transformers`. Raises ConfigError for weights
        that the class cannot express."""

    def build(self, model: LanguageModel, **tokens: int | None) -> PreTrainedModel:
        """Returns the same model as one of `transformers`, with the same dtype.

        `tokens` are the ids of special tokens, such as `eos_token_id`. Tokens that are not passed
        have the defaults of `transformers`.
        """
        from transformers import AutoConfig, AutoModelForCausalLM

        assert isinstance(model, GPT)
        settings = self.settings(model.config) | {"vocab_size": model.vocab_size} | tokens
        hf_config = AutoConfig.for_model(self.model_type, **settings)
        hf_model = AutoModelForCausalLM.from_config(hf_config).to(model.head.weight.dtype)
        hf_model.load_state_dict(self.weights(model))
        return hf_model.eval()


def block_weights(model: GPT) -> list[Weights]:
    """Returns the weights of each block, under their names within the block."""
    return [Weights(block.state_dict()) for block in model.blocks]


def bias_or_zeros(weights: Weights, layer: str) -> torch.Tensor:
    """Returns the bias of a layer, or zeros of the same shape if it has none."""
    weight = weights[f"{layer}.weight"]
    return weights.get(f"{layer}.bias", weight.new_zeros(len(weight)))
