"""Causal self-attention. A scheme, which keys a query sees and how scores become weights, is a
module in this folder that registers a subclass of `AttentionScheme`; every module here is imported,
so adding a file adds the scheme."""

from importlib import import_module
from pkgutil import iter_modules

from calcgpt.model.attention.base import ATTENTIONS, AttentionScheme
from calcgpt.model.attention.self_attention import CausalSelfAttention, Context

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["ATTENTIONS", "AttentionScheme", "CausalSelfAttention", "Context"]
