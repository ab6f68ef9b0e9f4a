"""Slots: the positions of the characters of a question and its worked steps.

A slot has a kind (which rule writes it), a row and a column (what its character is a digit of), and
sources (the positions of the characters that the rule reads). Which characters a rule reads is told
to a model. It still has to learn the rules.

Rows count from 1. Columns count from 2, lowest digit first, so that the digit brought down below a
remainder has column 1. A row or a column of 0 means that there is none.

Shapes: T slots.
"""

import threading
from array import array
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

MIN_DIVISOR = 3  # digits of a divisor; a quotient digit is chosen by that many leading digits
WIDTH = 10  # the least number of characters of an operand or an answer
MAX_WIDTH = 10_100  # the largest number of characters of an operand
PLACES = "|[013-9]|[1-9][0-9]{1,3}"  # as a question writes them; there are two if it does not
LOWEST = 2  # column of a row's lowest digit
N_KINDS = 64  # rows of a model's tables of kinds: room for kinds that are added later
MAX_SLOTS = 2**16  # of all layouts in a `ShapeCache`; one takes 40 bytes
LAYOUT = 50  # slots that take as much memory as an empty layout
MAX_LAYOUT = 2**22  # slots of a layout: a product of 1,400 by 1,400 digits

S = TypeVar("S", bound=Hashable)
T = TypeVar("T")


class Kind(IntEnum):
    """What a slot is for. One rule writes all slots of a kind (`datagen.rules`).

    The embeddings in checkpoints are indexed by these numbers: add new kinds at the end, up to
    N_KINDS.
    """

    QUESTION = 0  # the characters of the question outside the operands, or not in the notation
    A_FIELD = 1
    B_FIELD = 2
    # Operands, without point and padding
    A_SIGN = 3
    A_DIGIT = 4
    A_ZERO = 5  # a digit that the question does not write
    B_SIGN = 6
    B_SIGN_OF_SUM = 7  # a difference adds the negative
    B_DIGIT = 8
    B_ZERO = 9
    # Sums
    ADD_OR_SUBTRACT = 10
    SUM_LOWEST = 11
    SUM_DIGIT = 12
    # Products
    ROW_MARK = 13
    MULTIPLIER = 14
    FIRST_DIGIT = 15  # of the first row, which has nothing to add to
    FIRST_CARRY = 16
    PRODUCT_DIGIT = 17
    PRODUCT_CARRY = 18
    # Quotients
    REMAINDER_MARK = 19
    REMAINDER_COPY = 20  # the first remainder is the beginning of A
    REMAINDER_ZERO = 21
    BROUGHT_DOWN = 22
    BROUGHT_ZERO = 23
    DIVIDEND_SIGN = 24
    QUOTIENT_DIGIT = 25
    REMAINDER_DIGIT = 26
    REMAINDER_CARRY = 27
    QUOTIENT_ROUNDING = 28
    # The exact row, if it has more places than the result
    EXACT_MARK = 29
    SUM_BELOW = 30  # a digit below SUM_HALF
    SUM_HALF = 31  # the highest digit that is rounded off
    SUM_KEPT = 32  # a digit that the result keeps
    PRODUCT_BELOW = 33
    PRODUCT_HALF = 34
    PRODUCT_KEPT = 35
    ROUNDING = 36
    # The result
    RESULT_MARK = 37
    SUM_RESULT = 38
    PRODUCT_RESULT = 39
    ROUNDED_RESULT = 40
    ROUNDED_TOP = 41  # above the exact digits: only a carry
    QUOTIENT_RESULT = 42
    SUM_SIGN = 43
    SIGN = 44
    NAN = 45
    EQUALS = 46
    # The answer, a copy of the result
    ANSWER_DIGIT = 47
    ANSWER_ZERO = 48
    ANSWER_POINT = 49
    ANSWER_MINUS = 50
    ANSWER_N = 51
    ANSWER_A = 52
    END = 53
    LAST_DIGIT = 54  # of the last remainder, which only the rounding reads
    A_BELOW = 55  # a digit of A that is not brought down, which only the rounding reads
    SUM_TOP = 56  # says whether the sum is negative, which the rules of all columns read
    MAGNITUDE_LOWEST = 57  # of a sum that is not rounded
    MAGNITUDE_TOP = 58

    @classmethod
    def _missing_(cls, value: object) -> "Kind | None":
        """Returns a kind of an operation of a user's own: what is free, up to N_KINDS."""
        if not isinstance(value, int) or not len(cls) <= value < N_KINDS:
            return None
        kind = int.__new__(cls, value)
        kind._name_, kind._value_ = f"OUTSIDE_{value}", value
        return cast(Kind, cls._value2member_map_.setdefault(value, kind))


class StepKind(StrEnum):
    """The purpose of a character of the work, for people."""

    OPERAND = "operand rewriting"
    SUM = "sum digit"
    PRODUCT = "product row"
    QUOTIENT = "quotient digit"
    REMAINDER = "remainder digit"
    ROUNDING = "rounding"
    SIGN = "sign"
    LAYOUT = "layout"
    ANSWER = "answer"  # after the work


