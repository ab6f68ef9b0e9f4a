"""Each variant of the coordinates changes what its docstring says, and nothing else."""

import math
from itertools import pairwise

import pytest
import torch

pytest.importorskip("matplotlib", reason="the extra `lab` installs it")
from benchmarks.length_variants import MAX_GAP, TYPICAL_LENGTH, VARIANTS
from calcgpt.config import ModelConfig
from calcgpt.model.text_positions import CoordinatePositions, Located
from datagen.notation import WORK_ALPHABET
from datagen.work import render

LINE = render([b"$(0000012.50*0000000.25)="])[0].decode()
TOKENS = torch.tensor([[WORK_ALPHABET.index(character) for character in LINE]]).repeat(50, 1)
CONFIG = ModelConfig(
    n_embd=32, n_head=2, n_kv_head=1, position="coordinates", characters=WORK_ALPHABET
)


def located_by(scheme: CoordinatePositions) -> Located:
    torch.manual_seed(1)
    return scheme.locate(TOKENS, 0)


def test_powers_rotate_by_the_powers_of_one_base() -> None:
    scheme = VARIANTS["powers"](CONFIG, 1_000)
    n = len(scheme.frequency_F)
    assert scheme.frequency_F.tolist() == pytest.approx([10_000 ** (-i / n) for i in range(n)])


def test_random_spacing_keeps_the_order_and_widens_the_gaps_in_training() -> None:
    scheme = VARIANTS["random-spacing"](CONFIG, 1_000)
    axes_BT4 = scheme.parse(TOKENS, 0)[..., 2:]
    torch.manual_seed(1)
    moved_BT4 = scheme.add_offsets(axes_BT4)
    gaps = set()
    for axis in (0, 1):  # rows, columns
        before_BN, after_BN = (
            x_BT4[..., [axis, axis + 2]].flatten(1) for x_BT4 in (axes_BT4, moved_BT4)
        )
        for before, after in zip(before_BN.tolist(), after_BN.tolist(), strict=True):
            table = dict(zip(before, after, strict=True))
            assert [table[index] for index in before] == after  # one table for tokens and queries
            assert table.pop(0) == 0  # none
            coordinates = sorted(table)
            gaps |= {table[b] - table[a] for a, b in pairwise(coordinates) if b == a + 1}
    assert gaps == set(range(1, MAX_GAP + 1))
    assert not torch.equal(moved_BT4[0], moved_BT4[1])  # each sequence has its own
    base = located_by(CoordinatePositions(CONFIG, 1_000).eval())
    assert torch.equal(located_by(scheme.eval()).cos_BXTD, base.cos_BXTD)


def test_log_length_scales_the_queries_alone() -> None:
    scheme, base = (kind(CONFIG, 1_000) for kind in (VARIANTS["log-length"], CoordinatePositions))
    located = located_by(base.eval())
    start, n_token = 200, TOKENS.size(1)
    qk_BXTD = torch.randn(len(TOKENS), 3, n_token, CONFIG.head_dim)
    scaled, plain = (x.rotate(qk_BXTD, located, start) for x in (scheme, base))
    torch.testing.assert_close(scaled[:, 2], plain[:, 2])  # one key head after two query heads
    for index in (0, TYPICAL_LENGTH - 2 - start, n_token - 1):
        scale = math.log(start + index + 2) / math.log(TYPICAL_LENGTH)
        torch.testing.assert_close(scaled[:, :2, index], plain[:, :2, index] * scale)
