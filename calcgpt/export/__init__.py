"""Checkpoints in the formats of other libraries.

A format is a function of type `Exporter`, an entry in `EXPORTERS`, and its libraries in
`LIBRARIES`. It is imported when it is used: if a library is missing, the other formats still work.
`web`, the page, is not in this table, because it can hold several checkpoints
(`calcgpt.export.web`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from calcgpt.checkpoint import Checkpoint


class Exporter(Protocol):
    """A function that writes a checkpoint in the format of another library."""

    def __call__(self, checkpoint: Checkpoint, out: Path, force: bool) -> str:
        """Writes the folder `out`, whole or not at all. Returns what it is, for example
        "a LlamaForCausalLM of transformers".

        Before the folder appears, its files are read with the other library and compared with
        `checkpoint`. Raises UserError if a library is missing, ConfigError if the format cannot
        express the model, and CheckpointError if `out` exists and may not be replaced, cannot be
        written or differs from the checkpoint.
        """


def _hf(checkpoint: Checkpoint, out: Path, force: bool) -> str:
    from calcgpt.export.hf import export_hf

    return export_hf(checkpoint, out, force)


def _gguf(checkpoint: Checkpoint, out: Path, force: bool) -> str:
    from calcgpt.export.gguf import export_gguf

    return export_gguf(checkpoint, out, force)


EXPORTERS: dict[str, Exporter] = {"hf": _hf, "gguf": _gguf}
LIBRARIES = {  # format -> the libraries that it needs
    "hf": ("torch", "transformers"),
    "gguf": ("torch", "transformers", "gguf"),
}
