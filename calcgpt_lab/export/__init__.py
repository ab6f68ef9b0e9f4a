"""Checkpoints in the formats of other libraries.

A format is an entry point of the group `calcgpt.exporters`: a function that takes a checkpoint, the
folder to write, and whether it may replace an earlier export. It writes the folder, whole or not at
all, and returns what that is, for example "a LlamaForCausalLM of transformers". Before the folder
appears, its files are read with the other library and compared with the checkpoint. It raises
UserError if a library is missing, before any work begins, ConfigError if the format cannot express
the model, and CheckpointError if the folder may not be replaced, cannot be written or differs.

`web`, the page, is none of them, because it can hold several checkpoints (`calcgpt.export.web`).
"""

from pathlib import Path

from calcgpt.base.extras import require
from calcgpt.checkpoint import Checkpoint


def to_hf(checkpoint: Checkpoint, out: Path, force: bool) -> str:
    require("export to hf", "torch", "transformers")
    from calcgpt_lab.export.hf import export_hf

    return export_hf(checkpoint, out, force)


def to_gguf(checkpoint: Checkpoint, out: Path, force: bool) -> str:
    require("export to gguf", "torch", "transformers", "gguf")
    from calcgpt_lab.export.gguf import export_gguf

    return export_gguf(checkpoint, out, force)
