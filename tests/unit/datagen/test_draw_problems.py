"""Properties of every distribution, and of the blog's."""

import hashlib
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from datagen_strategies import words_of
from hypothesis import given, settings
from hypothesis import strategies as st

from calcgpt.base.errors import DataError
from calcgpt_lab.data.plan import DatasetPlan, held_out_shard
from datagen import distributions, work
from datagen.arithmetic import MAX_ASKED_PLACES, ProblemArray
from datagen.direct import render_lines
from datagen.distributions import DISTRIBUTIONS, blog, distribution, wide, wide_words
from datagen.notation import parse, render, render_prompt
from datagen.sampling import Words, bit_generator
from datagen.splits import Split
from datagen.work_errors import first_error_of_completion

N = 200_000
HUNDREDTHS = ("blog", "calculator", "tricky-5")
LONGEST = {
    "tricky-12": 12,
    "rounding": 12,
    "wide": 20,
    "wide-12": 12,
    "wide-16": 16,
    "wide-40": 40,
}  # digits; Python integers


@pytest.fixture(scope="module")
def sample() -> ProblemArray:
    return blog(bit_generator(1, 0, 0).random_raw(3 * N).reshape(3, N))


def deviations(count: int, probability: float) -> float:
    """Returns how many standard deviations a count out of N is from its expected value."""
    return abs(count - N * probability) / (N * probability * (1 - probability)) ** 0.5


def draw(name: str, count: int) -> ProblemArray:
    """The first problems, up to 24,576 of them, of a distribution."""
    (problems,) = DISTRIBUTIONS[name](bit_generator(0, 0, 0), count)
    return problems


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_each_problem_depends_on_its_own_words(name: str) -> None:
    words = bit_generator(0, 0, 0).random_raw(60 * DISTRIBUTIONS[name].words).reshape(-1, 60)
    problems = DISTRIBUTIONS[name].problems
    alone = [problems(words[:, i : i + 1]).to_problems()[0] for i in range(60)]
    assert problems(words).to_problems() == alone == draw(name, 60).to_problems()


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_every_distribution_has_the_types_and_bounds_of_problems(name: str) -> None:
    operands = np.object_ if name in LONGEST else np.int64
    for column, kind in (("a", operands), ("b", operands), ("op", np.uint8), ("places", np.uint16)):
        assert getattr(draw(name, 1000), column).dtype == kind
    problems = draw(name, 20_000)
    assert set(problems.op) == {0, 1, 2, 3}
    assert set(problems.places) == ({2} if name in HUNDREDTHS else set(range(1, 10)))
    assert problems.scale == (2 if name in HUNDREDTHS else 9)
    unit = 10**problems.scale
    digits = LONGEST.get(name, 5 if name in HUNDREDTHS else 10)
    for operand, point in ((problems.a, problems.a_point), (problems.b, problems.b_point)):
        assert point.dtype == np.bool_
        assert np.abs(operand).max() < 10**digits * unit
        assert not (operand[~point] % unit).any()


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_lines_of_every_distribution_are_those_of_the_scalar_renderer(name: str) -> None:
    count, size = 20_000, 8_000  # several batches
    batches = list(DISTRIBUTIONS[name](bit_generator(2, 0, 0), count, batch_size=size))
    lines = b"".join(map(render_lines, batches)).splitlines()
    assert len(lines) == count
    problems = [
        p for batch in batches for p in batch.take(np.arange(0, len(batch), 8)).to_problems()
    ]
    assert size % 8 == 0  # every eighth of each batch is every eighth of all
    assert [render(problem).encode() for problem in problems] == lines[::8]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@settings(max_examples=25)
@given(data=st.data())
def test_any_words_give_a_problem_that_is_rendered_parsed_and_checked(
    name: str, data: st.DataObject
) -> None:
    drawn = DISTRIBUTIONS[name]
    assert_is_a_problem(drawn.problems, drawn.words, data)


@settings(max_examples=100)
@given(longest=st.integers(1, 40), places=st.integers(1, MAX_ASKED_PLACES), data=st.data())
def test_any_words_give_a_problem_of_any_width(
    longest: int, places: int, data: st.DataObject
) -> None:
    assert_is_a_problem(lambda words: wide(words, longest, places), wide_words(longest), data)


def assert_is_a_problem(
    draw: Callable[[Words], ProblemArray], n_words: int, data: st.DataObject
) -> None:
    """Asserts that any half words, often the least and the greatest, give a problem that can be
    rendered and parsed, also with worked steps, which the checker accepts."""
    problems = draw(data.draw(words_of(n_words)))
    (problem,) = problems.to_problems()
    line = render(problem)
    assert parse(line) == problem
    assert render_lines(problems) == f"{line}\n".encode()
    prompt = render_prompt(problem)
    for second in (False, True):
        worked = work.render_lines(problems, second).decode().removesuffix("\n")
        assert worked.startswith(prompt)
        assert worked.rpartition("=")[2] == line.rpartition("=")[2]
        assert first_error_of_completion(prompt, worked.removeprefix(prompt)) is None


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_every_distribution_has_problems_to_hold_out(name: str) -> None:
    plan = DatasetPlan(train=1, val=1000, test=1000, seed=0, distribution=name)
    for split in (Split.VAL, Split.TEST):
        lines = b"".join(held_out_shard(plan, split).text).splitlines()
        assert len(set(lines)) == 1000


PINNED = {
    "blog": "5abe74c44127181e",
    "calculator": "a44a0948c98002d2",
    "tricky-12": "02ecec9dd8f3c629",
    "tricky-5": "1423f3f91d0842ea",
    "everyday": "cb54569b031f9222",
    "rounding": "6c68f13811dc9db8",
    "wide": "b627fa9eb3fe6f28",
    "wide-12": "f3bbf183417a57cb",
    "wide-16": "bc648ded27b85ea7",
    "wide-40": "cc3bbfc116bde988",
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_pinned_bytes(name: str) -> None:
    # A change of these bytes must raise `plan.GENERATOR_VERSION`.
    assert hashlib.sha256(render_lines(draw(name, 1000))).hexdigest()[:16] == PINNED[name]


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


def test_a_problem_depends_on_its_words_alone() -> None:
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
        assert problem.a.scaled(2) == (scaled_a if a_choice == always else 100 * a)
        assert problem.b.scaled(2) == 100_000  # 1000, or just below it, rounded


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


def test_batches_do_not_change_the_problems() -> None:
    (whole,) = DISTRIBUTIONS["blog"](bit_generator(0, 0, 0), 1000)
    batches = list(DISTRIBUTIONS["blog"](bit_generator(0, 0, 0), 1000, batch_size=300))
    assert [len(batch) for batch in batches] == [300, 300, 300, 100]
    assert [p for batch in batches for p in batch.to_problems()] == whole.to_problems()


def test_the_error_of_an_unknown_distribution_lists_the_names() -> None:
    with pytest.raises(DataError, match=r"unknown distribution 'bolg'; valid names: .*blog"):
        distributions.distribution("bolg")


@pytest.mark.parametrize(
    ("name", "end"), [("calculater", "; did you mean 'calculator'?"), ("xyz", ", wide-40")]
)
def test_only_a_name_that_is_close_is_proposed(name: str, end: str) -> None:
    with pytest.raises(DataError) as caught:
        distribution(name)
    assert str(caught.value).endswith(end)
