"""The positional schemes that read places off the text of worked steps, and the table of all.

Shapes: B batch, T new tokens, S all tokens (cached and new), C n_embd, X query and key heads,
D head width.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from calcgpt.config import ModelConfig
from calcgpt.model.index_positions import (
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
    rotate,
)
from calcgpt.model.windows import Windows
from calcgpt.variants import register
from datagen.coordinates import KIND, NEXT_KIND, ROW, Codes, batch_coordinates, rotary_frequencies
from datagen.slots import N_KINDS, Kind


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

    def embed(self, x_BTC: torch.Tensor, prepared: Any, start: int) -> torch.Tensor:
        places_BS, rows_BS = self.coordinates(prepared)
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


class KindTable(nn.Embedding):
    """A vector for each kind of slot, and a row of zeros for each kind that may be added later."""

    n_reserved = N_KINDS - len(Kind)

    def __init__(self, n_embd: int) -> None:
        super().__init__(N_KINDS, n_embd)

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.weight)
        nn.init.normal_(self.weight.data[: len(Kind)])


class CoordinatePositions(PositionalScheme):
    """Coordinates of worked steps, computed from the text (`datagen.coordinates`): the row and the
    column of each character, and of what the next character is computed from.

    A key is rotated by its own row and column, a query by the row and column that it looks for,
    each over some channels of a head (rotary embedding over several axes; Su et al. 2021, section
    3.4.2). So a head finds a digit at any distance, in work of any length. Learned vectors for the
    kind of a character and for the kind of the next character are added to the embedding. In
    training, one random offset per sequence and axis, up to `place_offset`, is added to the
    coordinates, so that no absolute number is learned (McLeish et al. 2024, section 3.1).
    Characters without a coordinate are not rotated.

    Windows limit the keys that a query sees. The center of a window is the row or column that the
    query looks for, or its own if it looks for none. With a `row_window` of n, a query sees

    - keys without a row, such as the operands and the result, and
    - the row of the center and the n rows above and below it.

    With a `column_window` of n, a query sees

    - keys without a column, and
    - the column of the center and the n columns on both sides of it.

    The columns of the question's operands are counted apart: within its window, a query that copies
    their digits or signs (`COPIES`) sees only the operands, and all other queries see everything
    else. So the work looks alike however many rows and columns it has.
    """

    rotates = True
    frequency_F: torch.Tensor

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        self.offset = config.place_offset
        self.windows = Windows(config.row_window, config.column_window)
        self.n_head, self.n_kv_head = config.n_head, config.kv_heads
        self.kinds, self.next_kinds = KindTable(config.n_embd), KindTable(config.n_embd)
        # Not a buffer: the text is read on the CPU, wherever the model is.
        self.character_of_token = np.zeros(2**8, np.uint8)  # 0: not a character
        self.character_of_token[: len(config.characters)] = list(config.characters.encode())
        frequencies = torch.from_numpy(rotary_frequencies(config.head_dim).copy())
        self.n_unrotated = config.head_dim // 2 - 2 * len(frequencies)
        self.register_buffer("frequency_F", frequencies, persistent=False)

    def text_features(self, tokens_BS: torch.Tensor, start: int) -> torch.Tensor:
        """Returns the coordinates of the tokens from `start` on, (B, T, 6) int64."""
        coordinates_BT6 = torch.from_numpy(batch_coordinates(self.ascii_codes(tokens_BS), start))
        return coordinates_BT6.to(tokens_BS.device, torch.int64)

    def ascii_codes(self, tokens_BS: torch.Tensor) -> Codes:
        codes_BS: Codes = self.character_of_token[tokens_BS.clamp(max=2**8 - 1).cpu().numpy()]
        return codes_BS

    def prepare(
        self, tokens_BS: torch.Tensor, start: int, features: torch.Tensor | None = None
    ) -> "Prepared":
        first = start if self.windows.is_open else 0  # a window needs all keys
        features_BS6 = (
            self.text_features(tokens_BS, first) if features is None else features[:, first:]
        )
        new_BT6 = features_BS6[:, start - first :]
        visible_BTS = self.windows(features_BS6, new_BT6)
        axes_BT4 = self.add_offsets(new_BT6[..., ROW:]) if self.training else new_BT6[..., ROW:]
        angles = (axes_BT4[..., None] * self.frequency_F).flatten(3)  # (B, T, 4, F)
        keys, queries = angles[:, :, :2].flatten(2), angles[:, :, 2:].flatten(2)
        unrotated = keys.new_zeros((*keys.shape[:2], self.n_unrotated))
        cos, sin = [], []
        for angles_BTE, n_head in ((queries, self.n_head), (keys, self.n_kv_head)):
            angles_B1TE = torch.cat((angles_BTE, unrotated), dim=2)[:, None]
            sin_B1TE = angles_B1TE.sin()
            cos.append(angles_B1TE.cos().repeat(1, n_head, 1, 2))
            sin.append(torch.cat((-sin_B1TE, sin_B1TE), dim=3).repeat(1, n_head, 1, 1))
        rotation = torch.cat(cos, dim=1), torch.cat(sin, dim=1)
        return Prepared(new_BT6[..., KIND], new_BT6[..., NEXT_KIND], *rotation, visible_BTS)

    def add_offsets(self, axes_BT4: torch.Tensor) -> torch.Tensor:
        """Adds the random offsets of training to coordinates: the row and column of each token, and
        those that it looks for, (B, T, 4)."""
        if not self.offset:
            return axes_BT4
        offset_B12 = torch.randint(self.offset + 1, (len(axes_BT4), 1, 2), device=axes_BT4.device)
        return torch.where(axes_BT4 > 0, axes_BT4 + offset_B12.repeat(1, 1, 2), 0)

    def embed(self, x_BTC: torch.Tensor, prepared: Any, start: int) -> torch.Tensor:
        x_BTC = x_BTC + self.kinds(prepared.kinds_BT) + self.next_kinds(prepared.next_kinds_BT)
        return x_BTC

    def rotate(self, x_BXTD: torch.Tensor, prepared: Any, start: int) -> torch.Tensor:
        return rotate(x_BXTD, prepared.cos_BXTD, prepared.sin_BXTD)

    def visible(self, prepared: Any) -> torch.Tensor | None:
        return None if prepared.visible_BTS is None else prepared.visible_BTS[:, None]


class Prepared(NamedTuple):
    """What `CoordinatePositions` computes from the text: kinds, the cosines and sines by which the
    queries and keys of each head are rotated, and, if there is a window, a mask of the keys that
    each new query sees."""

    kinds_BT: torch.Tensor
    next_kinds_BT: torch.Tensor
    cos_BXTD: torch.Tensor
    sin_BXTD: torch.Tensor
    visible_BTS: torch.Tensor | None


# Name in a recipe -> class.
POSITIONS: dict[str, type[PositionalScheme]] = {
    "none": NoPositions,
    "learned": LearnedPositions,
    "sinusoidal": SinusoidalPositions,
    "rope": RotaryPositions,
    "learned+rope": LearnedAndRotaryPositions,
    "coupled": CoupledPositions,
    "coupled+rope": CoupledAndRotaryPositions,
    "coordinates": CoordinatePositions,
    "integrated": IntegratedPositions,
    "integrated-per-head": IntegratedPositionsPerHead,
    "shaw": ShawPositions,
    "alibi": ALiBi,
    "t5": T5Bias,
    "t5-buckets": T5BucketedBias,
}
register("position", POSITIONS)
