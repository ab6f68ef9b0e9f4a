"""The key/value cache of decoding: preallocated, so that a step copies only its own token."""

from __future__ import annotations

import torch

from calcgpt.config import ModelConfig


class KVCache:
    """Keys and values of every layer, each (n_layer, B, n_kv_head, capacity, head_dim), and the
    tokens themselves, (B, capacity), from which some positional schemes read where they are.

    `length` is the number of tokens all layers hold; the model advances it after a forward pass.
    """

    def __init__(
        self,
        config: ModelConfig,
        batch: int,
        capacity: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        shape = (config.n_layer, batch, config.kv_heads, capacity, config.head_dim)
        self.k = torch.empty(shape, device=device, dtype=dtype)
        self.v = torch.empty(shape, device=device, dtype=dtype)
        self.tokens = torch.empty((batch, capacity), device=device, dtype=torch.int64)
        self.length = 0

    def append_tokens(self, tokens_BT: torch.Tensor) -> torch.Tensor:
        """Store the new tokens; return all tokens so far, (B,S)."""
        stop = self.length + tokens_BT.size(1)
        self.tokens[:, self.length : stop] = tokens_BT
        return self.tokens[:, :stop]

    def append(
        self, layer: int, k_BHTD: torch.Tensor, v_BHTD: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store the new tokens of one layer; return all of its keys and values so far."""
        stop = self.length + k_BHTD.size(2)
        self.k[layer, :, :, self.length : stop] = k_BHTD
        self.v[layer, :, :, self.length : stop] = v_BHTD
        return self.k[layer, :, :, :stop], self.v[layer, :, :, :stop]

    def select(self, rows: torch.Tensor) -> None:
        """Keep only these rows of the batch, rows: (B',) indices."""
        self.k = self.k[:, rows]
        self.v = self.v[:, rows]
        self.tokens = self.tokens[rows]
