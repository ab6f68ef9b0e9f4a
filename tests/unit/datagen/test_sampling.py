"""The blog's distribution."""

from fractions import Fraction

import numpy as np
import pytest

from datagen import sampling
from datagen.errors import DatasetError
from datagen.sampling import DISTRIBUTIONS, bit_generator, blog
from datagen.vectorised import ProblemArray

N = 200_000


@pytest.fixture(scope="module")
def sample() -> ProblemArray:
    return blog(bit_generator(1, 0, 0).random_raw(3 * N).reshape(3, N))


def deviations(count: int, probability: float) -> float:
    """How many standard deviations a count out of N is from what was expected."""
    return abs(count - N * probability) / (N * probability * (1 - probability)) ** 0.5


def test_operations_are_uniform(sample: ProblemArray) -> None:
    for count in np.bincount(sample.op, minlength=4):
        assert deviations(count, 1 / 4) < 5


def test_operands_are_scaled_with_probability_two_fifths(sample: ProblemArray) -> None:
    assert deviations(int(sample.a_point.sum()), 0.4) < 5
    assert deviations(int(sample.b_point.sum()), 0.4) < 5
    assert deviations(int((sample.a_point & sample.b_point).sum()), 0.16) < 5
    for code in range(4):
        assert deviations(int((sample.a_point & (sample.op == code)).sum()), 0.1) < 5


def test_whole_operands_are_uniform_over_1_to_1000(sample: ProblemArray) -> None:
    for operand, point in ((sample.a, sample.a_point), (sample.b, sample.b_point)):
        whole, remainders = np.divmod(operand[~point], 100)
        assert not remainders.any()
        assert (whole.min(), whole.max()) == (1, 1000)
        counts = np.bincount(whole, minlength=1001)[1:]
        expected = counts.sum() / 1000
        chi_square = float(((counts - expected) ** 2 / expected).sum())
        assert 999 - 6 * (2 * 999) ** 0.5 < chi_square < 999 + 6 * (2 * 999) ** 0.5


def test_scaled_operands_are_an_integer_times_a_uniform_factor(sample: ProblemArray) -> None:
    scaled = sample.a[sample.a_point]
    assert scaled.min() >= 0
    assert scaled.max() <= 100_000
    assert (scaled % 100 != 0).mean() > 0.98
    # n * r, with n uniform over 1..1000 and r over [0, 1): its mean is 500.5 / 2.
    assert abs(scaled.mean() / 100 - 250.25) < 5
    # It is at most x with probability (x + x * sum of 1/n for n from x + 1 to 1000) / 1000.
    for x in (10, 100, 500):
        probability = (x + x * sum(1 / n for n in range(x + 1, 1001))) / 1000
        assert abs((scaled <= 100 * x).mean() - probability) < 0.01


def test_the_words_of_a_problem_say_all_about_it() -> None:
    never, always = 2**31 - 1, 0
    a_integer, a_factor, b_integer, b_factor = 123_456_789, 987_654_321, 2**32 - 1, 2**32 - 1
    for a_choice, b_choice in ((never, never), (always, never), (never, always)):
        choices = 2 | a_choice << 2 | b_choice << 33
        words = [a_integer << 32 | a_factor, b_integer << 32 | b_factor, choices]
        (problem,) = blog(np.array(words, np.uint64).reshape(3, 1)).to_problems()
        a = 1 + a_integer * 1000 // 2**32
        scaled_a = round(100 * a * Fraction(a_factor, 2**32))
        assert problem.op == "*"
        assert problem.a.point == (a_choice == always)
        assert problem.a.hundredths == (scaled_a if a_choice == always else 100 * a)
        assert problem.b.hundredths == 100_000  # 1000, or just below it, rounded


def test_a_factor_of_zero_and_ties_to_even() -> None:
    # 1 times an eighth and three eighths: 12.5 and 37.5 hundredths, both exact in 32 bits.
    factors = np.array([0, 2**29, 3 * 2**29], np.uint64)
    words = np.stack([factors, factors, np.zeros(3, np.uint64)])
    sample = blog(words)
    assert sample.a.tolist() == [0, 12, 38]
    assert sample.a_point.all()


def test_blocks_and_streams_are_independent() -> None:
    firsts = {
        int(bit_generator(seed, stream, block).random_raw())
        for seed in range(3)
        for stream in range(3)
        for block in range(3)
    }
    assert len(firsts) == 27


def test_pieces_make_up_what_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(DISTRIBUTIONS["blog"](bit_generator(0, 0, 0), 1000))
    monkeypatch.setattr(sampling, "PIECE", 300)
    pieces = list(DISTRIBUTIONS["blog"](bit_generator(0, 0, 0), 1000))
    assert [len(piece) for piece in pieces] == [300, 300, 300, 100]
    assert [p for piece in pieces for p in piece.to_problems()] == whole[0].to_problems()


def test_an_unknown_distribution_is_refused_with_those_there_are() -> None:
    with pytest.raises(DatasetError, match=r"unknown distribution 'bolg': choose one of .*blog"):
        sampling.distribution("bolg")
