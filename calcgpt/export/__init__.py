"""Checkpoints in the formats of others. A target is a module in this folder that registers a
function in `EXPORTERS`; every module here is imported, so adding a file adds the target.

What only one target needs, as `transformers`, its module imports where it is used: all of these
are extras, and without one of them the others still work.
"""

from importlib import import_module
from pkgutil import iter_modules

from calcgpt.export.base import EXPORTERS, Exporter, missing, new_export

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["EXPORTERS", "Exporter", "missing", "new_export"]
