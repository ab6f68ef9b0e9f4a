"""What an operation is."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from calcgpt.base.errors import ConfigError
from datagen.operations.parts import Question
from datagen.rules import Rule
from datagen.slots import Kind, Layout, Shape, StepKind


def no_work(*_: Any) -> Any:
    """Raises ConfigError: an operation without worked steps has no layout."""
    raise ConfigError("an operation has no worked steps: use the format 'direct'")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Operation(str):
    """An operation on two numbers. As a string it is its sign in the notation of problems.

    `exact` returns the numerator and the denominator of a result, given two operands in units of
    1 / `unit`; b is not 0 if the operation `divides`. It works with Python's integers and with
    arrays. `layout` puts the slots of the worked steps after those of the question. `length`
    returns how many it puts, at once: clients of a service choose the shapes. `rules` write the
    slots, but for those of `datagen.rules.COMMON`. Without these three, it has no worked steps, and
    models answer it at once. The page runs translations of the three
    functions (`make tables`), so they use only what `tools.javascript` understands.
    """

    sign: str
    name: str  # for people
    symbol: str  # as it is printed
    # As people write it. The first is its sign in expressions.
    spellings: tuple[str, ...]
    # Words before two numbers: those words, the word between, whether the second comes first.
    pairs: tuple[tuple[str, str, bool], ...] = ()
    rank: int  # precedence
    exact: Callable[[Any, Any, int], tuple[Any, Any]]
    layout: Callable[[Layout, Shape, Question], None] = no_work
    length: Callable[[Shape], int] = no_work
    rules: dict[StepKind, dict[Kind, Rule]] = field(default_factory=dict)
    colour: str = "black"  # of plots; see `calcgpt_lab.plots.PALETTE`
    marker: str = "D"  # of plots
    commutes: bool = False
    grows: bool = False  # a result may have as many digits as both operands together
    divides: bool = False  # there is no result if b is 0
    has_point: bool = False  # the result of whole numbers, too, has a point

    def __new__(cls, sign: str, **_: Any) -> Self:
        _KNOWN[sign] = operation = super().__new__(cls, sign)
        return operation

    def __reduce__(self) -> tuple[Any, ...]:
        """An operation is one object in every process."""
        return _known, (self.sign,)

    @property
    def formula(self) -> str:
        """The operation of two unknown numbers: `A × B`."""
        return f"A {self.symbol} B"


def _known(sign: str) -> Operation:
    return _KNOWN[sign]


_KNOWN: dict[str, Operation] = {}  # by sign
