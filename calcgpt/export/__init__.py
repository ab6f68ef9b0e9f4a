"""Checkpoints in the formats of other libraries: each format is an entry in `EXPORTERS`.

What only one format needs, such as `transformers`, its module imports where it is used: all of
these are extras, and without one of them the others still work.
"""

from calcgpt.export import hf, onnx  # noqa: F401  (each registers itself in EXPORTERS)
from calcgpt.export.target import EXPORTERS, Exporter, new_export

__all__ = ["EXPORTERS", "Exporter", "new_export"]
