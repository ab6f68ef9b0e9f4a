"""The weights of a model in the layout of the kernels, and the plan that describes the layout.

All weights are one array: the embedding tables, then the layers, the final norm and the head. A
norm is stored as its gain and then its bias, a matrix as its bias and then its panels. A bias that
the model does not have is stored as zeros.

Matrices are packed in panels of columns, and a product is computed one tile of rows and one panel
at a time, as in GotoBLAS (Goto and van de Geijn 2008).

Shapes: C n_embd.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calcgpt.config import ModelConfig
from calcgpt.errors import CheckpointError
from calcgpt.inference.native import entries as e

Floats = NDArray[np.float32]
Tensors = Mapping[str, Floats]  # by their names in model.safetensors

PANEL = 16  # columns of a matrix that are stored together: the lanes of a vector
TILE = 6  # rows of a product that are computed together: their sums fit in registers
CHUNK = 48  # rows per pass through the layers: their activations and a layer's weights fit in L2


@dataclass(frozen=True)
class Weights:
    """All weights of a model as one array, and the plan, (e.PLAN_SIZE,)."""

    plan: NDArray[np.int64]
    values: Floats


def padded(width: int) -> int:
    """Returns a width rounded up to a multiple of PANEL."""
    return -(-width // PANEL) * PANEL


def pack_panels(matrix: Floats) -> Floats:
    """Returns a matrix (n_out, n_in), as torch stores it, in panels: (n_panel, n_in, PANEL)."""
    n_out, n_in = matrix.shape
    columns = np.zeros((padded(n_out), n_in), np.float32)
    columns[:n_out] = matrix
    return np.ascontiguousarray(columns.reshape(-1, PANEL, n_in).transpose(0, 2, 1))


def scratch_size(config: ModelConfig) -> int:
    """Returns the size of the scratch memory of the kernels, in float32 numbers."""
    n_qkv = padded((config.n_head + 2 * config.kv_heads) * config.head_dim)
    n_up = padded(config.ff_width) * (2 if config.gated else 1)
    per_row = 2 * padded(config.n_embd) + PANEL + max(n_qkv, n_up)
    n_context = padded(config.block_size)
    n_zero = _n_zero(config)
    is_windowed = config.row_window is not None or config.column_window is not None
    n_mask = 2 * (CHUNK + TILE) * (n_context + 2 * PANEL) if is_windowed else 0
    return n_zero + (CHUNK + TILE) * per_row + TILE * n_context + PANEL + n_mask


def _n_zero(config: ModelConfig) -> int:
    return padded(max(config.block_size, config.head_dim))


def pack_weights(
    config: ModelConfig, vocab_size: int, tensors: Tensors, tables: dict[int, Floats]
) -> Weights:
    """Returns the weights of a model. `tables` are its positional embeddings, each (n, C), by the
    plan entry of their first row.

    Raises CheckpointError if a tensor is missing or has another shape than `config` says.
    """
    reader = Reader(config, tensors)
    layers = [reader.layer(f"blocks.{layer}.") for layer in range(config.n_layer)]
    head = "token_embedding" if config.tie_embeddings else "head"
    tokens = reader.tensor("token_embedding.weight", vocab_size, config.n_embd)
    parts = {
        e.LAYERS: np.concatenate([part.ravel() for layer in layers for part in layer.values()]),
        e.FINAL_NORM: reader.norm("norm", config.n_embd),
        e.HEAD: reader.matrix(head, vocab_size, config.n_embd, config.head_bias, bias_of="head"),
    }
    plan = np.zeros(e.PLAN_SIZE, np.int64)
    row = vocab_size
    for entry, table in tables.items():
        plan[entry] = row
        row += len(table)
    _set_offsets(plan, parts, row * config.n_embd)
    plan[e.LAYER_SIZE] = _set_offsets(plan, layers[0], 0)
    embeddings = [table.ravel() for table in (tokens, *tables.values())]
    sizes = {
        e.N_EMBD: config.n_embd,
        e.N_HEAD: config.n_head,
        e.N_KV_HEAD: config.kv_heads,
        e.HEAD_DIM: config.head_dim,
        e.FF_WIDTH: config.ff_width,
        e.N_LAYER: config.n_layer,
        e.VOCAB_SIZE: vocab_size,
        e.N_LOGIT: padded(vocab_size),
        e.N_ZERO: _n_zero(config),
        e.IS_LAYERNORM: config.norm == "layernorm",
        e.HAS_QK_NORM: config.qk_norm,
        e.IS_GATED: config.gated,
        e.ACTIVATION: e.ACTIVATIONS[config.feedforward],
        e.ROW_WINDOW: 0 if config.row_window is None else config.row_window + 1,
        e.COLUMN_WINDOW: 0 if config.column_window is None else config.column_window + 1,
    }
    for entry, size in sizes.items():
        plan[entry] = size
    values = np.concatenate([*embeddings, *parts.values()], dtype=np.float32)
    return Weights(plan, values)


def _set_offsets(plan: NDArray[np.int64], parts: dict[int, Floats], offset: int) -> int:
    """Sets the offset of each part in the plan. The first part starts at `offset`. Returns the end
    of the last part."""
    for entry, part in parts.items():
        plan[entry] = offset
        offset += part.size
    return offset


class Reader:
    """Reads the tensors of a model by name, and converts them to the layout of the kernels.

    All methods raise CheckpointError if a tensor is missing or has another shape than the config
    says.
    """

    def __init__(self, config: ModelConfig, tensors: Tensors) -> None:
        self._config, self._tensors = config, tensors

    def tensor(self, name: str, *shape: int) -> Floats:
        """Returns a tensor of this shape, unchanged."""
        tensor = self._tensors.get(name)
        if tensor is None:
            raise CheckpointError(f"tensor {name!r} is missing")
        if tensor.shape != shape:
            raise CheckpointError(f"tensor {name!r} is {tensor.shape}, the config says {shape}")
        return tensor

    def layer(self, prefix: str) -> dict[int, Floats]:
        """Returns the parts of a layer, in the order in which they are stored."""
        c = self._config
        n_qkv = (c.n_head + 2 * c.kv_heads) * c.head_dim
        if c.gated:
            up = self.matrix(prefix + "ff.gate_up", 2 * c.ff_width, c.n_embd, c.ff_bias, parts=2)
        else:
            up = self.matrix(prefix + "ff.up", c.ff_width, c.n_embd, c.ff_bias)
        no_norm = np.zeros(0, np.float32)
        return {
            e.ATTENTION_NORM: self.norm(prefix + "attn_norm", c.n_embd),
            e.QKV: self.matrix(prefix + "attn.qkv", n_qkv, c.n_embd, c.qkv_bias),
            e.Q_NORM: self.norm(prefix + "attn.q_norm", c.head_dim) if c.qk_norm else no_norm,
            e.K_NORM: self.norm(prefix + "attn.k_norm", c.head_dim) if c.qk_norm else no_norm,
            e.OUT: self.matrix(prefix + "attn.out", c.n_embd, c.n_embd, c.attn_out_bias),
            e.FF_NORM: self.norm(prefix + "ff_norm", c.n_embd),
            e.UP: up,
            e.DOWN: self.matrix(prefix + "ff.down", c.n_embd, c.ff_width, c.ff_bias),
        }

    def norm(self, name: str, width: int) -> Floats:
        """Returns the gain and then the bias of a norm, (2 width,)."""
        gain = self.tensor(f"{name}.weight", width)
        has_bias = self._config.norm == "layernorm" and self._config.norm_bias
        bias = self.tensor(f"{name}.bias", width) if has_bias else np.zeros(width, np.float32)
        return np.concatenate((gain, bias))

    def matrix(
        self,
        name: str,
        n_out: int,
        n_in: int,
        has_bias: bool,
        *,
        bias_of: str | None = None,
        parts: int = 1,
    ) -> Floats:
        """Returns the bias, zeros if there is none, and then the panels of a matrix,
        one-dimensional.

        The outputs are split into `parts` of equal size, each padded to whole panels. The bias is
        that of the module `bias_of`, by default `name`.
        """
        bias = np.zeros(n_out, np.float32)
        if has_bias:
            bias = self.tensor(f"{bias_of or name}.bias", n_out)
        matrix = self.tensor(f"{name}.weight", n_out, n_in)
        n_padding = padded(n_out // parts) - n_out // parts
        biases = [np.pad(part, (0, n_padding)) for part in np.split(bias, parts)]
        matrices = [pack_panels(part).ravel() for part in np.split(matrix, parts)]
        return np.concatenate((*biases, *matrices))
