"""Every distribution draws problems, the same for ever, and each is what its name says."""

import hashlib
import re
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from datagen_strategies import random_words, share_is, words_of
from exact_values import value
from hypothesis import given, settings
from hypothesis import strategies as st

from calcgpt.base.errors import DataError
from calcgpt_lab.data.plan import DatasetPlan, held_out_shard
from datagen import tricky_5_problems, work
from datagen.arithmetic import MAX_ASKED_PLACES, Number, Problem, ProblemArray, answer
from datagen.direct import render_lines
from datagen.distributions import (
    CALCULATOR_WORDS,
    DISTRIBUTIONS,
    balanced,
    blog,
    calculator,
    distribution,
    wide,
    wide_words,
)
from datagen.everyday_problems import (
    CONSTANTS,
    KIND_WORDS,
    KINDS,
    Kind,
    of_kind,
)
from datagen.notation import number_text, parse, render, render_prompt
from datagen.operations import OPERATIONS, Operation
from datagen.sampling import Words, bit_generator
from datagen.splits import Split
from datagen.work_errors import first_error_of_completion

N = 200_000
ADD, SUB, MUL, DIV = OPERATIONS
HUNDREDTHS = ("blog", "calculator", "tricky-5")
LONGEST = {"wide": 20, "wide-12": 12, "wide-16": 16, "wide-40": 40}  # digits; Python integers


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
    "tricky-5": "1423f3f91d0842ea",
    "everyday": "cb54569b031f9222",
    "wide": "b627fa9eb3fe6f28",
    "wide-12": "f3bbf183417a57cb",
    "wide-16": "bc648ded27b85ea7",
    "wide-40": "cc3bbfc116bde988",
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_pinned_bytes(name: str) -> None:
    # A change of these bytes must raise `plan.GENERATOR_VERSION`.
    assert hashlib.sha256(render_lines(draw(name, 1000))).hexdigest()[:16] == PINNED[name]


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


def test_batches_do_not_change_the_problems() -> None:
    batches = list(DISTRIBUTIONS["blog"](bit_generator(0, 0, 0), 1000, batch_size=300))
    assert [len(batch) for batch in batches] == [300, 300, 300, 100]
    problems = [p for batch in batches for p in batch.to_problems()]
    assert problems == draw("blog", 1000).to_problems()


def test_a_quarter_of_the_calculators_problems_are_the_blogs() -> None:
    words = random_words(CALCULATOR_WORDS, 20_000, seed=2)
    first_quarter = words[0] >> np.uint64(62) == 0
    mixed = calculator(words).to_problems()
    as_blog = blog(words[1:4]).to_problems()
    as_balanced = balanced(words[1:]).to_problems()
    for i, of_blog in enumerate(first_quarter):
        assert mixed[i] == (as_blog[i] if of_blog else as_balanced[i])


