"""Trains and scores variants of the coordinates that are no part of CalcGPT, to see what matters
for length (research/LENGTH.md, "What it needs").

    python -m research.length_variants VARIANT train [OPTIONS OF calcgpt train]
    python -m research.length_variants VARIANT lengths [OPTIONS OF tools.lengths]

The variant takes the place of the positional scheme `coordinates` in this process. The checkpoint
does not name it, so score it with the same variant, and with `--engine torch`.

Ran at commit 212e06a and before.
"""

import math
import sys
from typing import Any

import torch

from calcgpt.cli import cli
from calcgpt.config import ModelConfig
from calcgpt.model.positions import POSITIONS, CoordinatePositions
from tools import lengths

BASE = 10_000.0
N_COORDINATE = 256  # more rows and columns than a line of training has
MAX_GAP = 3
TYPICAL_LENGTH = 256  # tokens at which scores keep their scale


class PowersOfOneBase(CoordinatePositions):
    """The frequencies of both axes are powers of one base, as in RoPE (Su et al. 2021, section
    3.2.2)."""

    def __init__(self, config: ModelConfig, n_positions: int) -> None:
        super().__init__(config, n_positions)
        n = len(self.frequency_F)
        self.frequency_F.copy_(BASE ** (-torch.arange(n, dtype=torch.float64) / n))


class RandomSpacing(CoordinatePositions):
    """In training, neighbouring rows and columns are 1 to `MAX_GAP` apart, at random for each
    sequence (randomized positional encodings; Ruoss et al. 2023)."""

    def add_offsets(self, axes_BT4: torch.Tensor) -> torch.Tensor:
        B, T, _ = axes_BT4.shape
        gaps_B2N = torch.randint(1, MAX_GAP + 1, (B, 2, N_COORDINATE), device=axes_BT4.device)
        moved_B2N = gaps_B2N.cumsum(dim=2)
        moved_B2N[:, :, 0] = 0  # 0 still means that there is no coordinate
        # The last axis is the row, the column, the row of the query, and its column.
        by_axis_B2T2 = axes_BT4.view(B, T, 2, 2).permute(0, 3, 1, 2)
        moved = moved_B2N.gather(2, by_axis_B2T2.reshape(B, 2, 2 * T))
        return super().add_offsets(moved.view(B, 2, T, 2).permute(0, 2, 3, 1).reshape(B, T, 4))


class LogLength(CoordinatePositions):
    """Scores are multiplied by the logarithm of the number of tokens so far, so that attention
    stays as sharp in long lines (Chiang & Cholak 2022)."""

    def rotate(self, x_BXTD: torch.Tensor, prepared: Any, start: int) -> torch.Tensor:
        rotated = super().rotate(x_BXTD, prepared, start)
        n_token_T = torch.arange(start, start + x_BXTD.size(2), device=x_BXTD.device) + 2.0
        scale_T1 = (n_token_T.log() / math.log(TYPICAL_LENGTH)).to(rotated.dtype)[:, None]
        queries, keys = rotated.split_with_sizes((self.n_head, self.n_kv_head), dim=1)
        return torch.cat((queries * scale_T1, keys), dim=1)


VARIANTS: dict[str, type[CoordinatePositions]] = {
    "powers": PowersOfOneBase,
    "random-spacing": RandomSpacing,
    "log-length": LogLength,
}


def main() -> None:
    match sys.argv[1:]:
        case [variant, "train" | "lengths" as command, *arguments] if variant in VARIANTS:
            POSITIONS["coordinates"] = VARIANTS[variant]
        case _:
            sys.exit(f"{(__doc__ or '').strip()}\n\nVARIANT is one of {', '.join(VARIANTS)}.")
    if command == "train":
        cli([command, *arguments])
    else:
        sys.argv[1:] = arguments
        lengths.main()


if __name__ == "__main__":
    main()
