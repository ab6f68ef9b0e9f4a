"""Landmark attention (Mohtashami & Jaggi 2023, section 3.1)."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from calcgpt.config import ModelConfig
from calcgpt.model.attention.base import ATTENTIONS, AttentionScheme


@ATTENTIONS.register("landmark")
class LandmarkAttention(AttentionScheme):
    """After every `landmark_block` tokens stands a landmark, which stands for its block.

    A query weighs the tokens of its own block against the landmarks of earlier blocks, and what a
    landmark gets is shared among the tokens of its block: eqs. 1 to 4, the grouped softmax. The
    landmarks themselves get nothing: only their keys count.
    """

    softmax = False
    n_token = 1

    def __init__(self, config: ModelConfig, vocab_size: int) -> None:
        self.block = config.landmark_block
        self.landmark = vocab_size  # the id after those of the vocabulary

    @classmethod
    def n_positions(cls, config: ModelConfig, n_token: int) -> int:
        return n_token + n_token // config.landmark_block

    def insert(self, tokens_BT: torch.Tensor, start: int) -> torch.Tensor:
        is_text = self._is_text(tokens_BT.size(1), start, tokens_BT.device)
        with_landmarks = tokens_BT.new_full((tokens_BT.size(0), len(is_text)), self.landmark)
        with_landmarks[:, is_text] = tokens_BT
        return with_landmarks

    def remove(self, x_BTC: torch.Tensor, start: int) -> torch.Tensor:
        positions = start + torch.arange(x_BTC.size(1), device=x_BTC.device)
        return x_BTC[:, ~self._is_landmark(positions)]

    def weights(self, scores_BHTS: torch.Tensor) -> torch.Tensor:
        B, H, T, S = scores_BHTS.shape
        key_S = torch.arange(S, device=scores_BHTS.device)
        size = self.block + 1
        own_TS = key_S[S - T :, None] // size == key_S // size  # keys in the query's block
        landmark_S = self._is_landmark(key_S)
        # The query's own group: the tokens of its block and the landmarks of the others.
        minus_inf = float("-inf")
        top_BHTS = scores_BHTS.masked_fill(own_TS == landmark_S, minus_inf).softmax(dim=-1)
        # The other groups: a block each, the last one filled up; its landmark is in no group.
        n_block = -(-S // size)
        shape, fill = (B, H, T, n_block, size), (0, n_block * size - S)
        inside = F.pad(scores_BHTS, fill, value=minus_inf).view(shape)[..., : self.block]
        # A block in the future is minus infinity throughout, which has no softmax.
        hidden = inside.amax(dim=-1, keepdim=True) == minus_inf
        inside = inside.masked_fill(hidden, 0.0).softmax(dim=-1)
        gates = F.pad(top_BHTS, fill).view(shape)[..., self.block :]  # what each landmark got
        others_BHTS = F.pad(inside * gates, (0, 1)).flatten(-2)[..., :S]
        return torch.where(own_TS, top_BHTS, others_BHTS)

    def _is_landmark(self, position: torch.Tensor) -> torch.Tensor:
        return position % (self.block + 1) == self.block

    def _is_text(self, n_token: int, start: int, device: torch.device) -> torch.Tensor:
        """For the positions that `n_token` tokens take after `start`: True at the tokens."""
        before = start % (self.block + 1)  # tokens already in the block that is open
        n_landmark = (before + n_token) // self.block
        return ~self._is_landmark(start + torch.arange(n_token + n_landmark, device=device))
