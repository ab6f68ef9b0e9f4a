"""Export to ONNX: a graph, its vocabulary, and a README with code that answers problems.

One graph with a key/value cache as inputs and outputs reads prompts and single tokens.

Shapes: B sequences, T new tokens, P past tokens, S = P + T, G key/value heads, D head width,
V vocabulary.
"""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from calcgpt.checkpoint import CARD, TOKENIZER, Checkpoint, check_replaceable, model_card
from calcgpt.errors import CheckpointError, ConfigError, one_line
from calcgpt.export.hf import EXAMPLE_PROMPT
from calcgpt.model.attention import KVCache
from calcgpt.model.base import LanguageModel
from calcgpt.model.gpt import GPT
from datagen.extras import require
from datagen.files import new_folder, write_bytes, write_text

if TYPE_CHECKING:
    import onnx
    import onnxruntime

GRAPH = "model.onnx"
OPSET = 18  # the version of ONNX's operators that torch's exporter is written for
TOLERANCE = 1e-4  # of logits, relative to the largest
USE = Path(__file__).with_name("onnx_readme.md")  # of an export, below the card of the model
LONG_TOKENS = """: a token may be
longer than a character, and is written as GPT-2 writes it, each byte as one visible character; a
prompt is a list of them"""


def export_onnx(checkpoint: Checkpoint, out: Path, force: bool) -> str:
    """Writes model.onnx, tokenizer.json and README.md; see `calcgpt.export.Exporter`."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime reads it when imported
    require("export to onnx", "onnxruntime", "onnx", "onnxscript")
    check_replaceable(out, force, GRAPH, TOKENIZER)
    with new_folder(out) as staging:
        write_bytes(staging / GRAPH, to_onnx(checkpoint.model).SerializeToString())
        check(checkpoint.model, (staging / GRAPH).read_bytes())
        write_text(staging / TOKENIZER, checkpoint.tokenizer.to_json())
        write_text(staging / CARD, onnx_card(out.name, checkpoint))
    return "an ONNX graph with a key/value cache"


def onnx_card(folder: str, checkpoint: Checkpoint) -> str:
    """Returns the README in Markdown.

    Its one block of Python, run in the folder, defines `complete`, which does the same as
    `calcgpt.inference.generate` at temperature 0, and prints its output for one prompt.
    """
    config, tokenizer = checkpoint.model.config, checkpoint.tokenizer
    vocabulary = json.loads(tokenizer.to_json())["vocabulary"]
    solves = tokenizer.is_notation(EXAMPLE_PROMPT)
    card = model_card(folder, checkpoint.recipe, checkpoint.metrics, "of the checkpoint")
    return f"{card}\n" + USE.read_text("utf-8").format(
        name=checkpoint.name,
        tokens="" if tokenizer.is_char_level else LONG_TOKENS,
        L=config.n_layer,
        G=config.kv_heads,
        D=config.head_dim,
        V=len(tokenizer),
        context=config.block_size,
        stop="$" if solves else None,
        end="up to and including `$`" if solves else "to the end of the context",
        # A model of other text than problems continues any token.
        prompt=EXAMPLE_PROMPT if solves else [vocabulary[0]],
    )


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
    import onnxruntime

    try:
        onnx.checker.check_model(graph, full_check=True)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors
        session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        error = float(np.max([*_logit_errors(model, session)]))  # NaN if any is, unlike max()
    except Exception as cause:  # onnx and onnxruntime have a dozen exceptions without a base class
        raise CheckpointError(f"{GRAPH} does not run: {_root_cause(cause)}") from None
    if not error <= TOLERANCE:  # also if it is NaN
        raise CheckpointError(
            f"{GRAPH}: onnxruntime's logits differ from the model's by {error:.1e}, relative"
        )


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
            expected_BTV = model(torch.cat(parts, dim=1)).numpy()
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
    """Returns functions that write ONNX for operators of torch that the exporter lacks."""
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

    return {torch.ops.aten.cummax.default: cummax}


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
    logging.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def _root_cause(error: BaseException) -> str:
    """Returns the message of the first error in the chain, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return one_line(error)
