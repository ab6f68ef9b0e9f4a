"""What all exporters share."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from calcgpt.checkpoint import Checkpoint, model_card
from datagen.arithmetic import Number, Operation, Problem
from datagen.notation import render_prompt

EXAMPLE_PROMPT = render_prompt(Problem(Number(1250, True), Operation("*"), Number(300, False)))


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


def export_card(folder: str, checkpoint: Checkpoint) -> str:
    """Returns the model card, in Markdown, for an export. It lacks a section on its use."""
    card = model_card(folder, checkpoint.recipe, checkpoint.metrics)
    # An export has no config.json, or one in another format.
    return card.replace("beside this file", "of the checkpoint")
