"""The positional schemes, and their interface, so that attention has no branch for any of them.

Shapes: B batch, T new tokens, S all tokens (cached and new), C n_embd, H query heads, G key/value
heads, X query and key heads, D head width, N positions.
"""

import math
from abc import ABC, abstractmethod

import torch
from torch import nn
from torch.nn import functional as F

from calcgpt.config import ModelConfig
from calcgpt.variants import register

BASE = 10_000.0  # of the sinusoidal frequencies


class PositionalScheme(nn.Module):
    """The interface. One instance serves all layers.

    A scheme overrides the hooks that it uses. By default each hook does nothing.

    `start` is the number of tokens before the first new one: the tokens in the key/value cache.

    `tokens_BS` are all tokens so far, S = start + T, for schemes that read positions off the text.
    """

    rotates = False  # whether `rotate` changes anything

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__()

    def embed(self, x_BTC: torch.Tensor, tokens_BS: torch.Tensor, start: int) -> torch.Tensor:
        """Adds positions to the token embeddings, (B, T, C)."""
        return x_BTC

    def rotate(self, x_BXTD: torch.Tensor, start: int) -> torch.Tensor:
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


class NoPositions(PositionalScheme):
    """No positions: only the causal mask shows the order (NoPE; Kazemnejad et al. 2023)."""


class LearnedPositions(PositionalScheme):
    """One learned vector per position, added to the token embedding (GPT; Radford et al. 2018)."""

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        self.table = nn.Embedding(n_positions, config.n_embd)

    def embed(self, x_BTC: torch.Tensor, tokens_BS: torch.Tensor, start: int) -> torch.Tensor:
        return x_BTC + self.table.weight[start : start + x_BTC.size(1)]


class SinusoidalPositions(PositionalScheme):
    """Fixed vectors, added to the token embeddings (Vaswani et al. 2017, section 3.5).

    Channel 2i of position t is sin(t / 10000^(2i/C)), channel 2i + 1 the cosine of the same angle.
    """

    table_NC: torch.Tensor

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        half = config.n_embd // 2
        frequencies = BASE ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.arange(n_positions, dtype=torch.float64)[:, None] * frequencies
        table = torch.stack((angles.sin(), angles.cos()), dim=2).flatten(1)  # (N, C)
        # The config determines the table, so checkpoints do not store it.
        self.register_buffer("table_NC", table.float(), persistent=False)

    def embed(self, x_BTC: torch.Tensor, tokens_BS: torch.Tensor, start: int) -> torch.Tensor:
        return x_BTC + self.table_NC[start : start + x_BTC.size(1)]


class RotaryPositions(PositionalScheme):
    """Rotary position embedding (RoFormer; Su et al. 2021, section 3.4.2).

    Channels i and i + D/2 of a head are a point in the plane. At position t, it is rotated by the
    angle t * base^(-2i/D), so scores depend only on the distance of two tokens. GPT-NeoX and Llama
    pair channels by halves, too. The paper pairs neighbours, which is the same up to a permutation
    of channels.
    """

    rotates = True
    cos_ND: torch.Tensor
    sin_ND: torch.Tensor

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        half = config.head_dim // 2
        frequencies = config.rope_base ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.arange(n_positions, dtype=torch.float64)[:, None] * frequencies
        # Each table holds its half twice, so that a rotation is two products and one roll. The
        # config determines the tables, so checkpoints do not store them.
        self.register_buffer("cos_ND", angles.cos().repeat(1, 2).float(), persistent=False)
        sin = angles.sin().float()
        self.register_buffer("sin_ND", torch.cat((-sin, sin), dim=1), persistent=False)

    def rotate(self, x_BXTD: torch.Tensor, start: int) -> torch.Tensor:
        stop = start + x_BXTD.size(2)
        return rotate(x_BXTD, self.cos_ND[start:stop], self.sin_ND[start:stop])


