"""ONNX: a model as one graph with a key/value cache, and the engine that decodes with it.

One graph reads prompts and single tokens. onnxruntime runs it on the CPU: its operators cost a
fraction of the microseconds that torch's take to call. Making a graph takes seconds, so graphs are
cached (`calcgpt.inference.cache`). The libraries onnx, onnxscript and onnxruntime belong to the
extra `onnx` and are imported where they are used.

Shapes: B sequences, T new tokens, P past tokens, S = P + T, G key/value heads, D head width,
V vocabulary.
"""

from __future__ import annotations

import hashlib
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from calcgpt import __version__
from calcgpt.errors import CheckpointError, ConfigError, one_line
from calcgpt.inference.cache import cached
from calcgpt.inference.drafts import device_of
from calcgpt.model.attention import KVCache
from calcgpt.model.gpt import GPT, LanguageModel
from datagen.extras import require

if TYPE_CHECKING:
    import onnx
    import onnxruntime


GRAPH = "model.onnx"
OPSET = 18  # the version of ONNX's operators that torch's exporter is written for
TOLERANCE = 1e-4  # of logits, relative to the largest
PACKAGE = Path(__file__).parents[1]
SOURCES = ("config.py", "model/**/*.py", "inference/onnx.py")  # what a graph depends on


