"""Coupled and rotary positions together: which digits belong together, and how far they are."""

from calcgpt.model.positions.base import POSITIONS
from calcgpt.model.positions.coupled import CoupledPositions
from calcgpt.model.positions.rope import RotaryPositions


@POSITIONS.register("coupled+rope")
class CoupledAndRotaryPositions(CoupledPositions, RotaryPositions):
    """The embedding of the one, the rotation of the other."""
