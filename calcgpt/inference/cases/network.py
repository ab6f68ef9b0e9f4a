"""The network of `calcgpt_lab.model.sources` on cases, in NumPy: any number of them at once.

Keys and values are projections of embeddings, so they are tables, made once.

Shapes: N cases, R sources, C n_embd, H heads, D head width, F feed-forward width, V tokens,
X rows of tables: one for each source and token.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcgpt.base.errors import ConfigError, DataError
from calcgpt.config import ModelConfig
from calcgpt.errors import CheckpointError
from datagen.slots import MAX_SOURCES, N_KINDS

Floats = NDArray[np.float32]
Ints = NDArray[Any]  # of any whole type

EPS = np.float32(1e-6)  # of RMSNorm
SUPPORTED: dict[str, object] = {
    "architecture": "sources",
    "feedforward": "swiglu",
    "norm": "rmsnorm",
    "norm_position": "pre",
    "qk_norm": True,
    "tie_embeddings": False,
    "qkv_bias": False,
    "attn_out_bias": False,
    "ff_bias": False,
    "head_bias": False,
}


def unsupported_part(config: ModelConfig) -> str | None:
    """Returns which field of a config the network does not support; None if it supports all."""
    for field, value in SUPPORTED.items():
        if getattr(config, field) != value:
            return f"{field} {getattr(config, field)!r}"
    return None


def rms_norm(x: NDArray[Any]) -> Floats:
    """Returns vectors divided by their root mean square, without a gain."""
    mean: Floats = np.add.reduce(x * x, axis=-1, keepdims=True) / x.shape[-1]
    normed: Floats = x / np.sqrt(mean + EPS)
    return normed


def shapes(config: ModelConfig, vocab_size: int) -> dict[str, tuple[int, ...]]:
    """Returns the names and shapes of the weights."""
    C, D, F, V = config.n_embd, config.head_dim, config.ff_width, vocab_size
    layer = {
        "attn_norm.weight": (C,),
        "attn.q.weight": (C, C),
        "attn.kv.weight": (2 * config.kv_heads * D, C),
        "attn.q_norm.weight": (D,),
        "attn.k_norm.weight": (D,),
        "attn.sink": (config.n_head,),
        "attn.out.weight": (C, C),
        "ff_norm.weight": (C,),
        "ff.gate_up.weight": (2 * F, C),
        "ff.down.weight": (C, F),
    }
    layers = range(config.n_layer)
    return {
        "token_embedding.weight": (V, C),
        "roles.weight": (MAX_SOURCES, C),
        "kinds.weight": (N_KINDS, C),
        "source_norm.weight": (C,),
        **{f"blocks.{i}.{name}": shape for i in layers for name, shape in layer.items()},
        "norm.weight": (C,),
        "head.weight": (V, C),
    }


class Layer(NamedTuple):
    """The matrices and tables of a layer. Gains of norms are in the matrices after them."""

    q_CC: Floats
    k_XHD: Floats
    v_XHD: Floats
    sink_H: Floats
    out_CC: Floats
    gate_up: Floats
    down: Floats


def _quiet() -> np.errstate:
    """Returns a block without NumPy's warnings: a sigmoid may overflow, and logits are checked."""
    return np.errstate(over="ignore", invalid="ignore")


