"""No positions: the causal mask alone tells the order (NoPE; Kazemnejad et al. 2023)."""

from calcgpt.model.positions.base import POSITIONS, PositionalScheme


@POSITIONS.register("none")
class NoPositions(PositionalScheme):
    """Every hook is the identity."""
