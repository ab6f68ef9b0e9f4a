"""The engine that decodes with onnxruntime, on the CPU.

Its operators cost a fraction of the microseconds that torch's take to call. Making a graph for it
takes seconds, so graphs are cached (`calcgpt.inference.cache`).

Shapes: B sequences, T new tokens, P past tokens, G key/value heads, D head width, V vocabulary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from calcgpt import __version__
from calcgpt.inference.cache import cached
from calcgpt.inference.onnx_graph import (
    check,
    input_output_names,
    new_session,
    require_onnx,
    to_onnx,
    zero_past,
)
from calcgpt.model.gpt import LanguageModel

PACKAGE = Path(__file__).parents[1]
SOURCES = ("config.py", "model/**/*.py", "inference/onnx_graph.py")  # what a graph depends on


class OnnxCache:
    """The key/value cache in the form of the graph: tokens (B, P), and keys and values
    (B, G, P, D) by layer."""

    def __init__(self, past: Sequence[npt.NDArray[np.generic]]) -> None:
        self.past = list(past)

    def select(self, rows: torch.Tensor) -> None:
        """Keeps only these rows of the batch. rows: (B',) indices, which may repeat."""
        index = rows.numpy()
        self.past = [part[index] for part in self.past]


class OnnxDecoder:
    """A `Decoder` that onnxruntime runs on the CPU."""

    def __init__(self, model: LanguageModel, graph: bytes, threads: int | None = None) -> None:
        """Loads the model's serialized graph. `threads` of the CPU default to torch's number."""
        self.config = model.config
        self._model = model
        self._inputs, self._outputs = input_output_names(model)
        self._session = new_session(graph, threads)

    def new_cache(self, batch: int, n_token: int) -> OnnxCache:
        """Returns an empty cache for `batch` sequences."""
        return OnnxCache([part.numpy() for part in zero_past(self._model, batch)])

    def __call__(
        self, tokens_BT: torch.Tensor, cache: OnnxCache, last_only: bool = False
    ) -> torch.Tensor:
        """Returns logits (B, T, V), or (B, 1, V) of the last token with `last_only`."""
        feed = dict(zip(self._inputs, (tokens_BT.numpy(), *cache.past), strict=True))
        logits_BTV, *cache.past = self._session.run(self._outputs, feed)
        return torch.from_numpy(logits_BTV[:, -1:] if last_only else logits_BTV)


def cached_graph(model: LanguageModel) -> bytes:
    """Returns the serialized graph of a model from the cache.

    A graph that is not there is made, checked against the model and added. Raises UserError if a
    library is missing, and the errors of `to_onnx` and `check`.
    """
    require_onnx("engine 'onnxruntime'", "onnxruntime")
    return cached(f"{graph_key(model)}.graph", lambda: _new_graph(model), "the graph")


def _new_graph(model: LanguageModel) -> bytes:
    require_onnx("a new graph for onnxruntime", "onnx", "onnxscript")
    graph: bytes = to_onnx(model).SerializeToString()
    check(model, graph)
    return graph


def graph_key(model: LanguageModel, package: Path = PACKAGE) -> str:
    """Returns the SHA-256 of everything that a graph and its check depend on: the model, the code
    in `package`, and the versions of torch and onnxruntime.

    The versions of onnx and onnxscript are not included: a cached graph works without them, and it
    was checked.
    """
    import onnxruntime

    versions = (__version__, torch.__version__, onnxruntime.__version__)
    digest = hashlib.sha256(repr(versions).encode())
    for source in sorted(file for pattern in SOURCES for file in package.glob(pattern)):
        digest.update(repr((source.relative_to(package), source.read_bytes())).encode())
    digest.update(model.config.model_dump_json().encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(repr((name, tensor.dtype, tensor.shape)).encode())
        digest.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
