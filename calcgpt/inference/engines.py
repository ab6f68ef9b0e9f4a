"""Engines: what can decode with a checkpoint, by name. Each is imported when it is used."""

import logging
from collections.abc import Callable

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import CheckpointError, UserError, look_up
from calcgpt.inference.generate import Decoder
from datagen.extras import require

AUTO = "auto"  # native if that can run the checkpoint, else torch

log = logging.getLogger(__name__)


# Makes a decoder for a checkpoint. It uses that many threads of the CPU, by default torch's number.
# Raises UserError if the engine is not installed or cannot run the model.
Engine = Callable[[Checkpoint, int | None], Decoder]


def native_decoder(checkpoint: Checkpoint, threads: int | None = None) -> Decoder:
    """Returns a decoder that needs no torch: in machine code or, if the next character is a
    function of the case, in NumPy. `threads` has no effect: the decoder uses one thread."""
    config, tokenizer = checkpoint.recipe.model, checkpoint.tokenizer
    try:
        if config.architecture == "sources":
            from calcgpt.inference.cases.decoder import CaseDecoder

            vocabulary = tokenizer.require_characters().vocabulary
            return CaseDecoder(config, vocabulary, checkpoint.arrays)
        from calcgpt.inference.native.decoder import NativeDecoder

        return NativeDecoder(config, len(tokenizer), checkpoint.arrays)
    except CheckpointError as error:
        raise CheckpointError(f"{checkpoint.name}: {error}") from error


def torch_decoder(checkpoint: Checkpoint, threads: int | None = None) -> Decoder:
    """Returns the model itself. `threads` applies to the whole process."""
    require("engine 'torch'", "torch")
    import torch

    if threads:
        torch.set_num_threads(threads)
    return checkpoint.model


ENGINES: dict[str, Engine] = {"native": native_decoder, "torch": torch_decoder}


def load_decoder(
    checkpoint: Checkpoint, engine: str = AUTO, threads: int | None = None
) -> tuple[str, Decoder]:
    """Returns the name of the engine and its decoder.

    Raises UserError as `Engine` does, and ConfigError if there is no engine of that name.
    """
    look_up({AUTO: None, **ENGINES}, engine, "engine")  # raises for an unknown name
    if engine != AUTO:
        return engine, ENGINES[engine](checkpoint, threads)
    try:
        return "native", native_decoder(checkpoint, threads)
    except CheckpointError:  # no engine can run damaged weights
        raise
    except UserError as error:
        log.info("%s decodes with torch, which is slower: %s", checkpoint.name, error)
    return "torch", torch_decoder(checkpoint, threads)
