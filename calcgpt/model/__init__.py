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
    "check_config",
]


def build_model(config: ModelConfig, vocab_size: int) -> LanguageModel:
    """The model that `config` describes, freshly initialised; raises ConfigError as
    `check_config` does."""
    return MODELS[config.architecture](config, vocab_size)


def check_config(config: ModelConfig) -> None:
    """Raise ConfigError for a name that no registry has, or parts that do not fit together."""
    # Also those that the architecture makes no use of: no name is ever just passed over.
    _ = POSITIONS[config.position], ATTENTIONS[config.attention], BLOCKS[config.norm_position]
    _ = FEEDFORWARDS[config.feedforward], NORMS[config.norm], INITS[config.init]
    MODELS[config.architecture].check(config)
