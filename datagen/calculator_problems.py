"""What a person types into a calculator: numbers of all lengths below 100,000, some negative."""

import numpy as np

from datagen import blog_problems
from datagen.draws import Draws, Flags, Integers, Words, mixture
from datagen.vectorised import ProblemArray

WORDS = 5  # one chooses the part, the blog's takes 3 and the other 4

# The 15 shapes of an operand: 1 to 5 digits before the point, 0 to 2 places after it. An operand is
# an integer times a step (in hundredths), and its shape says how many digits the integer has.
_WHOLE_DIGITS, _PLACES = np.divmod(np.arange(15), 3) + np.array([[1], [0]])
_STEP = 10 ** (2 - _PLACES)
_SMALLEST = 10 ** (_WHOLE_DIGITS - 1 + _PLACES) * (_WHOLE_DIGITS > 1)  # 0 has one digit, too
_COUNT = 10 ** (_WHOLE_DIGITS + _PLACES) - _SMALLEST


def calculator(words: Words) -> ProblemArray:
    """n problems, a quarter of them the blog's, the rest balanced; words: (WORDS, n)."""
    return mixture(words, (_blog, balanced, balanced, balanced))


def balanced(words: Words) -> ProblemArray:
    """n problems whose operands have all shapes equally often, from words of shape (4, n).

    An operand is uniform among those of its shape, `5.0` among those of one place, and negative
    with probability 1/4; the operation is uniform.
    """
    draws = Draws(words)
    a, a_point = _operand(draws)
    b, b_point = _operand(draws)
    return ProblemArray(a, a_point, draws.below(4).astype(np.uint8), b, b_point)


def _operand(draws: Draws) -> tuple[Integers, Flags]:
    """Operands in hundredths, and whether they have a point; each of shape (n,)."""
    shape = draws.below(len(_STEP))
    magnitude = (_SMALLEST.take(shape) + draws.below(_COUNT.take(shape))) * _STEP.take(shape)
    return magnitude * (1 - 2 * draws.once_in(4)), (_PLACES > 0).take(shape)


def _blog(words: Words) -> ProblemArray:
    return blog_problems.blog(words[: blog_problems.WORDS])