def test_balanced_operands_have_all_shapes_and_signs_equally_often() -> None:
    problems = balanced(random_words(4, N, seed=1))
    for operand, point in ((problems.a, problems.a_point), (problems.b, problems.b_point)):
        length = np.char.str_len((np.abs(operand) // 100).astype(str))
        for digits in range(1, 6):
            assert share_is(~point & (length == digits), 1 / 15)
            # One place or two: a tenth of the latter end in 0, and are written with one.
            two_places = point & (operand % 10 != 0)
            assert share_is(two_places & (length == digits), 1 / 15 * 9 / 10)
        assert share_is(operand[operand != 0] < 0, 1 / 4)
    whole = np.abs(problems.a[~problems.a_point]) // 100
    counts = np.bincount(whole[whole < 100], minlength=100)
    for low, high in ((0, 10), (10, 100)):
        expected = N / 15 / (high - low)
        assert np.abs(counts[low:high] - expected).max() < 5 * expected**0.5


@pytest.mark.parametrize("name", LONGEST)
def test_wide_numbers_have_all_lengths_places_and_signs_independently(name: str) -> None:
    (array,) = DISTRIBUTIONS[name](bit_generator(1, 0, 0), 20_000)
    problems, columns = array.to_problems(), []
    for numbers in ([p.a for p in problems], [p.b for p in problems]):
        lengths = [len(str(abs(n.units))) for n in numbers]
        for length in range(1, LONGEST[name] + 1):
            assert share_is(np.equal(lengths, length), 1 / LONGEST[name])
        places = [n.places for n in numbers]
        for n in range(10):
            assert share_is(np.equal(places, n), 1 / 18 if n else 1 / 2)
        signs = [n.units < 0 for n in numbers]
        assert share_is(signs, 1 / 4)
        columns += [lengths, places, signs]
    columns += [array.op, array.places]
    correlations = np.corrcoef(np.array(columns, float)) - np.eye(len(columns))
    assert np.abs(correlations).max() < 5 / len(problems) ** 0.5


def without_signs(problem: Problem) -> tuple[int, Operation, int]:
    """The operands' magnitudes in hundredths, and the operation whose answer with these has the
    same magnitude as the problem's: a + -b is a - b."""
    a, op, b = problem.a.scaled(2), problem.op, problem.b.scaled(2)
    if op in (ADD, SUB) and (a < 0) != (b < 0):
        op = SUB if op == ADD else ADD
    return abs(a), op, abs(b)


def carries_in_a_row(a: int, b: int) -> bool:
    """Whether the last digits that are not both zero add to 10 or more, those before them to 9."""
    while a % 10 == b % 10 == 0:
        a, b = a // 10, b // 10
    return a % 10 + b % 10 >= 10 and a // 10 % 10 + b // 10 % 10 == 9


def shows_zeros(hundredths: int) -> bool:
    """Whether there are zeros inside the number as it is written, or two at its end."""
    text = number_text(Number.from_units(hundredths, 2, hundredths % 100 > 0)).replace(".", "")
    return re.search("[1-9]0+[1-9]|00$", text) is not None


def is_beside_a_tie(a: int, b: int) -> bool:
    """Whether a / b is not a tie, but changing a by a hundredth reaches or passes one."""
    quotient = Fraction(100 * a, b)
    distance = abs(quotient - (quotient // 1 + Fraction(1, 2)))
    return 0 < distance <= Fraction(100, b) <= Fraction(1, 10)


def is_round(number: Number) -> bool:
    return (
        number.places == 0
        and 100 <= number.units <= 10**9
        and len(str(number.units).rstrip("0")) <= 2
    )


UNITS = {1, 10, 50, 100, 200, 1000, 10_000}

# What makes a problem of a kind, given its operands without signs, in hundredths.
TRICKY: dict[str, Callable[[int, Operation, int], bool]] = {
    "product ties": lambda a, op, b: op == MUL and a * b % 100 == 50,
    "quotient ties": lambda a, op, b: op == DIV and Fraction(100 * a, b) % 1 == Fraction(1, 2),
    "quotients beside ties": lambda a, op, b: op == DIV and is_beside_a_tie(a, b),
    "quotients beside wholes": lambda a, op, b: op == DIV and min(a % b, -a % b) <= 1,
    "small quotients": lambda a, op, b: op == DIV and 0 < Fraction(a, b) <= Fraction(1, 100),
    "carries": lambda a, op, b: op == ADD and carries_in_a_row(a, b),
    "borrows": lambda a, op, b: op == SUB and a > b and carries_in_a_row(a - b, b),
    "inner zeros": lambda a, op, b: shows_zeros(a) and shows_zeros(b),
    "equal": lambda a, op, b: a == b != 0,
    "zero": lambda a, op, b: 0 in (a, b),
    "units": lambda a, op, b: bool(UNITS & {a, b}),
    "thousand": lambda a, op, b: 100_000 in (a, b),
    "round sums": lambda a, op, b: (
        a % 10 > 0 < b % 10 and {ADD: a + b, SUB: a - b}.get(op, 1) % 10 == 0
    ),
    "round products": lambda a, op, b: op == MUL and a % 100 > 0 < b % 100 and a * b % 1000 == 0,
    "unlike lengths": lambda a, op, b: (
        max(a, b) >= 10_000 and min(a, b) <= 900 and len(str(min(a, b)).rstrip("0")) == 1
    ),
}
# The same, given the problem.
EVERYDAY: dict[str, Callable[[Problem], bool]] = {
    "any": lambda p: max(p.a.units, p.b.units) < 10**9 and max(p.a.places, p.b.places) <= 6,
    "prices": lambda p: p.a.places in (1, 2) and (p.b.places > 0) == (p.op in (ADD, SUB)),
    "percentages": lambda p: any(0 < value(n) < 2 and 1 <= n.places <= 4 for n in (p.a, p.b)),
    "small_factors": lambda p: (
        p.op in (MUL, DIV) and any(0 < value(n) < 1 and n.places <= 2 for n in (p.a, p.b))
    ),
    "constants": lambda p: bool({number_text(p.a), number_text(p.b)} & set(CONSTANTS)),
    "fractions": lambda p: p.op == DIV and p.a.places == p.b.places == 0 < p.b.units < 10_000,
    "round": lambda p: is_round(p.a) or is_round(p.b),
    "results": lambda p: p.a.places > 0 or p.b.places > 0,
}


@pytest.mark.parametrize("name", TRICKY)
@settings(max_examples=50)
@given(data=st.data())
def test_a_tricky_kind_is_what_its_name_says(name: str, data: st.DataObject) -> None:
    words = data.draw(words_of(tricky_5_problems.KIND_WORDS))  # often the ends of what is drawn
    kind = tricky_5_problems.KINDS[name]
    (problem,) = tricky_5_problems.of_kind(kind, words).to_problems()
    a, op, b = without_signs(problem)
    assert TRICKY[name](a, op, b)
    assert max(a, b) < 10**7
    if words[0, 0] >> np.uint64(63):  # the half that keeps to the blog's bounds
        assert max(a, b) <= 100_000
        assert min(problem.a.units, problem.b.units) >= 0
    plain = Problem(
        Number.from_units(a, 2, problem.a.point), op, Number.from_units(b, 2, problem.b.point)
    )
    values = [number and abs(number.units) for number in (answer(problem), answer(plain))]
    assert values[0] == values[1]


@pytest.mark.parametrize("name", TRICKY)
def test_a_tricky_kind_has_many_problems_of_all_signs_and_sizes(name: str) -> None:
    words = random_words(tricky_5_problems.KIND_WORDS, 20_000, seed=4)
    problems = tricky_5_problems.of_kind(tricky_5_problems.KINDS[name], words)
    for operand in (problems.a, problems.b):
        assert share_is((operand < 0)[operand != 0], 1 / 8)
    largest = np.maximum(np.abs(problems.a), np.abs(problems.b))
    assert largest.max() > 5_000_000
    assert 0.1 < (largest > 100_000).mean() <= 0.5
    some = problems.take(np.arange(4_000)).to_problems()
    assert len(set(some)) > len(some) / 20


def test_all_tricky_kinds_are_equally_frequent() -> None:
    words = random_words(tricky_5_problems.WORDS, 20_000, seed=4)
    mixed, kinds = tricky_5_problems.tricky_5(words), tricky_5_problems.KINDS
    assert kinds.keys() == TRICKY.keys()
    selected = ((words[0] >> np.uint64(32)) * np.uint64(len(kinds)) >> np.uint64(32)).astype(int)
    for index, kind in enumerate(kinds.values()):
        rows = np.flatnonzero(selected == index)
        assert share_is(selected == index, 1 / len(kinds))
        alone = tricky_5_problems.of_kind(kind, words[1:, rows])
        assert mixed.take(rows).to_problems() == alone.to_problems()


@pytest.mark.parametrize("kind", dict.fromkeys(KINDS), ids=lambda kind: kind.__name__)
@settings(max_examples=50)
@given(data=st.data())
def test_a_kind_of_what_people_type_is_what_its_name_says(kind: Kind, data: st.DataObject) -> None:
    words = data.draw(words_of(KIND_WORDS))
    (problem,) = of_kind(kind, words).to_problems()
    a, b = (Number(abs(n.units), n.places) for n in (problem.a, problem.b))
    assert EVERYDAY[kind.__name__.strip("_")](Problem(a, problem.op, b)), problem


@pytest.mark.parametrize(
    ("name", "end"), [("calculater", "; did you mean 'calculator'?"), ("xyz", ", wide-40")]
)
def test_an_unknown_distribution_is_refused_with_the_names(name: str, end: str) -> None:
    with pytest.raises(DataError, match=f"unknown distribution '{name}'; valid names: .*blog") as e:
        distribution(name)
    assert str(e.value).endswith(end)
