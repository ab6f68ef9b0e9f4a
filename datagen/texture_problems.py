"""Problems with texture: numbers whose digits repeat, which a model may lose count of.

    88888888 - 8        one digit repeated            719999.6 / 179999.9   equal columns
    12121212 * 37       a period                      10000001 / 11         next to a power of ten
    11122000 + 99       blocks                        62500000 * 0.08       exactly a tie

Random digits hardly ever have runs, so a model can learn to find a digit by what stands beside it.
In a run, only its coordinates tell it apart. The rules of worked steps read a few columns, so runs
that are longer than their windows teach runs of any length.

A kind is a function as in `tricky_12_problems`. All arrays have the shape (n,).
"""

import numpy as np

from datagen.arithmetic import ADD, DIV, DRAWN_PLACES, MAX_ASKED_PLACES, MUL, SUB
from datagen.sampling import Decimals, Drawn, Flags, Integers, Sampler, either_side, split_places
from datagen.tricky_12_problems import MAX_DIGITS, Kind, any_of

WORDS = 32
MAX_SUM, MAX_PRODUCT, MAX_DIVIDEND, MAX_DIVISOR = 24, 10, 14, 9  # digits of operands
CHUNK = 9  # digits that are drawn, and put together, at a time


def textured(sampler: Sampler, lengths: Integers, max_digits: int) -> Integers:
    """Returns numbers with texture, as Python integers, (n,), of `lengths` <= `max_digits` digits.

    The digits repeat with a period of 1 to 5, form runs, read the same backwards, or are random.
    Over them, a third of the numbers have one other digit, and a third a run of any length. One in
    eight is a digit and zeros, or next to such a number.
    """
    n, index = len(lengths), np.arange(max_digits)
    digits = _digits(sampler, max_digits)
    period = sampler.choice((1, 1, 1, 2, 2, 3, 4, 5))[:, None]
    starts = sampler.below(1 << max_digits)[:, None] >> index & 1  # of runs
    mirror = np.minimum(index, np.abs(lengths[:, None] - 1 - index))
    sources = (index % period, starts.cumsum(axis=1) % max_digits, mirror, index)
    base = sampler.choice((0, 0, 0, 1, 1, 2, 3, 3))[:, None]
    chosen = np.choose(base, [np.broadcast_to(source, (n, max_digits)) for source in sources])
    digits = np.take_along_axis(digits, chosen, axis=1)
    first, length = sampler.below(lengths), 1 + sampler.below(lengths)
    covered = sampler.choice((0, 1, 2))  # by nothing, another digit, a run
    end = first + np.choose(covered, (0 * length, 0 * length + 1, length))
    is_covered = (index >= first[:, None]) & (index < end[:, None])
    digits = np.where(is_covered, sampler.below(10)[:, None], digits)
    digits[:, 0] = np.where(digits[:, 0] == 0, 1 + sampler.below(9), digits[:, 0])
    powers = 10 ** np.arange(max_digits, dtype=object)
    numbers = digits.astype(object) @ powers[::-1] // powers.take(max_digits - lengths)
    round_number = powers.take(lengths - 1) * (1 + sampler.below(9))
    beside = np.abs(round_number + sampler.choice((-1, 0, 1))) + (round_number == 0)
    result: Integers = np.where(sampler.one_in(8), np.maximum(beside, 1), numbers)
    return result