def require_onnx(what: str, *libraries: str) -> None:
    """Raises UserError if libraries are missing. Call this before the first import of
    onnxruntime."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime reads it when imported
    require(what, *libraries)


class GraphCache(KVCache):
    """A cache that concatenates instead of writing in place, so that a graph can be traced.

    It starts with the past: tokens (B, P), and keys and values (B, G, P, D) by layer. When the
    model has appended to it, it is the present: the same with S in place of P.
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
    """A model with its cache as inputs and outputs."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, tokens: torch.Tensor, past_tokens: torch.Tensor, past: list[torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        """Returns the logits (B, T, V) of the new tokens, followed by the extended cache.

        `past` holds the keys and values of the layers in turn.
        """
        cache = GraphCache(past_tokens, past)
        logits_BTV = self.model(tokens, cache)
        pairs = zip(cache.k, cache.v, strict=True)
        return logits_BTV, cache.tokens, *(part for pair in pairs for part in pair)


def input_output_names(model: LanguageModel) -> tuple[list[str], list[str]]:
    """Returns the names of the graph's inputs and outputs in order: first the tokens or the logits,
    then the past or the present, which correspond."""
    layers = range(model.config.n_layer)
    cache = ["tokens", *(f"{part}_{layer}" for layer in layers for part in "kv")]
    past, present = ([f"{time}_{name}" for name in cache] for time in ("past", "present"))
    return ["tokens", *past], ["logits", *present]


def zero_past(model: LanguageModel, batch: int, length: int = 0) -> list[torch.Tensor]:
    """Returns all inputs except the first, for `length` past tokens, filled with zeros."""
    config = model.config
    shape = (batch, config.kv_heads, length, config.head_dim)
    kv = [torch.zeros(shape) for _ in range(2 * config.n_layer)]
    return [torch.zeros(batch, length, dtype=torch.int64), *kv]


def to_onnx(model: LanguageModel) -> onnx.ModelProto:
    """Returns the graph of a model, in float32. Raises ConfigError if ONNX cannot express it."""
    if not isinstance(model, GPT):
        raise ConfigError("export to onnx is for architecture 'gpt', which has keys and values")
    if model.scheme.n_inserted_ids:
        raise ConfigError(
            f"export to onnx does not support attention {model.config.attention!r}, which inserts "
            "tokens of its own into the text"
        )
    if model.config.position == "coordinates":
        raise ConfigError(
            "export to onnx does not support position 'coordinates', which reads the text"
        )
    if model.config.block_size < 4:  # the length of the example below
        raise ConfigError("export to onnx needs a block_size of 4 or more")
    # The exporter takes a size of 0 or 1 for a constant. A size of 2 stands for any size; that
    # 0 and 1 work too is what `check` verifies.
    past_tokens, *past = zero_past(model, batch=2, length=2)
    example = (torch.zeros(2, 2, dtype=torch.int64), past_tokens, past)
    kv_axes = [{0: "batch", 2: "past"} for _ in past]
    inputs, outputs = input_output_names(model)
    # torch caches the shapes that its operators return, which takes longer than computing them.
    uncached = torch._dynamo.config.patch(fake_tensor_cache_enabled=False)
    with _quiet(), uncached:
        try:
            program = torch.onnx.export(
                Graph(model.with_plain_attention()).eval(),
                example,
                dynamo=True,
                dynamic_shapes=({0: "batch", 1: "new"}, {0: "batch", 1: "past"}, kv_axes),
                verbose=False,
                input_names=inputs,
                output_names=outputs,
                opset_version=OPSET,
                custom_translation_table=_translations(model.config.block_size),
            )
        except torch.onnx.OnnxExporterError as error:
            raise ConfigError(f"export to onnx: {_root_cause(error)}") from None
    assert program is not None
    return _without_metadata(program.model_proto)


def check(model: LanguageModel, graph: bytes) -> None:
    """Raises CheckpointError unless `graph` is valid ONNX and onnxruntime, on the CPU, computes the
    logits of `model` with it.

    The logits are compared on random sequences: whole, in parts, token by token, alone and in
    batches.
    """
    import onnx

    try:
        onnx.checker.check_model(graph, full_check=True)
        session = new_session(graph)
        error = float(np.max([*_logit_errors(model, session)]))  # NaN if any is, unlike max()
    except Exception as cause:  # onnx and onnxruntime have a dozen exceptions without a base class
        raise CheckpointError(f"{GRAPH} does not run: {_root_cause(cause)}") from None
    if not error <= TOLERANCE:  # also if it is NaN
        raise CheckpointError(
            f"{GRAPH}: onnxruntime's logits differ from the model's by {error:.1e}, relative"
        )


def new_session(graph: bytes, threads: int | None = None) -> onnxruntime.InferenceSession:
    """Loads a serialized graph for the CPU. `threads` defaults to torch's number."""
    import onnxruntime

    # No other option makes decoding faster, nor does binding the inputs.
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or torch.get_num_threads()
    options.log_severity_level = 3  # errors
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _logit_errors(model: LanguageModel, session: onnxruntime.InferenceSession) -> Iterator[float]:
    """Yields, for several batches, the largest difference of logits, relative to the largest."""
    block_size = model.config.block_size
    rng = torch.Generator().manual_seed(0)
    batches = [
        (1, [block_size]),
        (2, [1] * min(block_size, 8)),
        (3, [block_size // 2, 1, (block_size - 1) // 2]),
    ]
    for batch, lengths in batches:
        parts = [torch.randint(model.vocab_size, (batch, n), generator=rng) for n in lengths]
        with torch.inference_mode():
            tokens_BT = torch.cat(parts, dim=1).to(device_of(model))
            expected_BTV = model(tokens_BT).float().cpu().numpy()
        past, logits = [part.numpy() for part in zero_past(model, batch)], []
        inputs, outputs = input_output_names(model)
        for part in parts:
            feed = dict(zip(inputs, (part.numpy(), *past), strict=True))
            logits_BTV, *past = session.run(outputs, feed)
            logits.append(logits_BTV)
        difference_BTV = np.concatenate(logits, axis=1) - expected_BTV
        error = float(np.abs(difference_BTV).max())
        yield error and error / float(np.abs(expected_BTV).max())


def _translations(block_size: int) -> dict[Any, Any]:
    """Returns functions that write ONNX for operators of torch that the exporter lacks or writes in
    a form that onnxruntime does not optimise."""
    import onnxscript

    op: Any = onnxscript.opset18  # its annotations do not allow the Python numbers it accepts

    def cummax(x_BS: Any, dim: int) -> Any:
        """The running maximum of int64 along the last of two axes, by doubling.

        After the step of 2^i each element is the maximum of the 2^(i + 1) that end with it. The
        second output, the indices, is not computed.
        """
        length = op.Shape(x_BS, start=1)
        for i in range((block_size - 1).bit_length()):
            least = op.Constant(value_int=np.iinfo(np.int64).min)
            moved_BS = op.Pad(x_BS, [0, 2**i, 0, 0], least)
            x_BS = op.Max(x_BS, op.Slice(moved_BS, [0], length, [1]))
        return x_BS, x_BS

    def rms_norm(x: Any, shape: Any, weight: Any, eps: float) -> Any:
        """RMSNorm with a division, which onnxruntime fuses into one operator. The exporter's
        reciprocal and product stay seven operators."""
        mean = op.ReduceMean(op.Pow(x, 2.0), [-1], keepdims=1)
        return op.Mul(op.Div(x, op.Sqrt(op.Add(mean, eps))), weight)

    aten = torch.ops.aten
    return {aten.cummax.default: cummax, aten.rms_norm.default: rms_norm}


def _without_metadata(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Removes the exporter's notes: they hold paths of this machine and are most of the bytes."""
    graph = proto.graph
    for part in (*graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer):
        part.ClearField("metadata_props")
    graph.ClearField("metadata_props")
    return proto


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses the exporter's warnings and log lines, which concern its internals."""
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


def _root_cause(error: BaseException) -> str:
    """Returns the message of the first error in the chain, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return one_line(error)


class OnnxCache:
    """The key/value cache in the form of the graph: tokens (B, P), and keys and values
    (B, G, P, D) by layer."""

    def __init__(self, past: Sequence[NDArray[np.generic]]) -> None:
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
    library is missing, ConfigError if `check` refuses the graph, and the errors of `to_onnx`.
    """
    require_onnx("engine 'onnxruntime'", "onnxruntime")
    return cached(f"{graph_key(model)}.graph", lambda: _new_graph(model), "the graph")


def _new_graph(model: LanguageModel) -> bytes:
    require_onnx("a new graph for onnxruntime", "onnx", "onnxscript")
    graph: bytes = to_onnx(model).SerializeToString()
    try:
        check(model, graph)
    except CheckpointError as error:  # the graph is wrong, and the checkpoint is not
        raise ConfigError(str(error)) from error
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
