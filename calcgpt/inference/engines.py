"""Engines: what can decode with a checkpoint, by name. Each is imported when it is used."""

import logging
from collections.abc import Callable

from calcgpt.base.errors import UserError
from calcgpt.checkpoint import Checkpoint, torch_engine
from calcgpt.errors import CheckpointError, look_up
from calcgpt.inference.generate import Decoder

AUTO = "auto"  # cases if that can run the checkpoint, else torch

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

    config, vocabulary = (
        checkpoint.recipe.model,
        checkpoint.tokenizer.require_characters().vocabulary,
    )
    try:
        return CaseDecoder(config, vocabulary, checkpoint.arrays, live, checkpoint.is_certain)
    except CheckpointError as error:
        raise CheckpointError(f"{checkpoint.name}: {error}") from error


def torch_decoder(
    checkpoint: Checkpoint, threads: int | None = None, live: bool = False
) -> Decoder:
    """Returns the model itself, which is always live. `threads` applies to the whole process."""
    if threads:
        torch_engine().set_num_threads(threads)
    decoder: Decoder = checkpoint.model
    return decoder


ENGINES: dict[str, Engine] = {"cases": cases_decoder, "torch": torch_decoder}


def load_decoder(
    checkpoint: Checkpoint, engine: str = AUTO, threads: int | None = None, live: bool = False
) -> tuple[str, Decoder]:
    """Returns the name of the engine and its decoder.

    Raises UserError as `Engine` does, and ConfigError if there is no engine of that name.
    """
    look_up({AUTO: None, **ENGINES}, engine, "engine")  # raises for an unknown name
    if engine != AUTO:
        return engine, ENGINES[engine](checkpoint, threads, live)
    try:
        return "cases", cases_decoder(checkpoint, threads, live)
    except CheckpointError:  # no engine can run damaged weights
        raise
    except UserError as error:
        log.info("%s is run by torch: %s", checkpoint.name, error)
    return "torch", torch_decoder(checkpoint, threads, live)
