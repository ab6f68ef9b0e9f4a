"""Hyperparameters: what a search draws, and the value of a recipe that it stands for.

A search draws numbers only: a real number, or an index. So every algorithm knows every kind, none
rounds as it likes, and what was drawn is JSON.

Spaces: what a sweep searches, and how, as a TOML file.

A space lays a table over a recipe, and over that the values of each trial.
"""

from __future__ import annotations

import itertools
import math
import random
from abc import abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, SerializeAsAny, field_validator, model_validator

from calcgpt.config import Recipe, Section
from calcgpt.errors import ConfigError, look_up
from calcgpt.recipe import build, load_recipe, names_in, read_toml

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


class _Range(Hyperparameter):
    low: float
    high: float

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low {self.low!r} is not below high {self.high!r}")
        return self


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


SWEEPS = resources.files("calcgpt") / "sweeps"
CHECKED = 1_000  # combinations of values that are tried before anything runs
METRICS: dict[str, Literal["min", "max"]] = {
    "val_loss": "min",
    "val_char_accuracy": "max",
    "val_exact_match": "max",
}
# What all trials must have in common to be compared, and what [search] says.
_OF_THE_SWEEP = {
    f"train.{field}"
    for field in ("steps", "eval_interval", "eval_batches", "eval_problems", "checkpoint_interval")
}


class Search(Section):
    """How the space is searched."""

    algorithm: str | None = Field(None, description="proposes values; null: optuna, or bohb's own")
    scheduler: str = Field("asha", description="ends trials early")
    metric: str = Field("val_loss", description="what is to become small or, of scores, large")
    trials: int = Field(ge=1, le=100_000)
    max_steps: int | None = Field(None, ge=1, description="of a trial; null: as the recipe")
    grace_steps: int = Field(ge=1, description="steps between validations: the least of a trial")
    reduction_factor: int = Field(3, ge=2, description="one in so many goes on after each rung")
    seed: int = Field(0, ge=0, lt=2**31)

    @field_validator("metric")
    @classmethod
    def _known(cls, given: str) -> str:
        if given not in METRICS:
            raise ValueError(f"unknown metric {given!r}; valid names: {', '.join(METRICS)}")
        return given

    @property
    def mode(self) -> Literal["min", "max"]:
        """Whether the metric is to become small or large."""
        return METRICS[self.metric]


class Space(Section):
    """A sweep: a file in `calcgpt/sweeps/`, or one's own."""

    description: str = ""
    recipe: str = Field(description="what all trials are laid over")
    fixed: dict[str, Any] = Field({}, description="tables of a recipe, laid over it first")
    search: Search
    space: Annotated[dict[str, SerializeAsAny[Hyperparameter]], Field(min_length=1)]

    @model_validator(mode="after")
    def _searchable(self) -> Self:
        for name in self.space:
            if name in _OF_THE_SWEEP:
                raise ValueError(f"{name} is the same in all trials: no hyperparameter")
        steps, grace = self.max_steps, self.search.grace_steps
        if steps % grace:
            raise ValueError(f"grace_steps {grace} does not divide max_steps {steps}")
        self._check_combinations()
        return self

    @property
    def max_steps(self) -> int:
        """The longest training of a trial."""
        return self.search.max_steps or self.base().train.steps

    @property
    def rounds(self) -> int:
        """Validations of a trial that is not ended early."""
        return self.max_steps // self.search.grace_steps

    def base(self) -> Recipe:
        """The recipe with the fixed table, and no hyperparameter."""
        return load_recipe(self.recipe, overlays=[self.fixed])

    def recipe_of(self, values: Mapping[str, Value]) -> Recipe:
        """The recipe with the values of some or all hyperparameters, as a person would train it;
        raises ConfigError where they are none of a recipe."""
        try:
            return load_recipe(self.recipe, overlays=[self.fixed, *map(_overlay, values.items())])
        except ConfigError as error:
            said = ", ".join(f"{name} = {value!r}" for name, value in values.items())
            raise ConfigError(f"with {said}: {error}") from None

    def trial_recipe(self, values: Mapping[str, Value]) -> Recipe:
        """That recipe for a trial: as long as the sweep says, and saved at every validation."""
        recipe, grace = self.recipe_of(values), self.search.grace_steps
        train = recipe.train.model_copy(
            update={
                "steps": self.max_steps,
                "eval_interval": grace,
                "checkpoint_interval": grace,
                # A round is told with the next row after its checkpoint; see `calcgpt.lab.trials`.
                "log_interval": min(recipe.train.log_interval, max(1, grace // 20)),
            }
        )
        return recipe.model_copy(update={"train": train})

    def _check_combinations(self) -> None:
        """Refuse a space that holds what is no recipe. All combinations are tried where they are
        few; else as many random ones, every value that was listed among them."""
        examples = {name: each.examples() for name, each in self.space.items()}
        if math.prod(map(len, examples.values())) <= CHECKED:
            rows = list(itertools.product(*examples.values()))
        else:
            shuffle = random.Random(0)
            columns = (
                [value for _ in range(0, CHECKED, len(values))
                 for value in shuffle.sample(values, len(values))][:CHECKED]
                for values in examples.values()
            )  # fmt: skip
            rows = list(zip(*columns, strict=True))
        for row in rows:
            self.recipe_of(dict(zip(examples, row, strict=True)))


def _overlay(item: tuple[str, Value]) -> dict[str, Any]:
    """`section.field` and its value as a recipe's TOML has it; raises ConfigError for no field."""
    name, value = item
    section, _, field = name.rpartition(".")
    if section in ("model", "train", "data"):
        return {section: {field: value}}
    if name in ("tokenizer", "vocab_size"):
        return {name: value}
    raise ConfigError(
        f"{name!r} is no field of a recipe: a hyperparameter is a table such as "
        f'[space."train.lr"], and `calcgpt recipes NAME` lists the fields'
    )


def space_names() -> list[str]:
    """Names of the spaces in the package."""
    return names_in(SWEEPS)


def load_space(name: str, *, trials: int | None = None, seed: int | None = None) -> Space:
    """The space `name` (of the package, or a path to a TOML file), with other numbers in place of
    its own. A recipe that it names by a path is found from the file's own folder.

    Raises ConfigError, one line, for whatever is wrong with it: no combination of values that it
    allows may be an invalid recipe.
    """
    table = read_toml(name, SWEEPS, "space")
    source = f"space {name!r}"
    search = table.get("search")
    if isinstance(search, dict):
        given = {"trials": trials, "seed": seed}
        search |= {key: value for key, value in given.items() if value is not None}
    recipe = table.get("recipe")
    if isinstance(recipe, str) and recipe.endswith(".toml") and name.endswith(".toml"):
        table["recipe"] = str(Path(name).parent / recipe)
    axes = table.get("space")
    if isinstance(axes, dict):
        table["space"] = {key: _hyperparameter(axes[key], f"{source}: {key}") for key in axes}
    return build(Space, table, source)


def _hyperparameter(table: Any, source: str) -> Hyperparameter:
    if not isinstance(table, dict) or not isinstance(table.get("type"), str):
        raise ConfigError(
            f'{source}: a hyperparameter is a table with a type, such as [space."train.lr"]; '
            f"types: {', '.join(sorted(HYPERPARAMETERS))}"
        )
    try:
        kind = look_up(HYPERPARAMETERS, table["type"], "type of hyperparameter")
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
    return build(kind, table, source)


HYPERPARAMETERS: dict[str, type[Hyperparameter]] = {
    "uniform": Uniform,
    "loguniform": LogUniform,
    "quniform": QUniform,
    "int": Int,
    "choice": Choice,
}
