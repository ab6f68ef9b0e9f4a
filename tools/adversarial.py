"""Problems that are made to break a model, by class. No training draws from them.

Random digits hardly ever have runs, ties or carries across a whole number. `CLASSES` have them in
every operation they can occur in, up to 40 digits in sums and 20 in factors and divisors, of either
sign.
"""

from collections.abc import Callable
from random import Random
from typing import TypeAlias

from datagen.arithmetic import MAX_ASKED_PLACES, USUAL_PLACES, Number, Problem, ProblemArray
from datagen.operations import (
    ADDITION,
    DIVISION,
    MULTIPLICATION,
    OPERATIONS,
    SUBTRACTION,
    Operation,
)

MAX_SUM, MAX_FACTOR = 40, 20  # digits
PLACES = (0, 1, 2, 2, 2, 3, 5, 8, 8, 8, 9)  # of answers
# Two operands, without signs, and the operation between them
Pair: TypeAlias = tuple[Number, Operation, Number]
Class: TypeAlias = Callable[[Random, int], Pair]  # of the places of the answer


def number(units: int, places: int = 0) -> Number:
    """Returns units / 10**places, without superfluous zeros."""
    while places > 1 and units % 10 == 0:
        units, places = units // 10, places - 1
    return Number(units, places)


def length(random: Random, op: Operation) -> int:
    return random.randint(1, MAX_SUM if op in (ADDITION, SUBTRACTION) else MAX_FACTOR)


def digits(random: Random, count: int, alphabet: str = "0123456789") -> int:
    """Returns a number of `count` digits of the alphabet that does not begin with 0."""
    first = random.choice([character for character in alphabet if character != "0"])
    return int(first + "".join(random.choices(alphabet, k=count - 1)))


def some_places(random: Random) -> int:
    return random.choice((0, 0, 0, random.randint(1, 9)))


def of_texts(make: Callable[[Random, int], int], *operations: Operation) -> Class:
    """Returns the class of two numbers that `make` makes of a length."""

    def draw(random: Random, places: int) -> Pair:
        op = random.choice(operations or OPERATIONS)
        a, b = (make(random, length(random, op)) for _ in range(2))
        return number(a, some_places(random)), op, number(b, some_places(random))

    return draw


def one_of_texts(make: Callable[[Random, int], int]) -> Class:
    """Returns the class of a number that `make` makes, and a short or random one."""

    def draw(random: Random, places: int) -> Pair:
        op = random.choice(OPERATIONS)
        a = make(random, length(random, op))
        b = digits(random, random.choice((1, 2, length(random, op))))
        pair = [number(a, some_places(random)), number(b, some_places(random))]
        random.shuffle(pair)
        return pair[0], op, pair[1]

    return draw


def run(random: Random, count: int) -> int:
    return int(random.choice("123456789") * count)


def faulty_run(random: Random, count: int) -> int:
    text = list(str(run(random, count)))
    text[random.randrange(count)] = random.choice("0123456789")
    return int("".join(text)) or 7


def inner_run(random: Random, count: int) -> int:
    text = str(digits(random, count))
    start, size = random.randrange(count), random.randint(1, count)
    return (
        int((text[:start] + random.choice("0123456789") * size + text[start + size :])[:count]) or 3
    )


def period(random: Random, count: int) -> int:
    unit = str(digits(random, random.randint(2, 6)))
    return int((unit * count)[:count])


def blocks(random: Random, count: int) -> int:
    text = random.choice("123456789")
    while len(text) < count:
        text += random.choice("0123456789") * random.randint(1, count)
    return int(text[:count])