MAX_SOURCES = 2 * MIN_DIVISOR + 1  # of a rule


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides the layout of a question.

    `a_digits` and `b_digits` are the numbers of digits from the first that is not 0 to the lowest
    written place, at least 1. `places` is P.
    """

    op: str
    a_digits: int
    a_places: int
    b_digits: int
    b_places: int
    places: int
    a_width: int  # characters of the field
    b_width: int
    by_zero: bool = False  # a division by zero


class Slot(NamedTuple):
    """The position of one character; see the docstring of the module."""

    kind: Kind
    row: int = 0
    column: int = 0
    sources: tuple[int, ...] = ()


NOWHERE = -1  # a source that does not exist and counts as 0
_NOWHERE = (NOWHERE,) * MAX_SOURCES


@dataclass
class Layout:
    """The slots of a question and its work, in order: a sequence of `Slot`, kept as arrays.

    `result` are the positions of the result's digits, lowest first; `result_places` says how many
    of them are decimals. `sign` is the position of its sign. For nan, `result` is empty and `sign`
    is NOWHERE.
    """

    result: list[int] = field(default_factory=list)
    result_places: int = 0
    sign: int = NOWHERE
    prompt_length: int = 0
    _kinds: bytearray = field(default_factory=bytearray)
    _places: "array[int]" = field(default_factory=lambda: array("i"))  # a row and a column each
    _counts: bytearray = field(default_factory=bytearray)  # of sources
    _sources: "array[int]" = field(default_factory=lambda: array("i"))  # MAX_SOURCES each

    def __len__(self) -> int:
        return len(self._kinds)

    def put(self, kind: Kind, row: int = 0, column: int = 0, sources: Sequence[int] = ()) -> int:
        """Adds a slot and returns its position."""
        self._kinds.append(kind)
        self._places.extend((row, column))
        self._counts.append(len(sources))
        self._sources.extend((*sources, *_NOWHERE[len(sources) :]))
        return len(self._kinds) - 1

    def put_columns(
        self, kinds: tuple[Kind, Kind], row: int, shared: list[int], above: list[list[int]]
    ) -> tuple[list[int], int]:
        """Adds a digit and a carry for each column, lowest first. Both read `shared`, what is in
        their column of each row of `above`, and the carry of the column before.

        Returns the positions of the digits, and of the last carry.
        """
        n, start = len(above[0]), len(self._kinds)
        slots = np.full((n, 2, MAX_SOURCES), NOWHERE, np.int32)
        slots[:, :, : len(shared)] = shared
        count = len(shared) + len(above)
        slots[:, :, len(shared) : count] = np.array(above, np.int32).T[:, None]
        slots[1:, :, count] = start + 1 + 2 * np.arange(n - 1)[:, None]
        columns = np.arange(n)[:, None] + [LOWEST, LOWEST + 1]  # a carry is for the next column
        places = np.stack((np.full((n, 2), row), columns), axis=2)
        self._kinds.extend(kinds * n)
        self._counts.extend((count + 1,) * 2 * n)
        self._places.frombytes(places.astype(np.int32).tobytes())
        self._sources.frombytes(slots.tobytes())
        return list(range(start, start + 2 * n, 2)), start + 2 * n - 1

    @cached_property
    def kinds(self) -> NDArray[np.uint8]:
        """(T,)"""
        return np.frombuffer(bytes(self._kinds), np.uint8)

    @cached_property
    def rows(self) -> NDArray[np.int32]:
        """(T,)"""
        return np.frombuffer(self._places, np.int32)[::2]

    @cached_property
    def columns(self) -> NDArray[np.int32]:
        """(T,)"""
        return np.frombuffer(self._places, np.int32)[1::2]

    @cached_property
    def counts(self) -> NDArray[np.uint8]:
        """(T,): how many sources each slot has, those that are NOWHERE included"""
        return np.frombuffer(bytes(self._counts), np.uint8)

    @cached_property
    def sources(self) -> NDArray[np.int32]:
        """(T, MAX_SOURCES), NOWHERE for what a slot does not read"""
        return np.frombuffer(self._sources, np.int32).reshape(-1, MAX_SOURCES)

    def __getitem__(self, position: int) -> Slot:
        if not 0 <= position < len(self._kinds):
            raise IndexError(position)
        start = position * MAX_SOURCES
        read = self._sources[start : start + self._counts[position]]
        row, column = self._places[2 * position : 2 * position + 2]
        return Slot(Kind(self._kinds[position]), row, column, tuple(read))


def position_of(positions: list[int], index: int) -> int:
    """Returns the position of a digit, or NOWHERE if the row has no such digit."""
    return positions[index] if 0 <= index < len(positions) else NOWHERE


class ShapeCache(Generic[S, T]):
    """A function of shapes, or of what contains some, that keeps its results until they describe
    more than MAX_SLOTS slots. A result of more is not kept.

    Clients of a service choose the shapes, and a layout may have 50 slots or millions. So a limit
    on the number of shapes would not limit the memory.
    """

    def __init__(self, function: Callable[..., T], n_slots: Callable[[Any], int]) -> None:
        """`n_slots` returns how many slots a result describes."""
        self._function, self.n_slots = function, n_slots
        self._results: dict[S, T] = {}
        self._lock = threading.Lock()
        self.currsize = 0  # slots
        self.__doc__ = function.__doc__

    def __call__(self, shape: S, *known: Any) -> T:
        """Returns the function's result for a shape. `known` is what the function takes besides,
        and follows from the shape."""
        result = self._results.get(shape)
        if result is not None:
            return result
        result = self._function(shape, *known)
        n_slots = LAYOUT + self.n_slots(result)
        if n_slots > MAX_SLOTS:
            return result
        with self._lock:
            if self.currsize + n_slots > MAX_SLOTS:
                self._results.clear()
                self.currsize = 0
            self._results[shape] = result
            self.currsize += n_slots
        return result


def shape_cache(n_slots: Callable[[Any], int]) -> Callable[[Callable[..., T]], ShapeCache[Any, T]]:
    """Makes a `ShapeCache` of a function; `n_slots` returns how many slots a result describes."""
    return lambda function: ShapeCache(function, n_slots)
