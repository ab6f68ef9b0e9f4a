"""Engines: what can decode with a checkpoint, by name. Each is imported when it is used.

The engine `cases` is here. Packages add others by entry points of the group `calcgpt.engines`, as
the laboratory adds `torch`.
"""

import logging
from collections.abc import Callable

from calcgpt.base.errors import UserError
from calcgpt.base.plugins import extension, extensions, look_up
from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import CheckpointError
from calcgpt.inference.decoding import Decoder

AUTO = "auto"  # cases if that can run the checkpoint, else torch
ENTRY_POINTS = "calcgpt.engines"

log = logging.getLogger(__name__)


# Makes a decoder for a checkpoint. It uses that many threads of the CPU, by default torch's number,
# and with the last argument, the model computes each character, even one that it wrote before.
# Raises UserError if the engine is not installed or cannot run the model.
Engine = Callable[[Checkpoint, int | None, bool], Decoder]


def cases_decoder(
    checkpoint: Checkpoint, threads: int | None = None, live: bool = False
) -> Decoder:
    """Returns a decoder in NumPy, which needs no torch: the next character must be a function of
    the case. It remembers what it wrote in each, unless `live`. `threads` has no effect: the
    decoder uses one thread."""
    from calcgpt.inference.cases.decoder import CaseDecoder

    return CaseDecoder(checkpoint, live)


def engine_names() -> list[str]:
    """Returns the names of all engines, and AUTO."""
    return [AUTO, "cases", *sorted(extensions(ENTRY_POINTS))]


def load_decoder(
    checkpoint: Checkpoint, engine: str = AUTO, threads: int | None = None, live: bool = False
) -> tuple[str, Decoder]:
    """Returns the name of the engine and its decoder.

    Raises UserError as `Engine` does, and ConfigError if there is no engine of that name.
    """
    look_up(dict.fromkeys(engine_names()), engine, "engine")  # raises for an unknown name
    if engine in (AUTO, "cases"):
        try:
            return "cases", cases_decoder(checkpoint, threads, live)
        except UserError as error:
            # No engine can run damaged weights.
            if engine == "cases" or isinstance(error, CheckpointError):
                raise
            log.info("%s is run by torch: %s", checkpoint.name, error)
            engine = "torch"
    make: Engine = extension(ENTRY_POINTS, engine)
    return engine, make(checkpoint, threads, live)