def palindrome(random: Random, count: int) -> int:
    half = str(digits(random, (count + 1) // 2))
    return int(half + half[::-1][count % 2 :])


def two_digits(random: Random, count: int) -> int:
    return digits(random, count, random.choice(("09", "45", "19", "90", "01", "89", "27")))


def beside_power(random: Random, count: int) -> int:
    power = int("1" + "0" * (count - 1))
    return max(1, power * random.choice((1, 1, 2, 5, 9)) + random.randint(-2, 2))


def inner_zeros(random: Random, count: int) -> int:
    power = int("1" + "0" * (count - 1))
    return power * random.randint(1, 9) + random.randint(1, 99) % power


def with_answer(random: Random, total: int, a: int, places: int, is_sum: bool) -> Pair:
    """Returns a and another number. Their sum is `total`, or they differ by it, in either order."""
    if is_sum and a < total:
        return number(a, places), ADDITION, number(total - a, places)
    first, second = random.sample((total + a, a), 2)
    return number(first, places), SUBTRACTION, number(second, places)


def sum_of(make: Callable[[Random, int], int]) -> Class:
    """Returns the class of sums and differences whose answers, exact or rounded, `make` makes."""

    def draw(random: Random, places: int) -> Pair:
        total, a = (
            make(random, random.randint(1, MAX_SUM - 1)),
            digits(random, random.randint(1, 39)),
        )
        return with_answer(random, total, a, some_places(random), random.random() < 0.5)

    return draw


def carry_across(random: Random, places: int) -> Pair:
    """999...9 + 1, with any digit that begins or ends the carry."""
    count = random.randint(2, MAX_SUM - 1)
    low = random.randrange(count)
    a = 10**count - 10**low + random.randint(0, 10**low - 1)
    return number(a), ADDITION, number(10**low * random.randint(1, 9))


def borrow_across(random: Random, places: int) -> Pair:
    """1000...0 - 1, with any digits at both ends."""
    count = random.randint(2, MAX_SUM - 1)
    a, b = random.randint(1, 9) * 10**count + random.randint(0, 9), random.randint(1, 99)
    return (
        (number(a), SUBTRACTION, number(b))
        if random.random() < 0.7
        else (number(b), SUBTRACTION, number(a))
    )


def equal_but_one(random: Random, places: int) -> Pair:
    make = random.choice((run, period, blocks, digits))
    count = random.randint(1, MAX_SUM)
    a = make(random, count)
    b = abs(a + random.choice((-1, 1)) * random.randint(0, 9) * 10 ** random.randrange(count))
    shared = some_places(random)
    return number(a, shared), random.choice((ADDITION, SUBTRACTION, SUBTRACTION)), number(b, shared)


def unlike_lengths(random: Random, places: int) -> Pair:
    op = random.choice(OPERATIONS)
    long = MAX_SUM if op in (ADDITION, SUBTRACTION) else MAX_FACTOR
    make = random.choice((run, digits, period))
    pair = [
        number(random.randint(1, 9)),
        number(make(random, random.randint(long - 8, long)), some_places(random)),
    ]
    random.shuffle(pair)
    return pair[0], op, pair[1]


def multiple(least: int, most: int) -> Class:
    """Returns the class of quotients of a multiple of B plus `least` to `most`."""

    def draw(random: Random, places: int) -> Pair:
        make = random.choice((run, inner_run, blocks, digits, beside_power))
        b, q = (
            make(random, random.randint(1, MAX_FACTOR)),
            random.choice((run, digits))(random, random.randint(1, 9)),
        )
        a = max(1, b * q + random.randint(least, most))
        return number(a, some_places(random)), DIVISION, number(b, some_places(random))

    return draw


def nines_of_remainder(random: Random, places: int) -> Pair:
    """719999.6 / 179999.9: remainders of runs of nines and zeros."""
    b = random.randint(1, 99) * 10 ** random.randint(2, 12) - random.choice((1, 1, 2, 10, -1))
    a = random.randint(1, 999) * 10 ** random.randint(2, 14) + random.choice((-40, -4, -1, 0, 1, 9))
    return number(max(a, 1), some_places(random)), DIVISION, number(b, some_places(random))


def near_one(random: Random, places: int) -> Pair:
    count = random.randint(2, MAX_FACTOR)
    b = random.choice((run, digits, blocks))(random, count)
    a = max(1, b * 10 ** random.randint(0, 4) + random.randint(-9, 9))
    return number(a, some_places(random)), DIVISION, number(b, some_places(random))


def sum_tie(off: tuple[int, ...]) -> Class:
    """Returns the class of sums at the middle between two answers, or `off` in the last place."""

    def draw(random: Random, places: int) -> Pair:
        drop = random.randint(1, 10)
        middle = random.randrange(10 ** random.randint(1, 20)) * 10**drop + 5 * 10 ** (drop - 1)
        total, a = middle + random.choice(off), digits(random, random.randint(1, 24))
        return with_answer(random, total, a, min(places + drop, MAX_ASKED_PLACES), True)

    return draw


def up_from_nothing(random: Random, places: int) -> Pair:
    """0.0002 - 0.0057 to two places: an answer of one unit that is little more than a half."""
    drop = random.randint(2, 10)
    total = 5 * 10 ** (drop - 1) + random.randrange(1, 10 ** (drop - 1))
    a = digits(random, random.randint(1, 24))
    return with_answer(
        random, total, a, min(places + drop, MAX_ASKED_PLACES), random.random() < 0.3
    )


def product_tie(off: tuple[int, ...]) -> Class:
    """Returns the class of products at the middle between two answers, or `off` beside it."""

    def draw(random: Random, places: int) -> Pair:
        drop = random.randint(1, 12)
        a = 2 * random.randrange(10 ** random.randint(1, 8)) + 1
        a += 2 * (a % 5 == 0)
        modulus = 10**drop
        target = modulus // 2 + random.choice(off)
        b = target * pow(a, -1, modulus) % modulus + modulus * random.randrange(
            10 ** random.randint(0, 4)
        )
        share = 2 ** random.randint(0, 8)
        if b % share == 0:
            a, b = a * share, b // share
        total = min(places + drop, 2 * MAX_ASKED_PLACES)
        a_places = random.randint(max(0, total - MAX_ASKED_PLACES), min(total, MAX_ASKED_PLACES))
        return number(a, a_places), MULTIPLICATION, number(max(b, 1), total - a_places)

    return draw


def quotient_tie(off: tuple[int, ...]) -> Class:
    """Returns the class of quotients at the middle between two answers, or `off` beside it."""

    def draw(random: Random, places: int) -> Pair:
        b = random.choice((run, digits, beside_power, two_digits))(
            random, random.randint(1, MAX_FACTOR)
        )
        middle = 10 * random.randrange(10 ** random.randint(0, 8)) + 5
        a, b_places = (
            max(1, b * middle + random.choice(off)),
            random.choice((0, 0, random.randint(1, 9))),
        )
        return number(a, places + 1 + b_places), DIVISION, number(b, b_places)

    return draw


def nothing_left(random: Random, places: int) -> Pair:
    """Answers that are 0 or round to 0, of either sign."""
    op = random.choice(OPERATIONS)
    small = number(random.randint(1, 60), min(places + 2, MAX_ASKED_PLACES))
    if op == MULTIPLICATION:
        return small, op, number(random.randint(0, 99), 2)
    if op == DIVISION:
        return small, op, number(random.randint(1, 10**9))
    other = number(digits(random, random.randint(1, MAX_SUM)), some_places(random))
    return other, op, other


def new_first_digit(random: Random, places: int) -> Pair:
    """999.995 + 0.001: the rounding carries into a new digit."""
    drop = random.randint(1, 8)
    total = 10 ** (places + drop + random.randint(0, 12)) - random.randint(1, 6 * 10 ** (drop - 1))
    a = random.randrange(1, total) if total > 1 else 1
    return with_answer(random, total, a, places + drop, random.random() < 0.5)


CLASSES: dict[str, Class] = {
    "runs": of_texts(run),
    "a run and another": one_of_texts(run),
    "runs with a fault": of_texts(faulty_run),
    "runs inside": of_texts(inner_run),
    "periods": of_texts(period),
    "a period and another": one_of_texts(period),
    "blocks": of_texts(blocks),
    "palindromes": of_texts(palindrome),
    "two digits": of_texts(two_digits),
    "beside powers": of_texts(beside_power),
    "a power and another": one_of_texts(beside_power),
    "zeros inside": of_texts(inner_zeros),
    "sums to a run": sum_of(run),
    "sums to a power": sum_of(beside_power),
    "carries across": carry_across,
    "borrows across": borrow_across,
    "equal but one": equal_but_one,
    "unlike lengths": unlike_lengths,
    "multiples": multiple(0, 0),
    "beside multiples": multiple(-9, 9),
    "nines of remainders": nines_of_remainder,
    "near one": near_one,
    "sum ties": sum_tie((0,)),
    "beside sum ties": sum_tie((-1, 1)),
    "up from nothing": up_from_nothing,
    "product ties": product_tie((0,)),
    "beside product ties": product_tie((-1, 1)),
    "quotient ties": quotient_tie((0,)),
    "beside quotient ties": quotient_tie((-1, 1)),
    "nothing left": nothing_left,
    "new first digits": new_first_digit,
}


def negated(value: Number, negative: bool) -> Number:
    return Number(-value.units, value.places) if negative else value


def problems_of_class(name: str, n: int, seed: int) -> ProblemArray:
    """Returns n problems of a class, a quarter of the operands negative."""
    random = Random(f"{name} {seed}")
    problems = []
    for _ in range(n):
        places = random.choice(PLACES)
        a, op, b = CLASSES[name](random, places)
        a, b = (negated(value, random.random() < 0.25) for value in (a, b))
        problems.append(Problem(a, op, b, places))
    return ProblemArray.from_problems(problems)


def one_digit_repeated(seed: int, longest: int = 40) -> ProblemArray:
    """Returns A op B where one of both is a digit, 1 to 9, repeated 1 to `longest` times.

    All digits and lengths, in all operations, on both sides, of both signs, each with three
    partners: another digit, a number of two to six digits and one of any length.
    """
    random = Random(f"one digit repeated {seed}")
    problems: list[Problem] = []
    for digit in "123456789":
        for count in range(1, longest + 1):
            for op in OPERATIONS:
                for size in (1, random.randint(2, 6), random.randint(1, longest)):
                    for negative in (False, True):
                        pair = [
                            negated(Number(int(digit * count)), negative),
                            Number(digits(random, size)),
                        ]
                        pair = pair if len(problems) % 4 < 2 else pair[::-1]
                        problems.append(Problem(pair[0], op, pair[1], USUAL_PLACES))
    return ProblemArray.from_problems(problems)
