"""Positional schemes, by name. A scheme is a module in this folder that registers a subclass of
`PositionalScheme`; every module here is imported, so adding a file adds the scheme."""

from importlib import import_module
from pkgutil import iter_modules

from calcgpt.model.positions.base import POSITIONS, PositionalScheme

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["POSITIONS", "PositionalScheme"]
