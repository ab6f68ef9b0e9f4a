"""The weights of a model, laid out once for the kernels, and where each part is.

All weights are one array. The embedding tables come first, then the layers, the final norm and the
head. A norm is its gain followed by its bias, a matrix its bias followed by its panels. A bias that
a model lacks is zeros.

Shapes: C n_embd, V vocabulary, D head width.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calcgpt.config import ModelConfig
from calcgpt.errors import CheckpointError

Floats = NDArray[np.float32]
Tensors = Mapping[str, Floats]  # by their names in model.safetensors

PANEL = 16  # columns
TILE = 6  # rows of a product that are computed at once: their sums fill the registers
CHUNK = 48  # rows that a layer takes at once: their activations and a layer's weights fit in L2

# The entries of a plan: sizes, choices, and offsets into the weights.
(
    N_EMBD,
    N_HEAD,
    N_KV_HEAD,
    HEAD_DIM,
    FF_WIDTH,
    N_LAYER,
    VOCAB_SIZE,
    N_LOGIT,  # the vocabulary, padded
    N_CONTEXT,  # the context, padded
    IS_LAYERNORM,
    HAS_QK_NORM,
    IS_GATED,
    ACTIVATION,
    # the first row of each table below the token embeddings; 0 if the model has no such table
    POSITIONS,
    PLACES,
    ROWS,
    KINDS,
    NEXT_KINDS,
    LAST_PLACE,
    LAST_ID,  # larger token ids are like it, where a scheme reads the text
    ROTATION,
    ROW_WINDOW,  # the rows that are seen on each side, and 1; 0 if all are
    COLUMN_WINDOW,  # the same for columns
    # offsets into the weights
    LAYERS,
    LAYER_SIZE,
    FINAL_NORM,
    HEAD,
    # offsets within a layer
    ATTENTION_NORM,
    QKV,
    Q_NORM,
    K_NORM,
    OUT,
    FF_NORM,
    UP,
    DOWN,
    PLAN_SIZE,
) = range(36)

# What the text says of a token: its kind and that of the next, its row, or 0, the row around which
# it sees others, and the same for columns. The kinds that it sees in all columns are bits.
MARKS = 7
OWN_KIND, KIND_OF_NEXT, OWN_ROW, CENTER_ROW, OWN_COLUMN, CENTER_COLUMN, WHOLE_ROWS = range(MARKS)
FIELD_AXIS = 10_000  # is added to the columns of the question's operands, which are others
NOWHERE = -FIELD_AXIS  # around which it sees others if it has no row or column

NOT_ROTATED, BY_POSITION, BY_ROW = range(3)
RELU, SQUARED_RELU, SIGMOID, SILU, GELU_TANH = range(5)
ACTIVATIONS = {
    "relu": RELU,
    "relu2": SQUARED_RELU,
    "gelu-tanh": GELU_TANH,
    "silu": SILU,
    "glu": SIGMOID,
    "swiglu": SILU,
}


@dataclass(frozen=True)
class Weights:
    """`values` holds all weights; `plan` says how they are to be read."""

    plan: NDArray[np.int64]
    values: Floats


def padded(width: int) -> int:
    """Returns a width rounded up to whole panels."""
    return -(-width // PANEL) * PANEL


def panels(matrix: Floats) -> Floats:
    """Returns a matrix (out, in), as torch stores it, in panels: (padded out / 16, in, 16)."""
    n_out, n_in = matrix.shape
    columns = np.zeros((padded(n_out), n_in), np.float32)
    columns[:n_out] = matrix
    return np.ascontiguousarray(columns.reshape(-1, PANEL, n_in).transpose(0, 2, 1))


def scratch_size(config: ModelConfig) -> int:
    """Returns how many float32 numbers the kernels need beside their arguments."""
    n_qkv = padded((config.n_head + 2 * config.kv_heads) * config.head_dim)
    n_up = padded(config.ff_width) * (2 if config.gated else 1)
    per_row = 2 * padded(config.n_embd) + PANEL + max(n_qkv, n_up)
    n_context = padded(config.block_size)
    is_windowed = config.row_window is not None or config.column_window is not None
    n_hidden = (CHUNK + TILE) * n_context if is_windowed else 0
    return n_context + (CHUNK + TILE) * per_row + TILE * n_context + PANEL + n_hidden


def lay_out(
    config: ModelConfig, vocab_size: int, tensors: Tensors, tables: dict[int, Floats]
) -> Weights:
    """Returns the weights of a model. `tables` are its positional embeddings, each (n, C), by the
    entry of the plan that says where they are.

    Raises CheckpointError if a tensor is missing or has another shape than `config` says.
    """
    reader = Reader(config, tensors)
    layers = [reader.layer(f"blocks.{layer}.") for layer in range(config.n_layer)]
    head = "token_embedding" if config.tie_embeddings else "head"
    tokens = reader.tensor("token_embedding.weight", vocab_size, config.n_embd)
    parts = {
        LAYERS: np.concatenate([part.ravel() for layer in layers for part in layer.values()]),
        FINAL_NORM: reader.norm("norm", config.n_embd),
        HEAD: reader.matrix(head, vocab_size, config.n_embd, "head"),
    }
    plan = np.zeros(PLAN_SIZE, np.int64)
    row = vocab_size
    for entry, table in tables.items():
        plan[entry] = row
        row += len(table)
    _place(plan, parts, row * config.n_embd)
    plan[LAYER_SIZE] = _place(plan, layers[0], 0)
    embeddings = [table.ravel() for table in (tokens, *tables.values())]
    sizes = {
        N_EMBD: config.n_embd,
        N_HEAD: config.n_head,
        N_KV_HEAD: config.kv_heads,
        HEAD_DIM: config.head_dim,
        FF_WIDTH: config.ff_width,
        N_LAYER: config.n_layer,
        VOCAB_SIZE: vocab_size,
        N_LOGIT: padded(vocab_size),
        N_CONTEXT: padded(config.block_size),
        IS_LAYERNORM: config.norm == "layernorm",
        HAS_QK_NORM: config.qk_norm,
        IS_GATED: config.gated,
        ACTIVATION: ACTIVATIONS[config.feedforward],
        ROW_WINDOW: 0 if config.row_window is None else config.row_window + 1,
        COLUMN_WINDOW: 0 if config.column_window is None else config.column_window + 1,
    }
    for entry, size in sizes.items():
        plan[entry] = size
    values = np.concatenate([*embeddings, *parts.values()], dtype=np.float32)
    return Weights(plan, values)


def _place(plan: NDArray[np.int64], parts: dict[int, Floats], offset: int) -> int:
    """Enters the offset of each part into the plan, the first being at `offset`. Returns where the
    last one ends."""
    for entry, part in parts.items():
        plan[entry] = offset
        offset += part.size
    return offset


class Reader:
    """Takes the tensors of a model by name and checks their shapes."""

    def __init__(self, config: ModelConfig, tensors: Tensors) -> None:
        self._config, self._tensors = config, tensors

    def tensor(self, name: str, *shape: int) -> Floats:
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
            up = self.matrix(prefix + "ff.gate_up", 2 * c.ff_width, c.n_embd, parts=2)
        else:
            up = self.matrix(prefix + "ff.up", c.ff_width, c.n_embd)
        no_norm = np.zeros(0, np.float32)
        return {
            ATTENTION_NORM: self.norm(prefix + "attn_norm", c.n_embd),
            QKV: self.matrix(prefix + "attn.qkv", n_qkv, c.n_embd),
            Q_NORM: self.norm(prefix + "attn.q_norm", c.head_dim) if c.qk_norm else no_norm,
            K_NORM: self.norm(prefix + "attn.k_norm", c.head_dim) if c.qk_norm else no_norm,
            OUT: self.matrix(prefix + "attn.out", c.n_embd, c.n_embd),
            FF_NORM: self.norm(prefix + "ff_norm", c.n_embd),
            UP: up,
            DOWN: self.matrix(prefix + "ff.down", c.n_embd, c.ff_width),
        }

    def norm(self, name: str, width: int) -> Floats:
        gain = self.tensor(f"{name}.weight", width)
        has_bias = self._config.norm == "layernorm" and self._config.norm_bias
        bias = self.tensor(f"{name}.bias", width) if has_bias else np.zeros(width, np.float32)
        return np.concatenate((gain, bias))

    def matrix(
        self, name: str, n_out: int, n_in: int, bias_of: str | None = None, parts: int = 1
    ) -> Floats:
        """Returns a bias and a matrix, whose outputs are that many `parts`, each in own panels."""
        bias, bias_name = np.zeros(n_out, np.float32), f"{bias_of or name}.bias"
        if bias_name in self._tensors:
            bias = self.tensor(bias_name, n_out)
        matrix = self.tensor(f"{name}.weight", n_out, n_in)
        width = padded(n_out // parts) - n_out // parts
        biases = [np.pad(part, (0, width)) for part in np.split(bias, parts)]
        matrices = [panels(part).ravel() for part in np.split(matrix, parts)]
        return np.concatenate((*biases, *matrices))