def _digits(sampler: Sampler, count: int) -> Integers:
    """Returns random digits, (n, count)."""
    powers = 10 ** np.arange(CHUNK)
    chunks = [sampler.below(10**CHUNK)[:, None] // powers % 10 for _ in range(0, count, CHUNK)]
    return np.concatenate(chunks, axis=1)[:, :count]


def _number(sampler: Sampler, max_digits: int) -> Integers:
    return textured(sampler, 1 + sampler.below(max_digits), max_digits)


def _places(sampler: Sampler) -> Integers:
    """Returns no places for half of the numbers, and 1 to 9 for the others."""
    return (1 + sampler.below(DRAWN_PLACES)) * sampler.one_in(2)


def _sums(sampler: Sampler, places: Integers) -> Drawn:
    """A sum or difference of numbers with texture: 8 - 888888888888."""
    a, b = _number(sampler, MAX_SUM), _number(sampler, MAX_SUM)
    shared, other = _places(sampler), _places(sampler)
    b_places = np.where(sampler.one_in(2), shared, other)
    return Decimals(a, shared), sampler.choice((ADD, SUB)), Decimals(b, b_places)


def _textured_sums(sampler: Sampler, places: Integers) -> Drawn:
    """A sum or difference that has texture: 5432109 + 4567890.1."""
    answer, a = _number(sampler, MAX_SUM - 1), _number(sampler, MAX_SUM - 1)
    is_sum = (a < answer) & sampler.one_in(2)
    return _with_answer(sampler, a, answer, is_sum, _places(sampler))


def _nearly_equal(sampler: Sampler, places: Integers) -> Drawn:
    """Numbers that differ in one digit, or not at all: 7777177 - 7777777."""
    lengths = 1 + sampler.below(MAX_SUM - 1)
    a = textured(sampler, lengths, MAX_SUM)
    power = 10 ** sampler.below(lengths).astype(object)
    b = np.abs(a + power * (sampler.below(19) - 9))
    shared = _places(sampler)
    return Decimals(a, shared), sampler.choice((ADD, SUB, SUB, SUB)), Decimals(b, shared)


def _sum_ties(sampler: Sampler, places: Integers) -> Drawn:
    """A sum or difference at the middle between two answers, or up to a tenth above it, whatever is
    rounded off: 0.1234 + 0.8766005 to five places, 0.0002 - 0.0057 to two."""
    places = np.minimum(places, MAX_ASKED_PLACES - 1)
    dropped = 1 + sampler.below(np.minimum(12, MAX_ASKED_PLACES - places))
    half = 5 * 10 ** (dropped - 1).astype(object)
    answer = 2 * half * (_number(sampler, 8) * ~sampler.one_in(4)) + half
    above = sampler.below(np.maximum(half // 5, 1)) * sampler.one_in(3)
    answer += np.where(above, above, sampler.choice((0, 0, 0, -1, 1)))
    a = _number(sampler, MAX_SUM)
    is_sum = (a < answer) & sampler.one_in(2)
    return _with_answer(sampler, a, answer, is_sum, places + dropped)


def _with_answer(
    sampler: Sampler, a: Integers, answer: Integers, is_sum: Flags, places: Integers
) -> Drawn:
    """The sum of a and another number that has an answer, or their difference, in either order."""
    first, second = np.where(is_sum, a, answer + a), np.where(is_sum, answer - a, a)
    one, other = either_side(sampler, Decimals(first, places), Decimals(second, places))
    return one, np.where(is_sum, ADD, SUB), other


def _products(sampler: Sampler, places: Integers) -> Drawn:
    """A product of numbers with texture: 44444444 * 9272."""
    a, b = _number(sampler, MAX_PRODUCT), _number(sampler, MAX_PRODUCT)
    return Decimals(a, _places(sampler)), MUL, Decimals(b, _places(sampler))


def _quotients(sampler: Sampler, places: Integers) -> Drawn:
    """A quotient of numbers with texture: 93999999999 / 0.99."""
    a, b = _number(sampler, MAX_DIVIDEND), _number(sampler, MAX_DIVISOR)
    return Decimals(a, _places(sampler)), DIV, Decimals(b, _places(sampler))


def _multiples(sampler: Sampler, places: Integers) -> Drawn:
    """A quotient of a multiple, or of a number beside one: 719999.6 / 179999.9."""
    b, q = _number(sampler, MAX_DIVISOR), _number(sampler, 5)
    beside = np.choose(sampler.below(4), (sampler.below(19) - 9, 0 * b, b // 2, b - 1))
    a = np.maximum(b * q + beside, 1)
    return Decimals(a, _places(sampler)), DIV, Decimals(b, _places(sampler))


def _round_numbers(sampler: Sampler, places: Integers) -> Drawn:
    """A quotient of numbers near round ones, whose remainders are runs of nines and zeros:
    719999.6 / 179999.9."""
    parts = []
    for max_digits in (MAX_DIVIDEND, MAX_DIVISOR):
        leading = 1 + sampler.below(sampler.choice((9, 99, 999)))
        power = 10 ** sampler.below(max_digits - 2).astype(object)
        beside = sampler.choice((-1, -1, -1, 0, 1)) * (
            1 + sampler.below(sampler.choice((1, 1, 50)))
        )
        parts.append(np.maximum(leading * power + beside, 1))
    return Decimals(parts[0], _places(sampler)), DIV, Decimals(parts[1], _places(sampler))


def _product_ties(sampler: Sampler, places: Integers) -> Drawn:
    """A product at the middle between two answers, or beside it, of any size: 0.0625 * 8.2."""
    places = np.minimum(places, 2 * DRAWN_PLACES - 1)
    dropped = 1 + sampler.below(np.minimum(8, 2 * DRAWN_PLACES - places))
    modulus = 10 ** dropped.astype(object)
    # The power of 2 or 5 in a is so small that the product can be the middle.
    a = 2 * _number(sampler, 7) + 1
    a += 2 * np.equal(a % 5, 0)
    target = modulus // 2 + sampler.choice((0, 0, -1, 1)) * sampler.choice((1, 1, 10))
    pairs = zip(a.tolist(), modulus.tolist(), strict=True)
    inverse = np.array([pow(number, -1, base) for number, base in pairs], object)
    b = target * inverse % modulus + modulus * (_number(sampler, 3) * sampler.one_in(2))
    share = 2 ** np.minimum(sampler.below(6), dropped).astype(object)
    # a * share times b / share, where b is a multiple: other factors with the same product
    exact = np.equal(b % share, 0)
    a, b = np.where(exact, a * share, a), np.where(exact, b // share, b)
    a_places, b_places = split_places(sampler, places + dropped)
    first, second = either_side(sampler, Decimals(a, a_places), Decimals(b, b_places))
    return first, MUL, second


def _quotient_ties(sampler: Sampler, places: Integers) -> Drawn:
    """A quotient at the middle between two answers, or beside it, of any size: 2.5 / 10000."""
    b = _number(sampler, MAX_DIVISOR)
    middle = 10 * _number(sampler, 5) * ~sampler.one_in(4) + 5
    fewer = np.minimum(sampler.below(4), places)
    a_places = places + 1 - fewer
    b_places = sampler.below(4) * sampler.one_in(2)
    power = 10 ** fewer.astype(object)
    beside = sampler.choice((0, 0, -1, 1)) * (1 + sampler.below(sampler.choice((1, 10, 1000))))
    a = np.maximum((b * middle + beside) // power, 1)
    return (
        Decimals(a, np.minimum(a_places + b_places, MAX_ASKED_PLACES)),
        DIV,
        Decimals(b, b_places),
    )


def _short_sums(sampler: Sampler, places: Integers) -> Drawn:
    """A sum or difference of one to three digits, half of them of two negatives: -3 - -5."""
    a, b = (sampler.of_length(1 + sampler.below(3), 3) for _ in range(2))
    shared, both = sampler.below(3), sampler.one_in(2)
    op = sampler.choice((ADD, SUB))
    return Decimals(a, shared).negated(both), op, Decimals(b, shared).negated(both)


def _last_rows(sampler: Sampler, places: Integers) -> Drawn:
    """A quotient of few digits whose last one is large after a second choice, with and without
    digits of a below the rows: 60.788 / 107."""
    b = _number(sampler, MAX_DIGITS)
    answer = _number(sampler, 3) * ~sampler.one_in(3)
    hundredths = 100 * answer + sampler.choice((0, 25, 65)) + sampler.below(11)
    more = np.minimum(sampler.below(4) * sampler.one_in(2), MAX_ASKED_PLACES - places)
    power = 10 ** more.astype(object)
    a = b * hundredths // 100 * power + sampler.below(1000) % power
    return Decimals(np.maximum(a, 1), places + more), DIV, Decimals(b, 0 * places)


def any_number_of_places(sampler: Sampler) -> Integers:
    """Returns the places of answers: 2 in 2/8 of the problems, 8 in 2/8, 0 to 9 in 3/8, and 10 to
    30 in 1/8."""
    common, few = sampler.choice((2, 2, 8, 8, 0, 0, 0, 10)), sampler.below(DRAWN_PLACES + 1)
    many = DRAWN_PLACES + 1 + sampler.below(MAX_ASKED_PLACES - DRAWN_PLACES)
    return np.select([common == 0, common == 10], [few, many], common)


KINDS: dict[str, Kind] = {
    "sums": _sums,
    "textured sums": _textured_sums,
    "nearly equal": _nearly_equal,
    "products": _products,
    "quotients": _quotients,
    "multiples": _multiples,
    "round numbers": _round_numbers,
    "product ties": _product_ties,
    "quotient ties": _quotient_ties,
    "short sums": _short_sums,
    "last rows": _last_rows,
}
TIES = {"sum ties": _sum_ties, "product ties": _product_ties, "quotient ties": _quotient_ties}
texture = any_of(KINDS.values(), any_number_of_places)
ties = any_of(TIES.values(), any_number_of_places)
