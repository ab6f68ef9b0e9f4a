"""Engines: what can decode with a checkpoint, by name. Each is imported when it is used."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import CheckpointError, UserError, look_up
from calcgpt.inference.generate import Decoder
from datagen.extras import require

AUTO = "auto"  # the fastest engine that can run the checkpoint

log = logging.getLogger(__name__)


# Makes a decoder for a checkpoint. It uses that many threads of the CPU, by default torch's number.
# Raises UserError if the engine is not installed or cannot run the model.
Engine = Callable[[Checkpoint, int | None], Decoder]


def native_decoder(checkpoint: Checkpoint, threads: int | None = None) -> Decoder:
    """Returns a decoder in machine code, which needs no torch. `threads` has no effect: the decoder
    uses one thread."""
    from calcgpt.inference.native.decoder import NativeDecoder

    config, vocab_size = checkpoint.recipe.model, len(checkpoint.tokenizer)
    try:
        return NativeDecoder(config, vocab_size, checkpoint.arrays)
    except CheckpointError as error:
        raise CheckpointError(f"{checkpoint.name}: {error}") from error


def onnxruntime_decoder(checkpoint: Checkpoint, threads: int | None = None) -> Decoder:
    """Returns a decoder for the CPU. With a cached graph it needs neither onnx nor onnxscript."""
    require("engine 'onnxruntime'", "torch", "onnxruntime")
    from calcgpt.inference.onnx import OnnxDecoder, cached_graph

    return OnnxDecoder(checkpoint.model, cached_graph(checkpoint.model), threads)


def torch_decoder(checkpoint: Checkpoint, threads: int | None = None) -> Decoder:
    """Returns the model itself, or on a GPU a decoder that replays CUDA graphs. `threads` applies
    to the whole process."""
    require("engine 'torch'", "torch")
    import torch

    from calcgpt.inference.graph_decoder import decoder_of

    if threads:
        torch.set_num_threads(threads)
    return decoder_of(checkpoint.model)


ENGINES: dict[str, Engine] = {  # the fastest first
    "native": native_decoder,
    "onnxruntime": onnxruntime_decoder,
    "torch": torch_decoder,
}


def load_decoder(
    checkpoint: Checkpoint,
    engine: str = AUTO,
    threads: int | None = None,
    among: Sequence[str] = tuple(ENGINES),
) -> tuple[str, Decoder]:
    """Returns the name of the engine and its decoder. `auto` means the first engine of `among` that
    can run the model.

    Raises UserError as `Engine` does, and ConfigError if there is no engine of that name.
    """
    if engine != AUTO:
        look_up({AUTO: None, **ENGINES}, engine, "engine")  # raises for an unknown name
        return engine, ENGINES[engine](checkpoint, threads)
    *faster, last = among
    reasons = []
    for name in faster:
        try:
            return load_decoder(checkpoint, name, threads)
        except CheckpointError:  # no engine can run damaged weights
            raise
        except UserError as error:
            reasons.append(str(error))
    level = logging.WARNING if len(faster) > 1 else logging.INFO
    reason = "; ".join(reasons)
    log.log(level, "%s decodes with %s, which is slower: %s", checkpoint.name, last, reason)
    return load_decoder(checkpoint, last, threads)
