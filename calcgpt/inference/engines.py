"""What decodes with a checkpoint: engines by name.

onnxruntime runs a graph, which takes seconds to make. It is kept in a folder of the user's:
$CALCGPT_CACHE, or `calcgpt` in $XDG_CACHE_HOME or ~/.cache, in files of a SHA-256 and the graph
that has it.
"""

from __future__ import annotations

import hashlib
import logging
import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

import torch

from calcgpt import __version__
from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import ConfigError, UserError
from calcgpt.inference.generate import Decoder
from calcgpt.inference.onnx_graph import OnnxDecoder, check, require, to_onnx
from calcgpt.model import LanguageModel

AUTO = "auto"  # the fastest that can run the checkpoint
MAX_GRAPHS = 16  # kept; those used least recently go first
PACKAGE = Path(__file__).parents[1]
SOURCES = ("config.py", "model/**/*.py", "inference/onnx_graph.py")  # of what makes a graph
DIGEST_SIZE = hashlib.sha256().digest_size

log = logging.getLogger(__name__)


class Engine(Protocol):
    """A function that makes what `generate` decodes with."""

    def __call__(self, checkpoint: Checkpoint, threads: int | None) -> Decoder:
        """`threads`: of the CPU; None: as many as torch uses. Raises UserError where the engine is
        not installed or cannot run the model."""


def torch_decoder(checkpoint: Checkpoint, threads: int | None = None) -> Decoder:
    """The model itself. Its threads are all of torch's: `torch.set_num_threads` sets them."""
    return checkpoint.model


def onnxruntime_decoder(checkpoint: Checkpoint, threads: int | None = None) -> Decoder:
    """On the CPU. Once the graph is made, onnx and onnxscript need not be installed."""
    require("onnxruntime")
    return OnnxDecoder(checkpoint.model, _graph(checkpoint.model), threads)


def load_decoder(
    checkpoint: Checkpoint, engine: str = AUTO, threads: int | None = None
) -> tuple[str, Decoder]:
    """The name of the engine, and what decodes; `auto` is onnxruntime where it can be had, else
    torch. Raises UserError as `Engine`, ConfigError for a name that there is not."""
    if engine == AUTO:
        try:
            return load_decoder(checkpoint, "onnxruntime", threads)
        except UserError as error:
            log.warning("%s decodes by torch, which is slower: %s", checkpoint.name, error)
            return load_decoder(checkpoint, "torch", threads)
    if engine not in ENGINES:
        names = ", ".join([AUTO, *sorted(ENGINES)])
        raise ConfigError(f"unknown engine {engine!r}; valid names: {names}")
    return engine, ENGINES[engine](checkpoint, threads)


def cache_folder() -> Path:
    """Where graphs are kept; nothing need be there."""
    if folder := os.environ.get("CALCGPT_CACHE"):
        return Path(folder)
    if folder := os.environ.get("XDG_CACHE_HOME"):
        return Path(folder, "calcgpt")
    try:
        return Path.home() / ".cache" / "calcgpt"
    except RuntimeError:  # a user without a home, who can keep nothing
        return Path(os.devnull, "calcgpt")


def _graph(model: LanguageModel) -> bytes:
    """The graph of a model, as it was kept, or made now, compared with the model, and kept."""
    path = cache_folder() / f"{_key(model)}.graph"
    graph = _read(path)
    if graph is None:
        log.info("making a graph for onnxruntime, once: %s", path)
        require("onnx", "onnxscript")
        graph = to_onnx(model).SerializeToString()
        check(model, graph)
        try:
            _write(path, graph)
        except OSError as error:
            log.warning("the graph is not kept, and will be made again: %s", error)
    return graph


def _key(model: LanguageModel) -> str:
    """SHA-256 of the model, and of what a graph of it is made and compared by.

    Versions of onnx and onnxscript are no part of it: they may have gone since, and whatever they
    made was compared.
    """
    import onnxruntime

    versions = (__version__, torch.__version__, onnxruntime.__version__)
    digest = hashlib.sha256(repr(versions).encode())
    for source in sorted(file for pattern in SOURCES for file in PACKAGE.glob(pattern)):
        digest.update(repr((source.relative_to(PACKAGE), source.read_bytes())).encode())
    digest.update(model.config.model_dump_json().encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(repr((name, tensor.dtype, tensor.shape)).encode())
        digest.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def _read(path: Path) -> bytes | None:
    """The graph that is kept there; None where there is none, or not as it was written."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, graph = content[:DIGEST_SIZE], content[DIGEST_SIZE:]
    if hashlib.sha256(graph).digest() != digest:
        log.warning("%s is damaged: it is made anew", path)
        return None
    with suppress(OSError):  # a folder that others fill may be for reading only
        os.utime(path)
    return graph


def _write(path: Path, graph: bytes) -> None:
    """Keep a graph, and not too many others. The file is whole or absent, also where several
    processes write it at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent) as staging:
        staged = Path(staging, path.name)
        staged.write_bytes(hashlib.sha256(graph).digest() + graph)
        staged.replace(path)
    with suppress(OSError):  # another process may be doing the same
        graphs = path.parent.glob(f"*{path.suffix}")
        for old in sorted(graphs, key=lambda file: file.stat().st_mtime)[:-MAX_GRAPHS]:
            old.unlink()


ENGINES: dict[str, Engine] = {
    "torch": torch_decoder,
    "onnxruntime": onnxruntime_decoder,
}
