"""Checkpoints in the formats of other libraries.

A format is a function of type `Exporter` and an entry in `EXPORTERS`. Each format needs an extra,
which it imports where it is used: if one is missing, the other formats still work.
"""

from calcgpt.export.exporter import Exporter
from calcgpt.export.hf import export_hf
from calcgpt.export.onnx import export_onnx

EXPORTERS: dict[str, Exporter] = {"hf": export_hf, "onnx": export_onnx}
