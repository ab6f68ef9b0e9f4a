"""What biases on the scores share that depend on the distance of two tokens alone."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from calcgpt.model.positions.base import PositionalScheme


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
