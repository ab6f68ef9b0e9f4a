"""The key/value cache of decoding: preallocated, so that a step copies only its own token."""

from __future__ import annotations

import torch

from calcgpt.config import ModelConfig


class KVCache:
    """Keys and values of every layer, each (B, n_kv_head, capacity, head_dim), and the tokens
    themselves, (B, capacity), from which some positional schemes read where they are.

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
        shape = (batch, config.kv_heads, capacity, config.head_dim)
        layers = range(config.n_layer)
        self.k = [torch.empty(shape, device=device, dtype=dtype) for _ in layers]
        self.v = [torch.empty(shape, device=device, dtype=dtype) for _ in layers]
        self.tokens = torch.empty((batch, capacity), device=device, dtype=torch.int64)
        self.length = 0

    def append_tokens(self, tokens_BT: torch.Tensor) -> torch.Tensor:
        """Store the new tokens; return all tokens so far, (B,S)."""
        return _append(self.tokens, tokens_BT, self.length, dim=1)

    def append(
        self, layer: int, k_BGTD: torch.Tensor, v_BGTD: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store the new tokens of one layer; return all of its keys and values so far."""
        k_BGSD = _append(self.k[layer], k_BGTD, self.length, dim=2)
        v_BGSD = _append(self.v[layer], v_BGTD, self.length, dim=2)
        return k_BGSD, v_BGSD

    def select(self, rows: torch.Tensor) -> None:
        """Keep only these rows of the batch, rows: (B',) indices, which may repeat."""
        self.k = [_select(k, rows, self.length, dim=2) for k in self.k]
        self.v = [_select(v, rows, self.length, dim=2) for v in self.v]
        self.tokens = _select(self.tokens, rows, self.length, dim=1)


def _append(store: torch.Tensor, new: torch.Tensor, length: int, dim: int) -> torch.Tensor:
    """Write `new` behind the first `length` of `store` along `dim`; return all there is now."""
    n_new = new.size(dim)
    store.narrow(dim, length, n_new).copy_(new)
    return store.narrow(dim, 0, length + n_new)


def _select(store: torch.Tensor, rows: torch.Tensor, length: int, dim: int) -> torch.Tensor:
    """These rows of `store`, of which only the first `length` along `dim` are filled."""
    selected = store.new_empty((len(rows), *store.shape[1:]))
    selected.narrow(dim, 0, length).copy_(store.narrow(dim, 0, length)[rows])
    return selected