class Network:
    """The network with the weights of a checkpoint."""

    def __init__(self, config: ModelConfig, vocab_size: int, tensors: Mapping[str, Floats]) -> None:
        """Raises ConfigError for a model of another form, and CheckpointError if a tensor is
        missing or has another shape."""
        if part := unsupported_part(config):
            raise ConfigError(f"engine 'cases' does not support {part}: use 'torch'")
        for name, shape in shapes(config, vocab_size).items():
            if name not in tensors or tensors[name].shape != shape:
                raise CheckpointError(f"tensor {name!r} is missing or is not {shape}")
        self._n_head, self.vocab_size = config.n_head, vocab_size
        with _quiet():
            sums_RVC = tensors["token_embedding.weight"] + tensors["roles.weight"][:, None]
            normed_XC = rms_norm(sums_RVC.reshape(-1, config.n_embd))
            sources_XC = normed_XC * tensors["source_norm.weight"]
            self._kinds_KC = tensors["kinds.weight"]
            self._layers = [
                _layer(config, tensors, f"blocks.{layer}", sources_XC)
                for layer in range(config.n_layer)
            ]
            self._head_CV = _transposed(tensors["head.weight"] * tensors["norm.weight"])

    def __call__(self, kinds_N: Ints, tokens_NR: Ints) -> Floats:
        """Returns the logits of the next token in each case, (N, V). Tokens are -1 for none. Raises
        DataError if they are not finite."""
        with _quiet():
            logits_NV = self._logits(kinds_N, tokens_NR)
        if not np.isfinite(logits_NV).all():
            raise DataError("the model's logits are not finite")
        return logits_NV

    def _logits(self, kinds_N: Ints, tokens_NR: Ints) -> Floats:
        rows_NR = tokens_NR + self.vocab_size * np.arange(MAX_SOURCES)
        hidden_NR1 = (tokens_NR < 0)[..., None]
        N, H = len(kinds_N), self._n_head
        x_NC = self._kinds_KC[kinds_N]
        for q_CC, k_XHD, v_XHD, sink_H, out_CC, gate_up, down in self._layers:
            q_N1HD = rms_norm((rms_norm(x_NC) @ q_CC).reshape(N, 1, H, -1))
            scores_NRH = np.add.reduce(q_N1HD * k_XHD[rows_NR], axis=-1)
            scores_NRH = np.where(hidden_NR1, -np.inf, scores_NRH)
            top_N1H = np.maximum(scores_NRH.max(axis=1, keepdims=True), sink_H)
            weights_NRH = np.exp(scores_NRH - top_N1H)
            total_N1H = weights_NRH.sum(axis=1, keepdims=True) + np.exp(sink_H - top_N1H)
            weights_NRH /= total_N1H
            mixed_NHD = (weights_NRH[..., None] * v_XHD[rows_NR]).sum(axis=1)
            x_NC = x_NC + mixed_NHD.reshape(N, -1) @ out_CC
            both_N2F = (rms_norm(x_NC) @ gate_up).reshape(N, 2, -1)
            gate_NF, up_NF = both_N2F[:, 0], both_N2F[:, 1]
            x_NC = x_NC + (gate_NF / (1 + np.exp(-gate_NF)) * up_NF) @ down
        logits_NV: Floats = rms_norm(x_NC) @ self._head_CV
        return logits_NV


def _layer(config: ModelConfig, w: Mapping[str, Floats], name: str, sources_XC: Floats) -> Layer:
    """Returns a layer. The gain and the scale of the queries are in the keys."""
    H, G, D = config.n_head, config.kv_heads, config.head_dim
    kv_X2GD = (sources_XC @ w[f"{name}.attn.kv.weight"].T).reshape(-1, 2, G, D)
    gain_D = w[f"{name}.attn.k_norm.weight"] * w[f"{name}.attn.q_norm.weight"]
    k_XGD: Floats = rms_norm(kv_X2GD[:, 0]) * gain_D * np.float32(D**-0.5)
    return Layer(
        q_CC=_transposed(w[f"{name}.attn.q.weight"] * w[f"{name}.attn_norm.weight"]),
        k_XHD=k_XGD.repeat(H // G, axis=1),
        v_XHD=kv_X2GD[:, 1].repeat(H // G, axis=1),
        sink_H=w[f"{name}.attn.sink"],
        out_CC=_transposed(w[f"{name}.attn.out.weight"]),
        gate_up=_transposed(w[f"{name}.ff.gate_up.weight"] * w[f"{name}.ff_norm.weight"]),
        down=_transposed(w[f"{name}.ff.down.weight"]),
    )


def _transposed(matrix: Floats) -> Floats:
    return np.ascontiguousarray(matrix.T)
