"""The models: a config's names resolved in registries, one family of variants a module."""

from calcgpt.config import ModelConfig
from calcgpt.model.attention import ATTENTIONS, KVCache
from calcgpt.model.gpt import BLOCKS, GPT, INITS, MODELS, Bigram, LanguageModel
from calcgpt.model.layers import FEEDFORWARDS, NORMS
from calcgpt.model.positions import POSITIONS

__all__ = [
    "ATTENTIONS",
    "BLOCKS",
    "FEEDFORWARDS",
    "GPT",
    "INITS",
    "MODELS",
    "NORMS",
    "POSITIONS",
    "Bigram",
    "KVCache",
    "LanguageModel",
    "build_model",
]


def build_model(config: ModelConfig, vocab_size: int) -> LanguageModel:
    """The model that `config` describes, freshly initialised."""
    return MODELS[config.architecture](config, vocab_size)