def rotate(x_BXTD: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Returns queries or keys with each pair of channels, i and i + D/2, rotated by an angle.

    `cos` and `sin`, (..., T, D), have an entry for each channel. Both channels of a pair have the
    same cosine; the first has the negated sine.
    """
    swapped = x_BXTD.roll(x_BXTD.size(3) // 2, dims=3)
    rotated = torch.addcmul(x_BXTD * cos, swapped, sin)
    return rotated.type_as(x_BXTD)


class LearnedAndRotaryPositions(LearnedPositions, RotaryPositions):
    """Learned and rotary positions together: where a digit is in a fixed-width notation, and how
    far it is from another."""


class IntegratedPositions(PositionalScheme):
    """One learned vector per position and layer, added to the keys of all heads (Al-Rfou et al.
    2018, section 2.3, in the form of the posts).

    A score is q (k + p) / sqrt(D). Adding p to the keys equals adding q p to the scores, and works
    with the fused kernels.
    """

    per_head = False

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        n_head = config.kv_heads if self.per_head else 1
        shape = (config.n_layer, n_head, n_positions, config.head_dim)
        self.table = nn.Parameter(0.02 * torch.randn(shape))

    def keys(self, k_BGTD: torch.Tensor, start: int, layer: int) -> torch.Tensor:
        return k_BGTD + self.table[layer, :, start : start + k_BGTD.size(2)]


class IntegratedPositionsPerHead(IntegratedPositions):
    """Each key/value head has its own vectors."""

    per_head = True


class ShawPositions(PositionalScheme):
    """Relative position embeddings (Shaw et al. 2018, section 3.2), computed by the skew of Music
    Transformer (Huang et al. 2018, section 3.4.1).

    The heads of a layer share one learned vector per distance, and its product with the query is
    added to the score: eq. 5. Distances from `max_distance` on share the last vector. The paper's
    second set of vectors, for the values, is left out: its ablation (table 3) finds no gain.
    """

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        self.scale = 1 / math.sqrt(config.head_dim)
        n_distance = min(config.max_distance + 1, n_positions)
        self.table = nn.Parameter(0.02 * torch.randn(config.n_layer, n_distance, config.head_dim))

    def scores(self, q_BHTD: torch.Tensor, start: int, layer: int) -> torch.Tensor | None:
        T = q_BHTD.size(2)
        S = start + T
        last = self.table.size(1) - 1
        # Column c holds the score at distance S - 1 - c, so no (T, S, D) tensor is needed.
        distance_S = torch.arange(S - 1, -1, -1, device=q_BHTD.device).clamp(max=last)
        by_distance_BHTS = q_BHTD @ self.table[layer, distance_S].T * self.scale
        return skew(by_distance_BHTS)


def skew(x_BHTS: torch.Tensor) -> torch.Tensor:
    """Moves row t left by T - 1 - t, which turns columns by falling distance into columns by key.
    Values that move in from the right belong to keys in the future."""
    B, H, T, S = x_BHTS.shape
    flat = F.pad(x_BHTS, (0, 1)).flatten(-2)  # with one more column, rows shift by one each
    return flat[..., T - 1 : T - 1 + T * S].reshape(B, H, T, S)


class DistanceBias(PositionalScheme, ABC):
    """A bias per head and distance, added to the scores of every layer."""

    @abstractmethod
    def by_distance(self) -> torch.Tensor:
        """Returns the bias at distance 0 (the token itself), 1, ...: (H, N)."""

    def bias(self, n_query: int, start: int) -> torch.Tensor | None:
        bias_HN = self.by_distance()
        key_S = torch.arange(start + n_query, device=bias_HN.device)
        # Keys in the future are masked later, so their bias does not matter.
        distance_TS = (key_S[start:, None] - key_S).clamp(min=0)
        return bias_HN[:, distance_TS]


class ALiBi(DistanceBias):
    """Attention with linear biases (Press et al. 2022, section 3): a fixed penalty that grows with
    the distance, with a slope per head."""

    slope_H: torch.Tensor
    distance_N: torch.Tensor

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        slopes = torch.tensor(alibi_slopes(config.n_head))
        self.register_buffer("slope_H", slopes, persistent=False)
        self.register_buffer("distance_N", torch.arange(n_positions), persistent=False)

    def by_distance(self) -> torch.Tensor:
        return -self.slope_H[:, None] * self.distance_N


def alibi_slopes(n_head: int) -> list[float]:
    """Returns 2^(-8/n), 2^(-16/n), ... for n heads. If n is not a power of two: the slopes of the
    power below it, then every other slope of the power above it, as in the authors' code."""
    power = 2 ** int(math.log2(n_head))
    slopes = [2 ** (-8 * i / power) for i in range(1, power + 1)]
    between = [2 ** (-4 * i / power) for i in range(1, 2 * power, 2)]
    return slopes + between[: n_head - power]


class T5Bias(DistanceBias):
    """A learned bias per head and distance, shared by all layers (Raffel et al. 2020, section 2.1,
    without buckets, as in the posts)."""

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        self.table = nn.Parameter(torch.zeros(config.n_head, n_positions))

    def by_distance(self) -> torch.Tensor:
        return self.table


class T5BucketedBias(DistanceBias):
    """A learned bias per head and bucket of distances, shared by all layers (Raffel et al. 2020,
    section 2.1).

    Of the `n_bucket` buckets, the first half hold one distance each. The others grow wider up to
    `max_distance`. All distances from there on share the last bucket.
    """

    bucket_N: torch.Tensor

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        self.table = nn.Parameter(torch.zeros(config.n_head, config.n_bucket))
        buckets = t5_buckets(n_positions, config.n_bucket, config.max_distance)
        self.register_buffer("bucket_N", buckets, persistent=False)

    def by_distance(self) -> torch.Tensor:
        return self.table[:, self.bucket_N]


def t5_buckets(n_distance: int, n_bucket: int, max_distance: int) -> torch.Tensor:
    """Returns the bucket of each distance below `n_distance`, (n_distance,) int64."""
    exact = n_bucket // 2
    distance = torch.arange(n_distance)
    share = (distance.clamp(min=1).float() / exact).log() / math.log(max_distance / exact)
    wide = exact + (share * (n_bucket - exact)).long()
    return torch.where(distance < exact, distance, wide.clamp(max=n_bucket - 1))


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
