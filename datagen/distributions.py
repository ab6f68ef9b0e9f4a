"""The distributions of problems, by name.

    blog         two operands up to 1000, two in five of them decimals
    calculator   numbers of all lengths below 100,000, some negative
    tricky-5     problems that arithmetic often gets wrong, of up to 5 digits before the point
    everyday     what people type, to any number of places (see `everyday_problems`)
    wide         numbers of 1 to 20 digits, all lengths equally often
    wide-12      the same, of 1 to 12 digits
    wide-16      the same, of 1 to 16 digits
    wide-40      the same, of 1 to 40 digits

The distributions use only `random_raw` of NumPy's bit generators, whose output is the same in every
version of NumPy. The output of `Generator`'s methods is not.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.random import BitGenerator

from calcgpt.base.errors import check_integer
from calcgpt.base.plugins import look_up
from datagen import everyday_problems, tricky_5_problems
from datagen.arithmetic import DRAWN_PLACES, ProblemArray, concatenate
from datagen.operations import OPERATIONS
from datagen.sampling import (
    MAX_SEED,
    Decimals,
    Flags,
    Integers,
    Sampler,
    Words,
    any_places,
    bit_generator,
    mixture,
    problem_array,
)

BLOG_WORDS = 3

_32 = np.uint64(32)
_ONE = np.uint64(2**32)
_LOW_32 = np.uint64(2**32 - 1)
_SCALED_PROBABILITY = np.uint64(2 * 2**31 // 5)  # 0.4 of 31 bits


def blog(words: Words) -> ProblemArray:
    """Returns n problems of the blog's distribution from words of shape (3, n).

    Each operand is uniform over 1..1000. With probability 0.4 it is multiplied by a uniform factor
    in [0, 1) and rounded to two places, ties to even. The operation is uniform.
    """
    # A word for each operand (32 bits integer, 32 bits factor) and one for the choices.
    a_word, b_word, choices = words
    a_point = (choices >> np.uint64(2) & np.uint64(2**31 - 1)) < _SCALED_PROBABILITY
    b_point = (choices >> np.uint64(33)) < _SCALED_PROBABILITY
    return ProblemArray(
        a=_blog_operand(a_word, a_point),
        a_point=a_point,
        op=(choices & np.uint64(3)).astype(np.uint8),
        b=_blog_operand(b_word, b_point),
        b_point=b_point,
    )


def _blog_operand(words: Words, scaled: Flags) -> Integers:
    """Returns operands in hundredths, (n,), from one word each."""
    whole = ((words >> _32) * np.uint64(1000) >> _32) + np.uint64(1)
    # The factor times 2**32, which is 2**32 if not scaled (`where` would be slower).
    factor = _ONE - (_ONE - (words & _LOW_32)) * scaled
    product = whole * np.uint64(100) * factor  # hundredths times 2**32: below 2**49
    # Adding just under a half, or a half if the quotient is odd, rounds ties to even.
    half = (product >> _32 & np.uint64(1)) + np.uint64(2**31 - 1)
    hundredths: Words = product + half >> _32
    return hundredths.view(np.int64)


CALCULATOR_WORDS = 5  # one selects the component; `blog` takes 3, `balanced` 4

# The 15 shapes of an operand: 1 to 5 digits before the point, 0 to 2 places after it. An operand is
# an integer times a step in hundredths. Its shape gives the number of digits of the integer.
_WHOLE_DIGITS, _PLACES = np.divmod(np.arange(15), 3) + np.array([[1], [0]])
_STEP = 10 ** (2 - _PLACES)
_SMALLEST = 10 ** (_WHOLE_DIGITS - 1 + _PLACES) * (_WHOLE_DIGITS > 1)  # 0 has one digit, too
_COUNT = 10 ** (_WHOLE_DIGITS + _PLACES) - _SMALLEST


def calculator(words: Words) -> ProblemArray:
    """Returns n problems from words of shape (5, n): a quarter `blog`, the others `balanced`."""
    return mixture(words, (lambda part: blog(part[:BLOG_WORDS]), balanced, balanced, balanced))


def balanced(words: Words) -> ProblemArray:
    """Returns n problems whose operands have all shapes equally often, from words of shape (4, n).

    An operand is uniform among those of its shape (`5.0` has one place), and negative with
    probability 1/4. The operation is uniform.
    """
    sampler = Sampler(words)
    a, a_point = _operand(sampler)
    b, b_point = _operand(sampler)
    return ProblemArray(a, a_point, sampler.below(len(OPERATIONS)).astype(np.uint8), b, b_point)


def _operand(sampler: Sampler) -> tuple[Integers, Flags]:
    """Returns operands in hundredths, and whether they have a point, each of shape (n,)."""
    shape = sampler.below(len(_STEP))
    magnitude = (_SMALLEST.take(shape) + sampler.below(_COUNT.take(shape))) * _STEP.take(shape)
    return magnitude * (1 - 2 * sampler.one_in(4)), (_PLACES > 0).take(shape)


def wide_words(max_digits: int) -> int:
    """Returns how many words `wide` needs for operands of up to `max_digits` digits."""
    return 6 + -(-max_digits // 9)  # two numbers a word


def wide(words: Words, max_digits: int, max_places: int = DRAWN_PLACES) -> ProblemArray:
    """Returns n problems from words of shape (wide_words(max_digits), n).

    The length of an operand, its digits without leading zeros, is uniform from 1 to `max_digits`.
    Half of the operands are whole; the others have 1 to `max_places` places, all equally likely,
    and may begin with zeros: 0.00012 has two digits and five places. A quarter of the operands are
    negative. The operation and the places of the answer (1 to 9) are uniform.
    """
    sampler = Sampler(words)
    a, b = (_wide_operand(sampler, max_digits, max_places) for _ in range(2))
    return problem_array(a, sampler.below(len(OPERATIONS)), b, any_places(sampler))


def _wide_operand(sampler: Sampler, max_digits: int, max_places: int) -> Decimals:
    places = (1 + sampler.below(max_places)) * sampler.one_in(2)
    units = sampler.of_length(1 + sampler.below(max_digits), max_digits).astype(object)
    # A zero at the end of several places is not written: the number would have fewer digits.
    units += (units % 10 == 0) * (places > 1) * (1 + sampler.below(9))
    return Decimals(units, places).negated(sampler.one_in(4))


MAX_AT_ONCE = 10**7  # problems of `generate`: they are in memory
BATCH_SIZE = 24_576  # problems at a time: their columns stay in the cache


@dataclass(frozen=True)
class Distribution:
    """A function from random words of shape (words, n) to n problems, one from each column."""

    words: int
    problems: Callable[[Words], ProblemArray]

    def __call__(
        self, bits: BitGenerator, count: int, batch_size: int = BATCH_SIZE
    ) -> Iterator[ProblemArray]:
        """Draws `count` problems and yields them in batches."""
        words = bits.random_raw(self.words * count).reshape(self.words, count)
        for start in range(0, count, batch_size):
            yield self.problems(words[:, start : start + batch_size])


# A mixture draws from its distributions in this order: add new ones at the end.
DISTRIBUTIONS: dict[str, Distribution] = {
    "blog": Distribution(BLOG_WORDS, blog),
    "calculator": Distribution(CALCULATOR_WORDS, calculator),
    "tricky-5": Distribution(tricky_5_problems.WORDS, tricky_5_problems.tricky_5),
    "everyday": Distribution(everyday_problems.WORDS, everyday_problems.everyday),
    "wide": Distribution(wide_words(20), partial(wide, max_digits=20)),
    "wide-12": Distribution(wide_words(12), partial(wide, max_digits=12)),
    "wide-16": Distribution(wide_words(16), partial(wide, max_digits=16)),
    "wide-40": Distribution(wide_words(40), partial(wide, max_digits=40)),
}


def generate(count: int, name: str = "blog", seed: int = 42) -> ProblemArray:
    """Returns `count` problems of a distribution, as columns; `answers` of datagen.arithmetic
    solves them.

    Raises DataError if there is no such distribution, unless `count` is from 1 to MAX_AT_ONCE, and
    unless `seed` is from 0 to MAX_SEED.
    """
    check_integer("count", count, 1, MAX_AT_ONCE)
    check_integer("seed", seed, 0, MAX_SEED)
    return concatenate(list(distribution(name)(bit_generator(seed, 0, 0), count)))


def distribution(name: str) -> Distribution:
    """Returns the distribution of that name. Raises DataError, which lists the names."""
    return look_up(DISTRIBUTIONS, name, "distribution")
