"""The calculator's distribution: a quarter the blog's, the rest with all lengths alike."""

import numpy as np
import pytest
from datagen_strategies import random_words, share_is

from datagen.arithmetic import ProblemArray
from datagen.distributions import CALCULATOR_WORDS as WORDS
from datagen.distributions import balanced, blog, calculator
from datagen.notation import number_text

N = 90_000


@pytest.fixture(scope="module")
def sample() -> ProblemArray:
    return balanced(random_words(4, N, seed=1))


def test_a_quarter_are_the_blogs() -> None:
    words = random_words(WORDS, N, seed=2)
    first_quarter = words[0] >> np.uint64(62) == 0
    assert share_is(first_quarter, 1 / 4)
    mixed = calculator(words).to_problems()
    as_blog = blog(words[1:4]).to_problems()
    as_balanced = balanced(words[1:]).to_problems()
    for i, of_blog in enumerate(first_quarter):
        assert mixed[i] == (as_blog[i] if of_blog else as_balanced[i])


def test_all_shapes_are_equally_frequent(sample: ProblemArray) -> None:
    for operand, point in ((sample.a, sample.a_point), (sample.b, sample.b_point)):
        length = np.char.str_len((np.abs(operand) // 100).astype(str))
        for digits in range(1, 6):
            assert share_is(length == digits, 1 / 5)
            assert share_is(~point & (length == digits), 1 / 15)
            # One place or two: a tenth of the latter end in 0, and are written with one.
            two_places = point & (operand % 10 != 0)
            assert share_is(two_places & (length == digits), 1 / 15 * 9 / 10)


def test_within_a_shape_all_numbers_are_equally_frequent(sample: ProblemArray) -> None:
    magnitude = np.abs(sample.a)
    whole = magnitude[~sample.a_point] // 100
    counts = np.bincount(whole[whole < 100], minlength=100)
    for low, high in ((0, 10), (10, 100)):
        expected = N / 15 / (high - low)
        assert np.abs(counts[low:high] - expected).max() < 5 * expected**0.5
    # The digits of all shapes together: those of the fractions, and the first ones but of 0.xx.
    for digit in range(10):
        assert share_is(magnitude[sample.a_point & (magnitude % 10 > 0)] // 10 % 10 == digit, 0.1)
    first_digits = magnitude[magnitude >= 10_00].astype("U1").astype(int)
    for digit in range(1, 10):
        assert share_is(first_digits == digit, 1 / 9)


def test_signs_and_operations(sample: ProblemArray) -> None:
    for operand in (sample.a, sample.b):
        assert share_is(operand[operand != 0] < 0, 1 / 4)
    assert share_is((sample.a < 0) & (sample.b < 0), 1 / 16 * (1 - (1 + 0.1 + 0.01) / 150) ** 2)
    for op in range(4):
        assert share_is(sample.op == op, 1 / 4)
        assert share_is(sample.a_point & (sample.op == op), 1 / 6)


def test_the_extremes() -> None:
    least, most = np.uint64(0), np.uint64(2**64 - 1)
    # The words of each operand: shape and value, sign and (for a) the shape of b.
    (zero,) = balanced(np.full((4, 1), least)).to_problems()
    (largest,) = balanced(np.full((4, 1), most)).to_problems()
    assert [number_text(zero.a), zero.op, number_text(zero.b)] == ["0", "+", "0"]
    assert [number_text(largest.a), largest.op, number_text(largest.b)] == [
        "99999.99",
        "/",
        "99999.99",
    ]


def test_zeros_are_there_and_rare(sample: ProblemArray) -> None:
    assert share_is(sample.b == 0, (1 + 0.1 + 0.01) / 150)
    assert (sample.a_point & (sample.a % 100 == 0)).any()  # 5.0, too
