"""A model as onnxruntime runs it, for decoding: on a CPU, calling its operators takes a fraction of
the microseconds that torch's take.

Shapes: B sequences, T new tokens, P tokens before them, G key/value heads, D head width.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from calcgpt.export.onnx import empty_past, names, require, to_onnx
from calcgpt.model import LanguageModel


class OnnxCache:
    """The cache as the graph wants and gives it: tokens (B, P), keys and values (B, G, P, D) by
    layers."""

    def __init__(self, past: Sequence[npt.NDArray[np.generic]]) -> None:
        self.past = list(past)

    def select(self, rows: torch.Tensor) -> None:
        """Keep only these rows of the batch, rows: (B',) indices, which may repeat."""
        index = rows.numpy()
        self.past = [part[index] for part in self.past]


class OnnxDecoder:
    """What `generate` needs of a model, from onnxruntime on the CPU."""

    def __init__(
        self, model: LanguageModel, graph: bytes | None = None, threads: int | None = None
    ) -> None:
        """`graph`: what `to_onnx` made of the model, serialized; None: it is made here. `threads`
        of the CPU; None: as many as torch uses.

        Raises UserError where onnxruntime is missing, ConfigError where no graph can hold the
        model.
        """
        require("onnxruntime")
        import onnxruntime

        # Of the session's options no other value decodes faster, nor does binding its inputs.
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or torch.get_num_threads()
        options.log_severity_level = 3  # errors
        self.config = model.config
        self._model = model
        self._inputs, self._outputs = names(model)
        self._session = onnxruntime.InferenceSession(
            to_onnx(model).SerializeToString() if graph is None else graph,
            options,
            providers=["CPUExecutionProvider"],
        )

    def new_cache(self, batch: int, n_token: int) -> OnnxCache:
        """An empty cache for `batch` sequences."""
        return OnnxCache([part.numpy() for part in empty_past(self._model, batch)])

    def __call__(
        self, tokens_BT: torch.Tensor, cache: OnnxCache, last_only: bool = False
    ) -> torch.Tensor:
        """Logits (B, T, V), or (B, 1, V) of the last token with `last_only`."""
        feed = dict(zip(self._inputs, (tokens_BT.numpy(), *cache.past), strict=True))
        logits_BTV, *cache.past = self._session.run(self._outputs, feed)
        return torch.from_numpy(logits_BTV[:, -1:] if last_only else logits_BTV)
