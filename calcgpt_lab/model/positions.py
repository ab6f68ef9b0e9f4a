"""The positional schemes that read places off the text, and the table of all.

Shapes: B batch, T new tokens, S all tokens (cached and new), C n_embd.
"""

import torch
from torch import nn

from calcgpt.config import ModelConfig
from calcgpt.variants import register
from calcgpt_lab.model.index_positions import (
    ALiBi,
    IntegratedPositions,
    IntegratedPositionsPerHead,
    LearnedAndRotaryPositions,
    LearnedPositions,
    NoPositions,
    PositionalScheme,
    RotaryPositions,
    ShawPositions,
    SinusoidalPositions,
    T5Bias,
    T5BucketedBias,
)


class CoupledPositions(PositionalScheme):
    """The place of a digit in its row, and the row, both computed from the text (Abacus; McLeish et
    al. 2024. Position coupling; Cho et al. 2024).

    A row starts at each token that `row_marks` lists. The place of a token is its distance from the
    start of its row, or from the start of the text before the first row. Each place has a learned
    vector, and so has each kind of row, named by the token that starts it. Digits with the same
    place in rows of the same layout share a place vector, so one attention pattern serves all rows.
    Places from `n_place` on share the last vector. In training, one random offset per sequence, up
    to `place_offset`, is added to all places, so that vectors beyond the longest row of the data
    are trained too (McLeish et al. 2024, section 3.1).
    """

    row_of_token: torch.Tensor

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        self.offset = config.place_offset
        self.places = nn.Embedding(config.n_place, config.n_embd)
        self.rows = nn.Embedding(len(config.row_marks) + 1, config.n_embd)
        # Token id -> index of the kind of row that it starts, from 1, or 0 if it starts none. The
        # last entry, 0, serves all larger ids.
        row_of_token = torch.zeros(max(config.row_marks, default=-1) + 2, dtype=torch.int64)
        row_of_token[config.row_marks] = torch.arange(1, len(config.row_marks) + 1)
        self.register_buffer("row_of_token", row_of_token, persistent=False)

    def embed(self, x_BTC: torch.Tensor, tokens_BS: torch.Tensor, start: int) -> torch.Tensor:
        places_BS, rows_BS = self.coordinates(tokens_BS)
        if self.training and self.offset:
            offset_B1 = torch.randint(self.offset + 1, (len(x_BTC), 1), device=x_BTC.device)
            places_BS = (places_BS + offset_B1).clamp(max=self.places.num_embeddings - 1)
        x_BTC = x_BTC + self.places(places_BS[:, start:]) + self.rows(rows_BS[:, start:])
        return x_BTC

    def coordinates(self, tokens_BS: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the place and the row of every token, each (B, S) int64."""
        row_BS = self.row_of_token[tokens_BS.clamp(max=len(self.row_of_token) - 1)]
        index_S = torch.arange(tokens_BS.size(1), device=tokens_BS.device)
        last_mark_BS = torch.cummax(index_S * (row_BS > 0), dim=1)[0]
        places_BS = (index_S - last_mark_BS).clamp(max=self.places.num_embeddings - 1)
        return places_BS, row_BS.gather(1, last_mark_BS)


class CoupledAndRotaryPositions(CoupledPositions, RotaryPositions):
    """Coupled and rotary positions: which digits belong together, and how far apart they are."""


# Name in a recipe -> class.
POSITIONS: dict[str, type[PositionalScheme]] = {
    "none": NoPositions,
    "learned": LearnedPositions,
    "sinusoidal": SinusoidalPositions,
    "rope": RotaryPositions,
    "learned+rope": LearnedAndRotaryPositions,
    "coupled": CoupledPositions,
    "coupled+rope": CoupledAndRotaryPositions,
    "integrated": IntegratedPositions,
    "integrated-per-head": IntegratedPositionsPerHead,
    "shaw": ShawPositions,
    "alibi": ALiBi,
    "t5": T5Bias,
    "t5-buckets": T5BucketedBias,
}
register("position", POSITIONS)
