"""The interface of positional schemes, so that attention has no branch for any of them.

Shapes: B batch, T new tokens, S all tokens (cached and new), C n_embd, H query heads, G key/value
heads, X query and key heads, D head width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from calcgpt.config import ModelConfig

if TYPE_CHECKING:
    from datagen.coordinates import Codes


class PositionalScheme(nn.Module):
    """The interface. One instance serves all layers.

    A scheme overrides the hooks that it uses. By default each hook does nothing.

    `start` is the number of tokens before the first new one: the tokens in the key/value cache.

    A scheme that computes positions from the text does so once per forward pass, in `locate`. The
    result is passed to `embed`, `rotate` and `visible`. Parsing that needs Python code is in
    `parse`, which may be called before a compiled forward pass: Python code would break the graph.
    """

    rotates = False  # whether `rotate` changes anything

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__()

    def parse(self, tokens_BS: torch.Tensor, start: int) -> torch.Tensor | None:
        """Returns what the scheme computes from the text in Python, on the device of the tokens;
        None if there is nothing. Each row of the result belongs to the same row of the batch."""
        return None

    def codes(self, tokens_BS: torch.Tensor) -> Codes | None:
        """Returns the text whose `batch_coordinates` are the result of `parse`, (B, S); None if
        `parse` does not read text."""
        return None

    def locate(
        self, tokens_BS: torch.Tensor, start: int, parsed: torch.Tensor | None = None
    ) -> Any:
        """Returns what `embed`, `rotate` and `visible` need from the text: by default all tokens so
        far, S = start + T. `parsed` is the result of `parse` from 0 on, if it was called before."""
        return tokens_BS

    def embed(self, x_BTC: torch.Tensor, located: Any, start: int) -> torch.Tensor:
        """Adds positions to the token embeddings, (B, T, C)."""
        return x_BTC

    def rotate(self, x_BXTD: torch.Tensor, located: Any, start: int) -> torch.Tensor:
        """Rotates queries and keys, (B, X, T, D), by their position. X = H + G: the heads of the
        queries come first."""
        return x_BXTD

    def keys(self, k_BGTD: torch.Tensor, start: int, layer: int) -> torch.Tensor:
        """Adds positions to the keys of one layer, (B, G, T, D)."""
        return k_BGTD

    def bias(self, n_query: int, start: int) -> torch.Tensor | None:
        """Returns what is added to the scores of every layer, (H or 1, T, S), for T = n_query and
        S = start + n_query, without the causal mask. None means zero."""
        return None

    def scores(self, q_BHTD: torch.Tensor, start: int, layer: int) -> torch.Tensor | None:
        """Returns what is added to the scores of one layer, (B, H, T, S), divided by sqrt(D) as
        the scores are, without the causal mask. None means zero."""
        return None

    def visible(self, located: Any) -> torch.Tensor | None:
        """Returns a mask (B, 1, T, S), True where a query may see a key, without the causal mask.
        None means everywhere."""
        return None
