"""Problems whose operands have all lengths equally often, up to a bound."""

from datagen.arithmetic import MAX_PLACES, ProblemArray
from datagen.decimals import Decimals, any_places, problem_array
from datagen.drawing import Sampler, Words


def n_words(longest: int) -> int:
    """Returns how many words `wide` needs for operands of so many digits."""
    return 6 + -(-longest // 9)  # two numbers a word


def wide(words: Words, longest: int) -> ProblemArray:
    """Returns n problems from words of shape (n_words(longest), n).

    The length of an operand, its digits without leading zeros, is uniform from 1 to `longest`. Half
    of the operands are whole; the others have 1 to 9 places, all equally likely, and may begin with
    zeros: 0.00012 has two digits and five places. A quarter is negative. The operation and the
    places of the answer (1 to 9) are uniform.
    """
    sampler = Sampler(words)
    a, b = _operand(sampler, longest), _operand(sampler, longest)
    return problem_array(a, sampler.below(4), b, any_places(sampler))


def _operand(sampler: Sampler, longest: int) -> Decimals:
    places = (1 + sampler.below(MAX_PLACES)) * sampler.one_in(2)
    units = sampler.of_length(1 + sampler.below(longest), longest).astype(object)
    # A zero at the end of several places is not written: the length would be another.
    units += (units % 10 == 0) * (places > 1) * (1 + sampler.below(9))
    return Decimals(units, places).negated(sampler.one_in(4))
