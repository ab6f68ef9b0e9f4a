"""Samples from random words, and mixtures."""

import numpy as np
import pytest
from datagen_strategies import random_words
from hypothesis import given
from hypothesis import strategies as st

from datagen.arithmetic import ProblemArray
from datagen.sampling import Sampler, Words, bit_generator, mixture

N = 200_000
WORD = st.integers(0, 2**64 - 1) | st.sampled_from([0, 2**64 - 1])


def assert_uniform(counts: np.ndarray, total: int = N) -> None:
    """Each count within five standard deviations of an equal share."""
    expected = total / len(counts)
    assert np.abs(counts - expected).max() < 5 * expected**0.5


@given(WORD, WORD, st.integers(1, 2**31 - 1))
def test_a_word_gives_two_numbers_from_its_high_half_first(
    word: int, other: int, bound: int
) -> None:
    sampler = Sampler(np.array([[word] * 2, [other] * 2], np.uint64))
    assert sampler.below(bound).tolist() == [(word >> 32) * bound >> 32] * 2
    assert sampler.below(np.array([bound, 1])).tolist() == [(word & 2**32 - 1) * bound >> 32, 0]
    assert sampler.below(bound).tolist() == [(other >> 32) * bound >> 32] * 2


@given(WORD, st.integers(1, 2**31 - 1) | st.sampled_from([10**k for k in range(10)]))
def test_any_length_stays_within_its_top(word: int, top: int) -> None:
    drawn = Sampler(np.array([[word]], np.uint64)).any_length(top).item()
    assert 1 <= drawn <= top
    assert drawn < top or top == 1 or str(top).strip("0") != "1"


@pytest.mark.parametrize("top", [1, 9, 10, 25, 99, 100, 123, 10_000])
def test_any_length_is_uniform_over_the_lengths_and_within_one(top: int) -> None:
    drawn = Sampler(random_words(1, N, seed=3)).any_length(top)
    lengths = np.char.str_len(drawn.astype(str))
    longest = len(str(max(top - 1, 1)))
    assert_uniform(np.bincount(lengths, minlength=longest + 1)[1:])
    for length in range(1, longest + 1):
        low, high = (
            10 ** (length - 1),
            min(10**length, max(top, 2) if top == 10**longest else top + 1),
        )
        counts = np.bincount(drawn[lengths == length] - low, minlength=high - low)
        assert_uniform(counts, int((lengths == length).sum()))


@given(st.data())
def test_numbers_of_a_length(data: st.DataObject) -> None:
    longest = data.draw(st.integers(1, 40))
    lengths = data.draw(st.lists(st.integers(1, longest), max_size=5))
    n_words = (-(-longest // 9) + 1) // 2
    words = data.draw(
        st.lists(WORD, min_size=n_words * len(lengths), max_size=len(lengths) * n_words)
    )
    sampler = Sampler(np.array(words, np.uint64).reshape(n_words, len(lengths)))
    drawn = sampler.of_length(np.array(lengths, np.int64), longest)
    assert drawn.dtype == (np.int64 if longest <= 18 else object)
    assert [len(str(number)) for number in drawn.tolist()] == lengths
    assert all(number > 0 for number in drawn.tolist())


def test_a_mixture_gives_each_part_its_share_and_the_other_words() -> None:
    def part(op: int, words: Words) -> ProblemArray:
        n = words.shape[1]
        column = words[-1].view(np.int64)
        return ProblemArray(column, np.ones(n, bool), np.full(n, op, np.uint8), -column, column > 0)

    words = random_words(3, N, seed=3)
    mixed = mixture(words, [lambda words, op=op: part(op, words) for op in range(4)])
    assert_uniform(np.bincount(mixed.op, minlength=4))
    last = words[2].view(np.int64)
    assert (mixed.a == last).all()
    assert (mixed.b == -last).all()
    assert mixed.a_point.all()
    assert (mixed.b_point == (last > 0)).all()
    # The part of a problem says nothing of its words.
    assert abs(np.corrcoef(mixed.op, last > 0)[0, 1]) < 0.01


def test_blocks_and_streams_are_independent() -> None:
    firsts = {
        int(bit_generator(seed, stream, block).random_raw())
        for seed in range(3)
        for stream in range(3)
        for block in range(3)
    }
    assert len(firsts) == 27
