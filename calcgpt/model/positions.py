"""The one interface that all positional schemes share.

Shapes: B batch, T new tokens, S all tokens (cached and new), C n_embd, H query heads, G key/value
heads, D head width, N positions.

No positions: the causal mask alone tells the order (NoPE; Kazemnejad et al. 2023).

Learned absolute positions, added to the token embeddings (GPT; Radford et al. 2018).

Fixed sinusoidal positions, added to the token embeddings (Vaswani et al. 2017, section 3.5).

Rotary position embedding (RoFormer; Su et al. 2021, section 3.4.2).

Learned absolute positions and rotary ones together: where a digit stands in a fixed-width
notation, and how far it is from another.

Coupled positions: the place of a digit in its row, and the row, read off the text
(Abacus, McLeish et al. 2024; position coupling, Cho et al. 2024).

Coupled and rotary positions together: which digits belong together, and how far they are.

Learned absolute positions inside every attention layer, "integrated" (Al-Rfou et al. 2018,
section 2.3, in the form of the posts).

Relative position embeddings (Shaw et al. 2018, section 3.2), by the skew of Huang et al. 2018
(Music Transformer, section 3.4.1).

What biases on the scores share that depend on the distance of two tokens alone.

Attention with linear biases (ALiBi; Press et al. 2022).

T5's relative bias (Raffel et al. 2020, section 2.1), with a number for each distance or for each
bucket of distances.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from calcgpt.config import ModelConfig
from calcgpt.model.sizes import Sizes


class PositionalScheme(nn.Module):
    """How a decoder knows where a token stands. One instance serves all layers.

    A scheme overrides what it uses of five hooks: `embed` adds to the token embeddings, `rotate`
    turns queries and keys, `keys` adds to the keys of a layer, `bias` adds to the scores of all
    layers, `scores` to those of one, from its queries. The rest is the identity, so attention calls
    them all and knows no scheme by name. `start` is the number of tokens that stand before the
    first one given (those in the key/value cache).
    """

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__()

    @classmethod
    def count(cls, config: ModelConfig, s: Sizes) -> Any:
        """Parameters of all layers together."""
        return 0

    def embed(self, x_BTC: torch.Tensor, tokens_BS: torch.Tensor, start: int) -> torch.Tensor:
        """Token embeddings -> embeddings that know their position. `tokens_BS` are all tokens so
        far, S = start + T, for schemes that read the position off the text."""
        return x_BTC

    def rotate(self, x_BHTD: torch.Tensor, start: int) -> torch.Tensor:
        """Queries or keys -> the same, turned by their position; any number of heads H."""
        return x_BHTD

    def keys(self, k_BGTD: torch.Tensor, start: int, layer: int) -> torch.Tensor:
        """The keys of one layer -> keys that know their position."""
        return k_BGTD

    def bias(self, n_query: int, start: int) -> torch.Tensor | None:
        """What is added to the scores of `n_query` queries over start + n_query keys in every
        layer, (H or 1, T, S), without the causal mask; None is zero."""
        return None

    def scores(self, q_BHTD: torch.Tensor, start: int, layer: int) -> torch.Tensor | None:
        """What is added to the scores of one layer, (B, H, T, S), from its queries, divided by
        sqrt(D) as the scores are, without the causal mask; None is zero."""
        return None


class NoPositions(PositionalScheme):
    """Every hook is the identity."""


class LearnedPositions(PositionalScheme):
    """One vector for each position."""

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        self.table = nn.Embedding(n_positions, config.n_embd)

    @classmethod
    def count(cls, config: ModelConfig, s: Sizes) -> Any:
        return super().count(config, s) + s.N * s.C

    def embed(self, x_BTC: torch.Tensor, tokens_BS: torch.Tensor, start: int) -> torch.Tensor:
        return x_BTC + self.table.weight[start : start + x_BTC.size(1)]


BASE = 10_000.0


class SinusoidalPositions(PositionalScheme):
    """Channel 2i of position t is sin(t / 10000^(2i/C)), channel 2i + 1 the cosine of the same."""

    table_NC: torch.Tensor

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        half = config.n_embd // 2
        frequencies = BASE ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.arange(n_positions, dtype=torch.float64)[:, None] * frequencies
        table = torch.stack((angles.sin(), angles.cos()), dim=2).flatten(1)  # (N, C)
        # Computed once, from the config: not part of a checkpoint.
        self.register_buffer("table_NC", table.float(), persistent=False)

    def embed(self, x_BTC: torch.Tensor, tokens_BS: torch.Tensor, start: int) -> torch.Tensor:
        return x_BTC + self.table_NC[start : start + x_BTC.size(1)]


class RotaryPositions(PositionalScheme):
    """Channel i of a head and channel i + D/2 are a point in the plane, turned by the angle
    t * base^(-2i/D) at position t: scores depend on the distance of two tokens alone.

    The pairing by halves is that of GPT-NeoX and Llama; the paper's, by neighbours, is the same
    up to a permutation of channels.
    """

    cos_TD: torch.Tensor
    sin_TD: torch.Tensor

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        half = config.head_dim // 2
        frequencies = config.rope_base ** (-torch.arange(half, dtype=torch.float64) / half)
        angles = torch.arange(n_positions, dtype=torch.float64)[:, None] * frequencies
        # Each table holds its half twice, so that a rotation is two products and one roll.
        # Computed once, from the config: not part of a checkpoint.
        self.register_buffer("cos_TD", angles.cos().repeat(1, 2).float(), persistent=False)
        sin = angles.sin().float()
        self.register_buffer("sin_TD", torch.cat((-sin, sin), dim=1), persistent=False)

    def rotate(self, x_BHTD: torch.Tensor, start: int) -> torch.Tensor:
        stop = start + x_BHTD.size(2)
        swapped = x_BHTD.roll(x_BHTD.size(3) // 2, dims=3)
        turned = torch.addcmul(x_BHTD * self.cos_TD[start:stop], swapped, self.sin_TD[start:stop])
        return turned.type_as(x_BHTD)


class LearnedAndRotaryPositions(LearnedPositions, RotaryPositions):
    """The embedding of the one, the rotation of the other."""


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


class CoupledAndRotaryPositions(CoupledPositions, RotaryPositions):
    """The embedding of the one, the rotation of the other."""


class IntegratedBase(PositionalScheme):
    """One vector for each position and layer, which queries meet as they meet the keys.

    A score is q (k + p) / sqrt(D): adding p to the keys is the same as adding q p to the scores,
    and leaves the fused kernels usable.
    """

    table: nn.Parameter

    def keys(self, k_BGTD: torch.Tensor, start: int, layer: int) -> torch.Tensor:
        return k_BGTD + self.table[layer, :, start : start + k_BGTD.size(2)]


class IntegratedPositions(IntegratedBase):
    """All heads of a layer share the vectors."""

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        shape = (config.n_layer, 1, n_positions, config.head_dim)
        self.table = nn.Parameter(0.02 * torch.randn(shape))

    @classmethod
    def count(cls, config: ModelConfig, s: Sizes) -> Any:
        return s.L * s.N * s.D


class IntegratedPositionsPerHead(IntegratedBase):
    """Every key/value head has its own vectors."""

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        shape = (config.n_layer, config.kv_heads, n_positions, config.head_dim)
        self.table = nn.Parameter(0.02 * torch.randn(shape))

    @classmethod
    def count(cls, config: ModelConfig, s: Sizes) -> Any:
        return s.L * s.G * s.N * s.D


class ShawPositions(PositionalScheme):
    """One vector for each distance and layer, shared by the heads, that queries meet beside the
    keys: eq. 5. Distances from `max_distance` on share the last one.

    The paper's second set of vectors, for the values, is left out: its ablation (table 3) finds
    that it adds nothing.
    """

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        self.scale = 1 / math.sqrt(config.head_dim)
        n_distance = min(config.max_distance + 1, n_positions)
        self.table = nn.Parameter(0.02 * torch.randn(config.n_layer, n_distance, config.head_dim))

    @classmethod
    def count(cls, config: ModelConfig, s: Sizes) -> Any:
        return s.L * s.M * s.D

    def scores(self, q_BHTD: torch.Tensor, start: int, layer: int) -> torch.Tensor | None:
        T = q_BHTD.size(2)
        S = start + T
        last = self.table.size(1) - 1
        # Column c holds the score at distance S - 1 - c: no (T, S, D) tensor is needed.
        distance_S = torch.arange(S - 1, -1, -1, device=q_BHTD.device).clamp(max=last)
        by_distance = q_BHTD @ self.table[layer, distance_S].T * self.scale  # (B,H,T,S)
        return skew(by_distance)


def skew(x_BHTS: torch.Tensor) -> torch.Tensor:
    """Row t moved left by T - 1 - t, so that columns by falling distance become columns by key;
    what moves in from the right lies in the future."""
    B, H, T, S = x_BHTS.shape
    flat = F.pad(x_BHTS, (0, 1)).flatten(-2)  # one more column: each row starts one further left
    return flat[..., T - 1 : T - 1 + T * S].reshape(B, H, T, S)


class DistanceBias(PositionalScheme, ABC):
    """A number for each head and distance, added to the scores of every layer."""

    @abstractmethod
    def by_distance(self) -> torch.Tensor:
        """(H, N): the bias at distance 0 (the token itself), 1, ..."""

    def bias(self, n_query: int, start: int) -> torch.Tensor | None:
        bias_HN = self.by_distance()
        key_S = torch.arange(start + n_query, device=bias_HN.device)
        # What lies in the future is masked, whatever it is given here.
        distance_TS = (key_S[start:, None] - key_S).clamp(min=0)
        return bias_HN[:, distance_TS]


class ALiBi(DistanceBias):
    """A fixed penalty that grows with the distance, steeper or flatter by head (section 3)."""

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
    """2^(-8/n), 2^(-16/n), ... for n heads. Where n is no power of two: those of the power below
    it, then every other one of those of the power above (the authors' code)."""
    power = 2 ** int(math.log2(n_head))
    slopes = [2 ** (-8 * i / power) for i in range(1, power + 1)]
    between = [2 ** (-4 * i / power) for i in range(1, 2 * power, 2)]
    return slopes + between[: n_head - power]


class T5Bias(DistanceBias):
    """A learned number for each head and exact distance, shared by all layers (Raffel et al. 2020,
    section 2.1, without the buckets, as in the posts)."""

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        self.table = nn.Parameter(torch.zeros(config.n_head, n_positions))

    @classmethod
    def count(cls, config: ModelConfig, s: Sizes) -> Any:
        return s.H * s.N

    def by_distance(self) -> torch.Tensor:
        return self.table


class T5BucketedBias(DistanceBias):
    """A learned number for each head and bucket of distances, shared by all layers (Raffel et al.
    2020, section 2.1): `n_bucket` of them, the first half one distance each, the rest ever wider,
    up to `max_distance`, from which on all share the last."""

    bucket_N: torch.Tensor

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        self.table = nn.Parameter(torch.zeros(config.n_head, config.n_bucket))
        buckets = t5_buckets(n_positions, config.n_bucket, config.max_distance)
        self.register_buffer("bucket_N", buckets, persistent=False)

    @classmethod
    def count(cls, config: ModelConfig, s: Sizes) -> Any:
        return s.H * s.K

    def by_distance(self) -> torch.Tensor:
        return self.table[:, self.bucket_N]


def t5_buckets(n_distance: int, n_bucket: int, max_distance: int) -> torch.Tensor:
    """(n_distance,), int64: the bucket of each distance."""
    exact = n_bucket // 2
    distance = torch.arange(n_distance)
    share = (distance.clamp(min=1).float() / exact).log() / math.log(max_distance / exact)
    wide = exact + (share * (n_bucket - exact)).long()
    return torch.where(distance < exact, distance, wide.clamp(max=n_bucket - 1))


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
