"""Rows of digits as automata: each digit follows from one column and from what the column before
left. So a few columns bring a row into any state that it can be in, and every case of its rules can
be written where it is wanted, between any neighbours.

Shapes: S states, X inputs (the digits of a column).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, reduce
from itertools import product
from random import Random

import numpy as np

from datagen.rules import MINUS, PLUS, ZERO
from datagen.slots import Kind
from tools.cases.rules import STEP_OF, Ints

Input = tuple[int, ...]  # digits of a column
State = tuple[int | None, ...]  # None if there is no column before
TRIES = 50  # of a way
COLUMNS: list[Input] = list(product(range(10), repeat=2))


@dataclass(frozen=True, eq=False)
class Row:
    """An automaton that writes a row from its lowest digit on.

    `fixed` is the same for the whole row. `cases` are those of the kinds, (S, X). The lowest digit
    of a sum has a kind of its own, with cases among those of SUM_DIGIT. So has the top one: those
    of SUM_TOP, (S - 1,), are one for each state but the first, because its column has no digits.
    """

    kinds: tuple[Kind, ...]
    fixed: tuple[int, ...]
    inputs: list[Input]
    start: list[int]  # states in which a row may begin
    states: list[State]
    next: list[list[int]]  # of each state, by input
    cases: dict[Kind, Ints] = field(repr=False)

    def pack(
        self, needed: list[list[int]], repeat: int, width: int, random: Random
    ) -> tuple[int, list[int]]:
        """Returns a state to begin in, and at most `width` inputs that write needed cases, each
        repeated in the columns above it. `needed` are the inputs that each state needs; takes away
        those that are written. Returns no inputs if no needed case can follow."""
        begins = [s for s in self.start if needed[s]] or [s for s, xs in enumerate(needed) if xs]
        state = random.choice(begins)
        begin, first_way = self.ways[state]
        word = list(first_way)
        while len(word) + repeat <= width:
            way = self._way(state, needed, random)
            if way is None or len(word) + len(way) + repeat > width:
                break
            for x in way:
                state = self.next[state][x]
            x = needed[state].pop()
            word += [*way, *[x] * repeat]
            for _ in range(repeat):
                state = self.next[state][x]
        return begin, word

    def after(self, word: list[int]) -> int:
        """Returns the state after a word that begins in the first state."""
        return reduce(lambda state, x: self.next[state][x], word, self.start[0])

    def _way(self, state: int, needed: list[list[int]], random: Random) -> list[int] | None:
        """Returns at most two inputs that lead to a state that needs some; None if none is found.
        A row that ends is cheaper than a long search."""
        if needed[state]:
            return []
        following = self.next[state]
        first = random.randrange(len(following))
        for x in (*range(first, len(following)), *range(first)):
            if needed[following[x]]:
                return [x]
        wanted = [s for s, inputs in enumerate(needed) if inputs and self._before[s]]
        for _ in range(TRIES if wanted else 0):
            before, x = random.choice(self._before[random.choice(wanted)])
            if before in following:
                return [following.index(before), x]
        return None

    @cached_property
    def _before(self) -> list[list[tuple[int, int]]]:
        """The states before each state, with the inputs that lead to it."""
        result: list[list[tuple[int, int]]] = [[] for _ in self.states]
        for state, following in enumerate(self.next):
            for x, after in enumerate(following):
                result[after].append((state, x))
        return result

    @cached_property
    def ways(self) -> dict[int, tuple[int, list[int]]]:
        """A shortest way into each state: the state to begin in, and inputs."""
        random = Random(0)
        result: dict[int, tuple[int, list[int]]] = {state: (state, []) for state in self.start}
        for state in (queue := list(self.start)):
            begin, way = result[state]
            for x in random.sample(range(len(self.inputs)), len(self.inputs)):
                following = self.next[state][x]
                if following not in result:
                    result[following] = begin, [*way, x]
                    queue.append(following)
        return result


def _row(
    kinds: tuple[Kind, ...],
    fixed: tuple[int, ...],
    inputs: list[Input],
    start: list[State],
    advance: Callable[[State, Input], State],
    sources: Callable[[State, Input], tuple[int, ...]],
) -> Row:
    """Makes the automaton of all states that follow from `start`. `sources` returns the characters
    that the rules of the kinds read, 0 if there is none."""
    states, index = list(start), {state: i for i, state in enumerate(start)}
    rows: list[list[int]] = []
    for state in states:
        rows.append([])
        for x in inputs:
            following = advance(state, x)
            if following not in index:
                index[following] = len(states)
                states.append(following)
            rows[-1].append(index[following])
    read = np.array([[sources(state, x) for x in inputs] for state in states], np.uint8)
    characters = list(np.moveaxis(read, 2, 0))
    cases = {}
    for kind in kinds:
        step = STEP_OF[kind]
        cases[kind] = step.first + step.cases(kind, characters)
    return Row(kinds, fixed, inputs, list(range(len(start))), states, rows, cases)


def _digit(value: int | None) -> int:
    return 0 if value is None else ZERO + value


@cache
def sum_rows() -> list[Row]:
    """Sums, fixed = (1,), and differences, (-1,): the state is the column before and the carry into
    it."""
    return [_sum_row(direction) for direction in (1, -1)]


def _sum_row(direction: int) -> Row:
    def total(state: State) -> int:
        a, b, carry = (value or 0 for value in state)
        return a + direction * (b + carry)

    def advance(state: State, x: Input) -> State:
        return (*x, int(not 0 <= total(state) < 10))

    def sources(state: State, x: Input) -> tuple[int, ...]:
        before = (0, 0, 0)
        if state[0] is not None:
            before = (_digit(state[0]), _digit(state[1]), _digit(total(state) % 10))
        return (PLUS if direction == 1 else MINUS, *map(_digit, x), *before)

    # The lowest digit is of another kind, but of the same step.
    row = _row((Kind.SUM_DIGIT,), (direction,), COLUMNS, [(None, None, None)], advance, sources)
    step, lowest = STEP_OF[Kind.SUM_LOWEST], np.array([sources((None,), x) for x in COLUMNS]).T
    row.cases[Kind.SUM_DIGIT][0] = step.first + step.cases(
        Kind.SUM_LOWEST, list(lowest.astype(np.uint8))
    )
    tops = np.array([sources(state, (0, 0)) for state in row.states[1:]], np.uint8)
    row.cases[Kind.SUM_TOP] = step.first + step.cases(Kind.SUM_TOP, list(tops.T))
    return replace(row, kinds=(*row.kinds, Kind.SUM_LOWEST))


@cache
def product_rows(first: bool) -> list[Row]:
    """Rows of products, fixed = (digit of B,): the state is the carry."""
    kinds = (
        (Kind.FIRST_DIGIT, Kind.FIRST_CARRY) if first else (Kind.PRODUCT_DIGIT, Kind.PRODUCT_CARRY)
    )
    inputs: list[Input] = [(a,) for a in range(10)] if first else COLUMNS

    def make(m: int) -> Row:
        def advance(state: State, x: Input) -> State:
            return ((m * x[0] + sum(x[1:]) + (state[0] or 0)) // 10,)

        def sources(state: State, x: Input) -> tuple[int, ...]:
            return (_digit(m), _digit(x[0]), 0 if first else _digit(x[1]), _digit(state[0]))

        return _row(kinds, (m,), inputs, [(None,)], advance, sources)

    return [make(m) for m in range(10)]


@cache
def remainder_rows(last: bool) -> list[Row]:
    """Rows of remainders, fixed = (sign, quotient digit): the state is the carry and, in the last
    row, the mark before."""
    kind = Kind.LAST_DIGIT if last else Kind.REMAINDER_DIGIT

    def make(sign: int, q: int) -> Row:
        def advance(state: State, x: Input) -> State:
            b, old = x
            total = old - sign * (q * b + (state[0] or 0))
            carry, digit = abs(total // 10), total % 10
            if not last:
                return (carry,)
            return (carry, 1 if digit == 0 and state[1] else digit)

        def sources(state: State, x: Input) -> tuple[int, ...]:
            characters = (PLUS if sign == 1 else MINUS, *map(_digit, (q, *x)), _digit(state[0]))
            return (*characters, _digit(state[1])) if last else characters

        start: list[State] = [(None, mark) for mark in range(10)] if last else [(None,)]
        row = _row((kind,), (sign, q), COLUMNS, start, advance, sources)
        carries = STEP_OF[Kind.REMAINDER_CARRY]
        if not last:  # it reads the same
            row.cases[Kind.REMAINDER_CARRY] = row.cases[kind] - STEP_OF[kind].first + carries.first
            return replace(row, kinds=(*row.kinds, Kind.REMAINDER_CARRY))
        return row

    return [make(sign, q) for sign in (1, -1) for q in range(9)]


def all_rows() -> Iterator[Row]:
    yield from sum_rows()
    for flag in (True, False):
        yield from product_rows(flag)
        yield from remainder_rows(flag)
