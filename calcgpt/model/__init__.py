"""The decoder: a config's names resolved in registries, one family of variants a module."""

from calcgpt.model.feedforward import FEEDFORWARDS
from calcgpt.model.gpt import GPT, INITS, check_config
from calcgpt.model.kv_cache import KVCache
from calcgpt.model.norms import NORMS
from calcgpt.model.positions import POSITIONS

__all__ = ["FEEDFORWARDS", "GPT", "INITS", "NORMS", "POSITIONS", "KVCache", "check_config"]
