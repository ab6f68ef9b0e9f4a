"""Engines: the libraries that can decode with a checkpoint, by name."""

from __future__ import annotations

import logging
from typing import Protocol

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import ConfigError, UserError
from calcgpt.inference.generate import Decoder
from calcgpt.inference.onnx_engine import OnnxDecoder, cached_graph

AUTO = "auto"  # the fastest engine that can run the checkpoint

log = logging.getLogger(__name__)


class Engine(Protocol):
    """A function that makes a decoder for a checkpoint."""

    def __call__(self, checkpoint: Checkpoint, threads: int | None) -> Decoder:
        """Returns a decoder that uses `threads` of the CPU, by default torch's number.

        Raises UserError if the engine is not installed or cannot run the model.
        """


def torch_decoder(checkpoint: Checkpoint, threads: int | None = None) -> Decoder:
    """Returns the model itself. `threads` has no effect: torch has one number for the process, set
    by `torch.set_num_threads`."""
    return checkpoint.model


def onnxruntime_decoder(checkpoint: Checkpoint, threads: int | None = None) -> Decoder:
    """Returns a decoder for the CPU. With a cached graph it needs neither onnx nor onnxscript."""
    return OnnxDecoder(checkpoint.model, cached_graph(checkpoint.model), threads)


ENGINES: dict[str, Engine] = {"torch": torch_decoder, "onnxruntime": onnxruntime_decoder}


def load_decoder(
    checkpoint: Checkpoint, engine: str = AUTO, threads: int | None = None
) -> tuple[str, Decoder]:
    """Returns the name of the engine and its decoder. `auto` is onnxruntime if it can run the
    model, otherwise torch.

    Raises UserError as `Engine` does, and ConfigError if there is no engine of that name.
    """
    if engine == AUTO:
        try:
            return load_decoder(checkpoint, "onnxruntime", threads)
        except UserError as error:
            log.warning("%s decodes with torch, which is slower: %s", checkpoint.name, error)
            return load_decoder(checkpoint, "torch", threads)
    if engine not in ENGINES:
        names = ", ".join([AUTO, *sorted(ENGINES)])
        raise ConfigError(f"unknown engine {engine!r}; valid names: {names}")
    return engine, ENGINES[engine](checkpoint, threads)
