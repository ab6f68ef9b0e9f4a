"""Learned absolute positions and rotary ones together: where a digit stands in a fixed-width
notation, and how far it is from another."""

from calcgpt.model.positions.base import POSITIONS
from calcgpt.model.positions.learned import LearnedPositions
from calcgpt.model.positions.rope import RotaryPositions


@POSITIONS.register("learned+rope")
class LearnedAndRotaryPositions(LearnedPositions, RotaryPositions):
    """The embedding of the one, the rotation of the other."""
