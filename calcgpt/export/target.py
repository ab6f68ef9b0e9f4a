"""What all targets share: their registry, and a folder that is right or absent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import CheckpointError
from datagen.files import new_folder


class Exporter(Protocol):
    """A function that writes a checkpoint in the format of others."""

    def __call__(self, checkpoint: Checkpoint, out: Path, force: bool) -> str:
        """Write the folder `out`, whole or not at all; returns what it is now, as
        "a LlamaForCausalLM of transformers".

        What was written is read back and compared with `checkpoint` before it appears. Raises
        UserError where an extra is missing, ConfigError where the format has no place for the
        model, CheckpointError where `out` cannot be written, or came out wrong.
        """


@contextmanager
def new_export(out: Path, force: bool, sign: str) -> Iterator[Path]:
    """A temporary folder to fill, which becomes `out` when the block ends without an error.

    Raises CheckpointError where something stands at `out`, unless `force` and it is an earlier
    export, which has a file named `sign`.
    """
    if out.exists() and not (out / sign).is_file():
        raise CheckpointError(f"{out} exists and has no {sign}: it is left alone")
    if out.exists() and not force:
        raise CheckpointError(f"{out} exists; --force replaces it")
    with new_folder(out) as staging:
        yield staging
