"""Coupled positions: the place of a digit in its row, and the row, read off the text
(Abacus, McLeish et al. 2024; position coupling, Cho et al. 2024)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from calcgpt.config import ModelConfig
from calcgpt.errors import ConfigError
from calcgpt.model.positions.base import POSITIONS, PositionalScheme
from calcgpt.model.sizes import Sizes


@POSITIONS.register("coupled")
class CoupledPositions(PositionalScheme):
    """One vector for each place, counted from the last token that begins a row (0 is that token
    itself), and one for each kind of row, named by the token that began it.

    Which tokens do, `row_marks` says. Digits of one place in rows of one layout have the same
    place vector wherever they stand, so that one attention pattern serves all rows. Only the text
    so far is looked at. Places from `n_place` on share the last vector. While training, all places
    of a sequence are moved up by one random number up to `place_offset`, so that vectors beyond the
    longest row seen are trained too (McLeish et al. 2024, section 3.1).
    """

    row_of_token: torch.Tensor

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        self.offset = config.place_offset
        self.places = nn.Embedding(config.n_place, config.n_embd)
        self.rows = nn.Embedding(len(config.row_marks) + 1, config.n_embd)
        # Token id -> number of its row, from 1; 0: it begins none, as all tokens beyond the table.
        row_of_token = torch.zeros(max(config.row_marks, default=-1) + 2, dtype=torch.int64)
        row_of_token[config.row_marks] = torch.arange(1, len(config.row_marks) + 1)
        self.register_buffer("row_of_token", row_of_token, persistent=False)

    @classmethod
    def check(cls, config: ModelConfig) -> None:
        super().check(config)
        if len(set(config.row_marks)) < len(config.row_marks):
            raise ConfigError("row_marks must be different token ids")
        if config.place_offset >= config.n_place:
            raise ConfigError(
                f"place_offset {config.place_offset} must be below n_place {config.n_place}"
            )

    @classmethod
    def count(cls, config: ModelConfig, s: Sizes) -> Any:
        return super().count(config, s) + (s.P + s.R) * s.C

    def embed(self, x_BTC: torch.Tensor, tokens_BS: torch.Tensor, start: int) -> torch.Tensor:
        places_BS, rows_BS = self.coordinates(tokens_BS)
        if self.training and self.offset:
            offset_B1 = torch.randint(self.offset + 1, (len(x_BTC), 1), device=x_BTC.device)
            places_BS = (places_BS + offset_B1).clamp(max=self.places.num_embeddings - 1)
        x_BTC = x_BTC + self.places(places_BS[:, start:]) + self.rows(rows_BS[:, start:])
        return x_BTC

    def coordinates(self, tokens_BS: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Place and row of every token, each int64 (B, S)."""
        row_BS = self.row_of_token[tokens_BS.clamp(max=len(self.row_of_token) - 1)]
        index_S = torch.arange(tokens_BS.size(1), device=tokens_BS.device)
        last_mark_BS = torch.cummax(index_S * (row_BS > 0), dim=1)[0]
        places_BS = (index_S - last_mark_BS).clamp(max=self.places.num_embeddings - 1)
        return places_BS, row_BS.gather(1, last_mark_BS)
