"""Checkpoints as models of `transformers`. A counterpart, a class of that library that computes the
same as some of our configs, is a module in this folder that registers a `Counterpart`; every module
here is imported, so adding a file adds the counterpart."""

from importlib import import_module
from pkgutil import iter_modules

from calcgpt.export.hf.counterpart import COUNTERPARTS, Counterpart, counterpart_of

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["COUNTERPARTS", "Counterpart", "counterpart_of"]
