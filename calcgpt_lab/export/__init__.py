"""Checkpoints in the formats of other libraries.

A format is a function of type `Exporter`, and an entry point of the group `calcgpt.exporters`. It
is imported when it is used: if a library is missing, the other formats still work. `web`, the page,
is none of them, because it can hold several checkpoints (`calcgpt.export.web`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from calcgpt.base.extras import require
from calcgpt.checkpoint import Checkpoint


class Exporter(Protocol):
    """A function that writes a checkpoint in the format of another library."""

    def __call__(self, checkpoint: Checkpoint, out: Path, force: bool) -> str:
        """Writes the folder `out`, whole or not at all. Returns what it is, for example
        "a LlamaForCausalLM of transformers".

        Requires its libraries before any work begins. Before the folder appears, its files are read
        with the other library and compared with `checkpoint`. Raises UserError if a library is
        missing, ConfigError if the format cannot express the model, and CheckpointError if `out`
        exists and may not be replaced, cannot be written or differs from the checkpoint.
        """


def to_hf(checkpoint: Checkpoint, out: Path, force: bool) -> str:
    require("export to hf", "torch", "transformers")
    from calcgpt_lab.export.hf import export_hf

    return export_hf(checkpoint, out, force)


def to_gguf(checkpoint: Checkpoint, out: Path, force: bool) -> str:
    require("export to gguf", "torch", "transformers", "gguf")
    from calcgpt_lab.export.gguf import export_gguf

    return export_gguf(checkpoint, out, force)


def to_example(checkpoint: Checkpoint, out: Path, force: bool) -> str:
    require("export to example", "torch")
    from calcgpt_lab.export.page import export_example

    return export_example(checkpoint, out, force)
