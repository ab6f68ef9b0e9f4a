"""The positional schemes by name: how a decoder knows where a token is."""

from __future__ import annotations

from calcgpt.model.index_positions import (
    ALiBi,
    IntegratedPositions,
    IntegratedPositionsPerHead,
    LearnedAndRotaryPositions,
    LearnedPositions,
    NoPositions,
    RotaryPositions,
    ShawPositions,
    SinusoidalPositions,
    T5Bias,
    T5BucketedBias,
)
from calcgpt.model.positional_scheme import PositionalScheme
from calcgpt.model.text_positions import (
    CoordinatePositions,
    CoupledAndRotaryPositions,
    CoupledPositions,
)

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
