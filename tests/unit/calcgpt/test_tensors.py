"""Weights of 8 bits: what they keep, and files that do not hold them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from calcgpt.errors import CheckpointError
from calcgpt.tensors import LARGEST, SCALES, pack, unpack
from calcgpt_lab.training.optim import rounded

FILE = Path("weights")
matrices = arrays.arrays(
    np.float32,
    arrays.array_shapes(min_dims=2, max_dims=2, max_side=6),
    # The scale of a row must not be subnormal.
    elements=st.floats(-100, 100, width=32).filter(lambda x: not x or abs(x) > 1e-30),
)


@given(matrices, matrices)
def test_packed_weights_are_those_of_training_and_stay_the_same(
    first: np.ndarray, second: np.ndarray
) -> None:
    weights = {"b": second, "a": first, "gain": first[0]}
    once = unpack(pack(weights), FILE)
    assert once.keys() == weights.keys()
    assert (once["gain"] == first[0]).all()
    for name in ("a", "b"):
        expected = rounded(torch.from_numpy(weights[name])).numpy()
        np.testing.assert_array_equal(once[name], expected)
        step = np.abs(weights[name]).max(axis=1, keepdims=True) / LARGEST
        assert (np.abs(once[name] - weights[name]) <= 1.01 * step).all()
        np.testing.assert_array_equal(unpack(pack(once), FILE)[name], once[name])
    assert pack(weights)["a"].dtype == np.int8


@pytest.mark.parametrize("scales", [None, np.zeros(2, np.int16), np.zeros(3, np.float32)])
def test_weights_without_their_scales_are_refused(scales: np.ndarray | None) -> None:
    packed = pack({"a": np.ones((3, 2), np.float32)})
    del packed[SCALES]
    with pytest.raises(CheckpointError, match="no scale for each row"):
        unpack(packed | ({} if scales is None else {SCALES: scales}), FILE)
