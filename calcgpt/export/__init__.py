"""Checkpoints in the formats of other libraries.

A format is a function of type `Exporter` and an entry in `EXPORTERS`. Each format needs an extra,
which it imports where it is used: if one is missing, the other formats still work.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from calcgpt.checkpoint import Checkpoint
from calcgpt.export.hf import export_hf
from calcgpt.export.onnx import export_onnx
from calcgpt.export.web import export_web


class Exporter(Protocol):
    """A function that writes a checkpoint in the format of another library."""

    def __call__(self, checkpoint: Checkpoint, out: Path, force: bool) -> str:
        """Writes the folder `out`, whole or not at all. Returns what it is, for example
        "a LlamaForCausalLM of transformers".

        Before the folder appears, its files are read with the other library and compared with
        `checkpoint`. Raises UserError if an extra is missing, ConfigError if the format cannot
        express the model, and CheckpointError if `out` exists and may not be replaced, cannot be
        written or differs from the checkpoint.
        """


EXPORTERS: dict[str, Exporter] = {"hf": export_hf, "onnx": export_onnx, "web": export_web}
