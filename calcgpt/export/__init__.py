"""Checkpoints in the formats of other libraries.

A format is a function of the type `Exporter` and its entry in `EXPORTERS`. Each needs an extra,
which it imports where it is used: without one of them the others still work.
"""

from calcgpt.export.hf import export_hf
from calcgpt.export.onnx import export_onnx
from calcgpt.export.target import Exporter, new_export

__all__ = ["EXPORTERS", "Exporter", "new_export"]

EXPORTERS: dict[str, Exporter] = {"hf": export_hf, "onnx": export_onnx}
