"""Positions from the layout of worked steps: real problems, whole, in parts, and moved."""

import numpy as np
import pytest
import torch
from parity import naive
from parity.variants import build, small

from calcgpt.config import ModelConfig
from calcgpt.model.base import LanguageModel
from calcgpt.model.positions import POSITIONS
from datagen.coordinates import ROW, rotary_frequencies, spread_frequencies
from datagen.layout import layout, shape_of
from datagen.notation import WORK_ALPHABET as ALPHABET
from datagen.slots import LOWEST, Kind
from datagen.work import render

PROMPTS = ["$(0000012.50*0000000.25)=", "$5(00000-3.75/0000000700)=", "$(0000002.08-0000136.22)="]
LINES = [line.decode() for line in render([prompt.encode() for prompt in PROMPTS])]


def coordinate_config(**changes: object) -> ModelConfig:
    shape = {"n_embd": 64, "block_size": 200, "position": "coordinates", "characters": ALPHABET}
    return small(**shape | changes)


def ids(line: str) -> torch.Tensor:
    return torch.tensor([[ALPHABET.index(character) for character in line]])


def model_of(config: ModelConfig) -> LanguageModel:
    return build(config, len(ALPHABET))


@pytest.mark.parametrize("changes", [{}, {"n_kv_head": 2}, {"attention": "landmark"}])
@pytest.mark.parametrize("line", LINES[:1])
@torch.no_grad()
def test_logits_are_those_of_the_formulas(line: str, changes: dict[str, object]) -> None:
    config = coordinate_config(n_layer=1, **changes)
    model = model_of(config)
    weights = {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}
    tokens = ids(line)[:, :50]
    expected = naive.logits(weights, config, len(ALPHABET), tokens[0].tolist())
    np.testing.assert_allclose(model(tokens)[0].numpy(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("windows", [{}, {"row_window": 1, "column_window": 3}])
@pytest.mark.parametrize("line", LINES)
@torch.no_grad()
def test_cached_in_any_parts_equals_whole(line: str, windows: dict[str, int]) -> None:
    model = model_of(coordinate_config(**windows))
    whole = model(ids(line))
    for n_first in (1, 7, len(line) - 3):
        cache = model.new_cache(1, len(line))
        parts = [model(ids(line[:n_first]), cache)]
        parts += [model(ids(character), cache) for character in line[n_first:]]
        torch.testing.assert_close(torch.cat(parts, dim=1), whole, rtol=0, atol=1e-9)


@torch.no_grad()
def test_within_a_window_rows_further_away_have_no_effect() -> None:
    line = render([b"$(0000000123*0000004567)="])[0].decode()
    marks = [index for index, character in enumerate(line) if character == ";"]
    changed = line[: marks[0] + 2] + "9" + line[marks[0] + 3 :]  # the first digit of row 1
    far, near = slice(marks[2], marks[3] - 1), slice(marks[1], marks[2] - 1)
    for row_window, reaches_far in ((None, True), (1, False)):
        model = model_of(coordinate_config(row_window=row_window, n_layer=1))
        differs = (model(ids(line)) != model(ids(changed))).any(dim=2)[0]
        assert differs[near].all()
        assert differs[far].all() if reaches_far else not differs[far].any()


@torch.no_grad()
def test_within_a_window_columns_further_away_have_no_effect() -> None:
    line = render([b"$(0012345678+0087654321)="])[0].decode()
    shape = shape_of(line[: line.index("=") + 1])
    assert shape
    slots = layout(shape).slots
    index_of = {(slot.kind, slot.column): index for index, slot in enumerate(slots)}
    highest = LOWEST + 7
    # The 1 in the question and its copy, and the sum's top digit, which has no column.
    changes = [
        index_of[Kind.A_FIELD, LOWEST + 2],
        index_of[Kind.A_DIGIT, highest],
        index_of[Kind.SUM_TOP, 0],
    ]

    for column_window in (None, 3):
        model = model_of(coordinate_config(column_window=column_window, n_layer=1))
        sees_field, sees_digit, sees_total = (
            (model(ids(line)) != model(ids(f"{line[:index]}9{line[index + 1 :]}"))).any(dim=2)[0]
            for index in changes
        )
        for column in range(LOWEST + 1, highest + 1):
            # The logits of a character are at the position before it.
            is_seen = column_window is None or highest - column <= column_window
            assert sees_digit[index_of[Kind.SUM_DIGIT, column] - 1] == is_seen
            assert sees_digit[index_of[Kind.SUM_RESULT, column] - 1] == is_seen
            # Every column sees whether the sum is negative.
            assert sees_total[index_of[Kind.SUM_RESULT, column] - 1]
            assert sees_field[index_of[Kind.SUM_DIGIT, column] - 1] == (column_window is None)
            assert sees_field[index_of[Kind.SUM_RESULT, column] - 1] == (column_window is None)
        assert sees_field[index_of[Kind.A_DIGIT, highest] - 1]  # a copy


@torch.no_grad()
def test_lines_of_a_batch_are_independent() -> None:
    model = model_of(coordinate_config())
    width = max(map(len, LINES))
    batch = torch.cat([ids(line.ljust(width, "$")) for line in LINES])
    together = model(batch)
    for row, line in enumerate(LINES):
        torch.testing.assert_close(
            together[row : row + 1, : len(line)], model(ids(line)), rtol=0, atol=1e-9
        )


def test_one_offset_for_each_sequence_and_axis_in_training_alone() -> None:
    config = coordinate_config(place_offset=5)
    scheme = POSITIONS["coordinates"](config, 200)
    tokens = ids(LINES[0]).repeat(200, 1)
    torch.manual_seed(1)
    moved = scheme.train().prepare(tokens, 0)
    still = scheme.eval().prepare(tokens, 0)
    # The angles of a key whose row and column are known: both axes have 6 offsets, so 36 pairs.
    position = LINES[0].index(";") + 3
    angles = torch.cat((moved.cos_BXTD, moved.sin_BXTD), dim=3)[:, -1, position]
    assert 30 <= len(angles.unique(dim=0)) <= 36
    assert len(still.cos_BXTD[:, -1, position].unique(dim=0)) == 1
    axes_BT4 = scheme.text_features(tokens, 0)[..., ROW:]
    offsets_BT4 = scheme.train().add_offsets(axes_BT4) - axes_BT4
    assert torch.equal(offsets_BT4[axes_BT4 > 0].unique(), torch.arange(6))
    assert not offsets_BT4[axes_BT4 == 0].any()
    # A mark has a row, but no column.
    assert torch.equal(moved.kinds_BT, still.kinds_BT)


@pytest.mark.parametrize(("head_dim", "count"), [(16, 3), (32, 6)])
def test_the_table_has_the_frequencies_that_the_search_finds(head_dim: int, count: int) -> None:
    assert rotary_frequencies(head_dim).tolist() == spread_frequencies(count).tolist()


def test_frequencies_repeat_at_no_distance() -> None:
    distances = torch.arange(1, 41)[:, None]
    for count in (4, 6):
        frequencies = torch.from_numpy(spread_frequencies(count))
        assert frequencies.shape == (count,)
        likeness = torch.cos(distances * frequencies).mean(dim=1)
        powers = torch.cos(distances * 3.0 ** -torch.arange(count)).mean(dim=1)
        assert likeness.max() < 0.6 < powers.max()
