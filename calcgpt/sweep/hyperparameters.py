"""Hyperparameters: what a search draws, and the value of a recipe that it stands for.

A search draws numbers only: a real number, or an index. So every algorithm knows every kind, none
rounds as it likes, and what was drawn is JSON.
"""

from __future__ import annotations

from abc import abstractmethod
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from calcgpt.config import Section
from calcgpt.registry import Registry

Value = bool | int | float | str
Drawn = int | float
MANY = 100  # values of a range that are all tried when a space is checked


class Hyperparameter(Section):
    """One axis of a space."""

    scale: ClassVar[str] = "linear"  # of its axis in a plot: linear, log or choice

    @abstractmethod
    def domain(self) -> Any:
        """What is drawn, as Ray Tune has it."""

    @abstractmethod
    def value(self, drawn: Any) -> Value:
        """The recipe's value; `drawn` may be a NumPy scalar."""

    @abstractmethod
    def examples(self) -> list[Value]:
        """All values, or, of many, the outermost."""


HYPERPARAMETERS: Registry[type[Hyperparameter]] = Registry("type of hyperparameter")


class _Range(Hyperparameter):
    low: float
    high: float

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low {self.low!r} is not below high {self.high!r}")
        return self


@HYPERPARAMETERS.register("uniform")
class Uniform(_Range):
    """A number from low to high."""

    type: Literal["uniform"]

    def domain(self) -> Any:
        from ray import tune

        return tune.uniform(self.low, self.high)

    def value(self, drawn: Any) -> Value:
        return float(drawn)

    def examples(self) -> list[Value]:
        return [self.low, self.high]


@HYPERPARAMETERS.register("loguniform")
class LogUniform(_Range):
    """A number from low to high, its logarithm uniform."""

    scale: ClassVar[str] = "log"
    type: Literal["loguniform"]
    low: Annotated[float, Field(gt=0)]

    def domain(self) -> Any:
        from ray import tune

        return tune.loguniform(self.low, self.high)

    def value(self, drawn: Any) -> Value:
        # exp(log(x)) may miss x by the last bit, and so a bound.
        return min(max(float(drawn), self.low), self.high)

    def examples(self) -> list[Value]:
        return [self.low, self.high]


class _Indexed(Hyperparameter):
    """Evenly spaced values, by their index."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many values there are."""

    def domain(self) -> Any:
        from ray import tune

        return tune.randint(0, self.count)

    def examples(self) -> list[Value]:
        few = self.count <= MANY
        return [self.value(index) for index in (range(self.count) if few else (0, self.count - 1))]


@HYPERPARAMETERS.register("quniform")
class QUniform(_Indexed, _Range):
    """low, low + q, low + 2q ... up to high."""

    type: Literal["quniform"]
    q: Annotated[float, Field(gt=0)]

    @model_validator(mode="after")
    def _has_steps(self) -> Self:
        if self.count < 2:
            raise ValueError(f"q {self.q!r} is more than what lies between low and high")
        return self

    @property
    def count(self) -> int:
        low, high, q = (Decimal(repr(number)) for number in (self.low, self.high, self.q))
        return int((high - low) // q) + 1

    def value(self, drawn: Any) -> Value:
        return float(Decimal(repr(self.low)) + int(drawn) * Decimal(repr(self.q)))


@HYPERPARAMETERS.register("int")
class Int(_Indexed):
    """A whole number from low to high, both included."""

    type: Literal["int"]
    low: int
    high: int

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low {self.low} is not below high {self.high}")
        if self.count > 2**31:
            raise ValueError("low and high are too far apart")
        return self

    @property
    def count(self) -> int:
        return self.high - self.low + 1

    def value(self, drawn: Any) -> Value:
        return self.low + int(drawn)


@HYPERPARAMETERS.register("choice")
class Choice(Hyperparameter):
    """One of several values, in no order."""

    scale: ClassVar[str] = "choice"
    type: Literal["choice"]
    values: Annotated[list[Value], Field(min_length=2, max_length=1_000)]

    @field_validator("values")
    @classmethod
    def _each_once(cls, given: list[Value]) -> list[Value]:
        if len({repr(value) for value in given}) < len(given):
            raise ValueError("a value is named twice")
        return given

    def domain(self) -> Any:
        from ray import tune

        return tune.choice(list(range(len(self.values))))

    def value(self, drawn: Any) -> Value:
        return self.values[int(drawn)]

    def examples(self) -> list[Value]:
        return self.values
