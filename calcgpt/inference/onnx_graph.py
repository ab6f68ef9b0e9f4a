"""ONNX: the decoder as one graph with a key/value cache, for prompts and for steps.

Shapes: B sequences, T new tokens, P tokens before them, S = P + T, G key/value heads, D head width,
V vocabulary.

A model as onnxruntime runs it, for decoding: on a CPU, calling its operators takes a fraction of
the microseconds that torch's take.

Shapes: B sequences, T new tokens, P tokens before them, G key/value heads, D head width.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from calcgpt.errors import CheckpointError, ConfigError, missing_extra
from calcgpt.model import GPT, KVCache, LanguageModel

if TYPE_CHECKING:
    import onnx


GRAPH = "model.onnx"
OPSET = 18  # version of ONNX's operators: the one that torch's exporter is written in
TOLERANCE = 1e-4  # of logits, relative to the largest


def require(*libraries: str) -> None:
    """Raise UserError, naming the extra, unless all of these can be imported. To be called before
    any of them is."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # or onnxruntime tells its maker of its use
    for library in libraries:
        try:
            import_module(library)
        except ImportError:
            raise missing_extra("onnx", library) from None


class GraphCache(KVCache):
    """A cache that concatenates instead of writing in place, so that a graph can be traced.

    It begins with the past, tokens (B, P), keys and values (B, G, P, D) by layers; with what the
    model appends it is the present, of the same shapes with S for P.
    """

    def __init__(self, tokens: torch.Tensor, kv: list[torch.Tensor]) -> None:
        self.tokens, self.k, self.v = tokens, kv[::2], kv[1::2]
        self.length = tokens.size(1)

    def append_tokens(self, tokens_BT: torch.Tensor) -> torch.Tensor:
        self.tokens = torch.cat((self.tokens, tokens_BT), dim=1)
        return self.tokens

    def append(
        self, layer: int, k_BGTD: torch.Tensor, v_BGTD: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.k[layer] = torch.cat((self.k[layer], k_BGTD), dim=2)
        self.v[layer] = torch.cat((self.v[layer], v_BGTD), dim=2)
        return self.k[layer], self.v[layer]


class Graph(nn.Module):
    """The model with its cache as inputs and outputs."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, tokens: torch.Tensor, past_tokens: torch.Tensor, past: list[torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        """Logits (B, T, V) of the new tokens, and the cache with them in it. `past`: keys and
        values of each layer in turn."""
        cache = GraphCache(past_tokens, past)
        logits_BTV = self.model(tokens, cache)
        pairs = zip(cache.k, cache.v, strict=True)
        return logits_BTV, cache.tokens, *(part for pair in pairs for part in pair)


def names(model: LanguageModel) -> tuple[list[str], list[str]]:
    """What the graph calls its inputs and its outputs, in their order: the tokens or the logits
    first, then the cache, the present as the past is."""
    layers = range(model.config.n_layer)
    cache = ["tokens", *(f"{part}_{layer}" for layer in layers for part in "kv")]
    past, present = ([f"{time}_{name}" for name in cache] for time in ("past", "present"))
    return ["tokens", *past], ["logits", *present]


def empty_past(model: LanguageModel, batch: int, length: int = 0) -> list[torch.Tensor]:
    """All inputs but the first, for `length` tokens before it, all zeros."""
    config = model.config
    shape = (batch, config.kv_heads, length, config.head_dim)
    kv = [torch.zeros(shape) for _ in range(2 * config.n_layer)]
    return [torch.zeros(batch, length, dtype=torch.int64), *kv]


def to_onnx(model: LanguageModel) -> onnx.ModelProto:
    """The graph of a model, in float32; raises ConfigError for what no graph can hold."""
    if not isinstance(model, GPT):
        raise ConfigError("export to onnx is for architecture 'gpt', which has keys and values")
    if model.scheme.n_token:
        raise ConfigError(
            f"export to onnx does not know attention {model.config.attention!r}, which puts tokens "
            "of its own into the text"
        )
    if model.config.block_size < 4:  # what the example below takes
        raise ConfigError("export to onnx needs a block_size of 4 or more")
    # A size of 0 or 1 would be taken for a constant; 2 stands for any size, 0 and 1 included, as
    # `check` makes sure.
    past_tokens, *past = empty_past(model, batch=2, length=2)
    example = (torch.zeros(2, 2, dtype=torch.int64), past_tokens, past)
    kv_axes = [{0: "batch", 2: "past"} for _ in past]
    shapes = ({0: "batch", 1: "new"}, {0: "batch", 1: "past"}, kv_axes)
    inputs, outputs = names(model)
    graph = Graph(model.with_plain_attention()).eval()
    with _quiet():
        try:
            program = torch.onnx.export(
                graph, example, dynamo=True, dynamic_shapes=shapes, verbose=False,
                input_names=inputs, output_names=outputs, opset_version=OPSET,
                custom_translation_table=_translations(model.config.block_size),
            )  # fmt: skip
        except torch.onnx.OnnxExporterError as error:
            raise ConfigError(f"export to onnx: {_reason(error)}") from None
    assert program is not None
    return _without_notes(program.model_proto)


def check(model: LanguageModel, graph: bytes) -> None:
    """Raise CheckpointError unless `graph` is valid ONNX by which onnxruntime, on the CPU, gives
    the logits of `model` for random sequences: whole, in parts, token by token, alone and in
    batches.
    """
    import onnx
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # errors
    try:
        onnx.checker.check_model(graph, full_check=True)
        session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        error = float(np.max([*_errors(model, session)]))  # unlike Python's, NaN if one is
    except Exception as raised:  # each library has its own types, onnxruntime a dozen
        raise CheckpointError(f"{GRAPH} does not run: {_reason(raised)}") from None
    if not error <= TOLERANCE:  # nor where it is not a number
        raise CheckpointError(
            f"{GRAPH}: onnxruntime's logits differ from the model's by {error:.1e}, relative"
        )


def _errors(model: LanguageModel, session: Any) -> Iterator[float]:
    """The largest difference of logits in each of several batches, over the largest logit."""
    room = model.config.block_size
    rng = torch.Generator().manual_seed(0)
    batches = [(1, [room]), (2, [1] * min(room, 8)), (3, [room // 2, 1, (room - 1) // 2])]
    for batch, lengths in batches:
        parts = [torch.randint(model.vocab_size, (batch, n), generator=rng) for n in lengths]
        with torch.inference_mode():
            tokens_BT = torch.cat(parts, dim=1).to(next(model.parameters()).device)
            expected_BTV = model(tokens_BT).float().cpu().numpy()
        past, logits = [part.numpy() for part in empty_past(model, batch)], []
        inputs, outputs = names(model)
        for part in parts:
            feed = dict(zip(inputs, (part.numpy(), *past), strict=True))
            logits_BTV, *past = session.run(outputs, feed)
            logits.append(logits_BTV)
        difference_BTV = np.concatenate(logits, axis=1) - expected_BTV
        error = float(np.abs(difference_BTV).max())
        yield error and error / float(np.abs(expected_BTV).max())


def _translations(block_size: int) -> dict[Any, Any]:
    """torch's operators that the exporter lacks, or writes in a way that onnxruntime does not know
    again, as functions that write ONNX's."""
    import onnxscript

    op: Any = onnxscript.opset18  # its types know no Python numbers, which it takes

    def cummax(x_BS: Any, dim: int) -> Any:
        """Of int64, along the last of two axes, by doubling: after the step of 2^i, each element is
        the maximum of the 2^(i + 1) that end with it. The second output, the indices, is not made.
        """
        length = op.Shape(x_BS, start=1)
        for i in range((block_size - 1).bit_length()):
            least = op.Constant(value_int=np.iinfo(np.int64).min)
            moved_BS = op.Pad(x_BS, [0, 2**i, 0, 0], least)
            x_BS = op.Max(x_BS, op.Slice(moved_BS, [0], length, [1]))
        return x_BS, x_BS

    def rms_norm(x: Any, shape: Any, weight: Any, eps: float) -> Any:
        """With a division, which onnxruntime makes one operator of; torch's exporter, with a
        reciprocal and a product, gives seven that stay."""
        mean = op.ReduceMean(op.Pow(x, 2.0), [-1], keepdims=1)
        return op.Mul(op.Div(x, op.Sqrt(op.Add(mean, eps))), weight)

    aten = torch.ops.aten
    return {aten.cummax.default: cummax, aten.rms_norm.default: rms_norm}


def _without_notes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The same without the exporter's notes: paths on this machine, and most of the bytes."""
    graph = proto.graph
    for part in (*graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer):
        part.ClearField("metadata_props")
    graph.ClearField("metadata_props")
    return proto


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings and log lines of the exporter, which are about its own insides."""
    loggers = [logging.getLogger(name) for name in ("torch", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def _reason(error: BaseException) -> str:
    """What began it, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split())


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
