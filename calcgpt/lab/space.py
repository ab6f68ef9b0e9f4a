"""The space of a sweep: which hyperparameters are searched and how, as a TOML file.

The recipe of a trial is the space's recipe, overlaid with its `fixed` table, overlaid with the
trial's values.

A search draws numbers only: a real number, or an index that stands for a value. So every search
algorithm supports every type of hyperparameter, and each draw can be written as JSON and proposed
again exactly.
"""

from __future__ import annotations

import itertools
import math
import random
from abc import abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from importlib import resources
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializeAsAny, field_validator, model_validator

from calcgpt.config import Recipe, Section
from calcgpt.errors import ConfigError, look_up
from calcgpt.recipe import build, load_recipe, names_in, read_toml, with_recipe_beside

Value = bool | int | float | str
Draw = int | float

# Names in alphabetical order. Tests check that they are those of `ALGORITHMS` and `SCHEDULERS` in
# `calcgpt.lab.sweep`, and of `METRICS`.
Algorithm = Literal["hyperopt", "optuna", "random"]
Scheduler = Literal["asha", "bohb", "hyperband", "none"]
Metric = Literal["val_char_accuracy", "val_exact_match", "val_loss"]
METRICS: dict[Metric, Literal["min", "max"]] = {
    "val_loss": "min",
    "val_char_accuracy": "max",
    "val_exact_match": "max",
}

SPACES = resources.files("calcgpt") / "sweeps"
MAX_COUNT = 2**31  # values of an integer or a grid
MAX_EXAMPLES = 100  # values of one hyperparameter that are checked
MAX_COMBINATIONS = 1_000  # recipes that are checked before anything runs
# Fields that have one value in all trials, because trials could not be compared otherwise.
SHARED_FIELDS = {
    f"train.{field}"
    for field in ("steps", "eval_interval", "eval_batches", "eval_problems", "checkpoint_interval")
}


class Hyperparameter(Section):
    """One dimension of a space."""

    @abstractmethod
    def domain(self) -> Any:
        """Returns the domain from which Ray Tune draws."""

    @abstractmethod
    def value(self, draw: Any) -> Value:
        """Returns the recipe's value for a draw, which may be a NumPy scalar."""

    @abstractmethod
    def examples(self) -> list[Value]:
        """Returns all values in order, or the smallest and the largest if there are many."""


class Range(Hyperparameter):
    """Numbers from low to high."""

    low: float
    high: float

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.low >= self.high:
            raise ValueError(f"low {self.low!r} is not below high {self.high!r}")
        return self

    def examples(self) -> list[Value]:
        return [self.low, self.high]


class Uniform(Range):
    """A number from low to high."""

    type: Literal["uniform"]

    def domain(self) -> Any:
        from ray import tune

        return tune.uniform(self.low, self.high)

    def value(self, draw: Any) -> Value:
        return float(draw)


class LogUniform(Range):
    """A number from low to high whose logarithm is uniform."""

    type: Literal["loguniform"]
    low: Annotated[float, Field(gt=0)]

    def domain(self) -> Any:
        from ray import tune

        return tune.loguniform(self.low, self.high)

    def value(self, draw: Any) -> Value:
        # exp(log(x)) can differ from x in the last bit, and so exceed a bound.
        return min(max(float(draw), self.low), self.high)


class Indexed(Hyperparameter):
    """Several values, drawn by their index."""

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of values."""

    def domain(self) -> Any:
        from ray import tune

        return tune.randint(0, self.count)

    def examples(self) -> list[Value]:
        many = self.count > MAX_EXAMPLES
        return [self.value(index) for index in ((0, self.count - 1) if many else range(self.count))]


class QUniform(Indexed, Range):
    """low, low + q, low + 2q ... up to high."""

    type: Literal["quniform"]
    q: Annotated[float, Field(gt=0)]

    @model_validator(mode="after")
    def _has_steps(self) -> Self:
        if (self.high - self.low) / self.q > MAX_COUNT:
            raise ValueError(f"q {self.q!r} is too small for the distance from low to high")
        if self.count < 2:
            raise ValueError(f"q {self.q!r} is larger than the distance from low to high")
        return self

    @property
    def count(self) -> int:
        low, high, q = (Decimal(repr(number)) for number in (self.low, self.high, self.q))
        return int((high - low) // q) + 1

    def value(self, draw: Any) -> Value:
        return float(Decimal(repr(self.low)) + int(draw) * Decimal(repr(self.q)))


class Int(Indexed, Range):
    """An integer from low to high, both included."""

    type: Literal["int"]
    low: int
    high: int

    @model_validator(mode="after")
    def _drawable(self) -> Self:
        if self.count > MAX_COUNT:
            raise ValueError("low and high are too far apart")
        return self

    @property
    def count(self) -> int:
        return self.high - self.low + 1

    def value(self, draw: Any) -> Value:
        return self.low + int(draw)


class Choice(Indexed):
    """One of several values without an order."""

    type: Literal["choice"]
    values: Annotated[list[Value], Field(min_length=2, max_length=1_000)]

    @field_validator("values")
    @classmethod
    def _distinct(cls, values: list[Value]) -> list[Value]:
        if len(set(map(repr, values))) < len(values):
            raise ValueError("a value is listed twice")
        return values

    @property
    def count(self) -> int:
        return len(self.values)

    def domain(self) -> Any:
        from ray import tune

        return tune.choice(list(range(self.count)))

    def value(self, draw: Any) -> Value:
        return self.values[int(draw)]

    def examples(self) -> list[Value]:
        return self.values


HYPERPARAMETERS: dict[str, type[Hyperparameter]] = {
    "uniform": Uniform,
    "loguniform": LogUniform,
    "quniform": QUniform,
    "int": Int,
    "choice": Choice,
}


class Search(Section):
    """How the space is searched."""

    algorithm: Algorithm | None = Field(
        None, description="proposes values; null: optuna, or the model of bohb"
    )
    scheduler: Scheduler = Field("asha", description="stops trials early")
    metric: Metric = Field("val_loss", description="a loss to minimize or a score to maximize")
    trials: int = Field(ge=1, le=100_000)
    max_steps: int | None = Field(None, ge=1, description="steps of a trial; null: the recipe's")
    grace_steps: int = Field(ge=1, description="steps between validations; a trial's minimum")
    reduction_factor: int = Field(3, ge=2, description="one in this many trials passes each rung")
    seed: int = Field(0, ge=0, lt=2**31)

    @property
    def mode(self) -> Literal["min", "max"]:
        """Whether the metric is minimized or maximized."""
        return METRICS[self.metric]


class Space(Section):
    """A sweep's space: a file in `calcgpt/sweeps/` or a user's own."""

    description: str = ""
    recipe: str = Field(description="the recipe that all trials start from")
    fixed: dict[str, Any] = Field({}, description="a recipe's tables that overlay it in all trials")
    search: Search
    space: Annotated[dict[str, SerializeAsAny[Hyperparameter]], Field(min_length=1)]

    @model_validator(mode="after")
    def _searchable(self) -> Self:
        if shared := sorted(SHARED_FIELDS & self.space.keys()):
            raise ValueError(f"{shared[0]} is the same in all trials: it cannot be searched")
        steps, grace = self.max_steps, self.search.grace_steps
        if steps % grace:
            raise ValueError(f"grace_steps {grace} does not divide max_steps {steps}")
        self._check_combinations()
        return self

    @property
    def max_steps(self) -> int:
        """Training steps of a trial that is not stopped early."""
        return self.search.max_steps or self.base_recipe().train.steps

    @property
    def rounds(self) -> int:
        """Validations of a trial that is not stopped early."""
        return self.max_steps // self.search.grace_steps

    def base_recipe(self) -> Recipe:
        """Returns the recipe with the fixed table and without any hyperparameter."""
        return load_recipe(self.recipe, overlays=[self.fixed])

    def recipe_with(self, values: Mapping[str, Value]) -> Recipe:
        """Returns the recipe with values of some or all hyperparameters, to train it normally.

        Raises ConfigError if the recipe is invalid.
        """
        try:
            return load_recipe(self.recipe, overlays=[self.fixed, *map(_overlay, values.items())])
        except ConfigError as error:
            settings = ", ".join(f"{name} = {value!r}" for name, value in values.items())
            raise ConfigError(f"with {settings}: {error}") from None

    def trial_recipe(self, values: Mapping[str, Value]) -> Recipe:
        """Returns the recipe of a trial: `max_steps` long, with a checkpoint at each round."""
        recipe, grace = self.recipe_with(values), self.search.grace_steps
        train = recipe.train.model_copy(
            update={
                "steps": self.max_steps,
                "eval_interval": grace,
                "checkpoint_interval": grace,
                # A round is reported with the row after its checkpoint: see `RoundReporter`.
                "log_interval": min(recipe.train.log_interval, max(1, grace // 20)),
            }
        )
        return recipe.model_copy(update={"train": train})

    def _check_combinations(self) -> None:
        """Raises ConfigError if a combination of values is an invalid recipe.

        Checks all combinations, or MAX_COMBINATIONS random ones, which include each example of
        each hyperparameter.
        """
        examples = {name: axis.examples() for name, axis in self.space.items()}
        if math.prod(map(len, examples.values())) <= MAX_COMBINATIONS:
            rows = list(itertools.product(*examples.values()))
        else:
            shuffle = random.Random(0)  # nosec B311  # no secret
            columns = []
            for values in examples.values():
                repeats = math.ceil(MAX_COMBINATIONS / len(values))
                column = [v for _ in range(repeats) for v in shuffle.sample(values, len(values))]
                columns.append(column[:MAX_COMBINATIONS])
            rows = list(zip(*columns, strict=True))
        for row in rows:
            self.recipe_with(dict(zip(examples, row, strict=True)))


def _overlay(item: tuple[str, Value]) -> dict[str, Any]:
    """Returns `section.field` and its value as a recipe's table; raises ConfigError."""
    name, value = item
    section, _, field = name.rpartition(".")
    if section in ("model", "train", "data"):
        return {section: {field: value}}
    if name in ("tokenizer", "vocab_size"):
        return {name: value}
    raise ConfigError(
        f"{name!r} is not a field of a recipe: a hyperparameter is a table such as "
        f'[space."train.lr"], and `calcgpt recipes NAME` lists the fields'
    )


def space_names() -> list[str]:
    """Returns the names of the package's spaces."""
    return names_in(SPACES)


def load_space(name: str, *, trials: int | None = None, seed: int | None = None) -> Space:
    """Returns the space `name`: one of the package, or the path of a TOML file.

    `trials` and `seed` replace the file's values. A recipe given by its path is relative to the
    file's folder. Raises ConfigError, one line, if the space allows any invalid recipe.
    """
    table = read_toml(name, SPACES, "space")
    source = f"space {name!r}"
    if isinstance(search := table.get("search"), dict):
        overrides = {"trials": trials, "seed": seed}
        search |= {key: value for key, value in overrides.items() if value is not None}
    table = with_recipe_beside(table, name)
    if isinstance(axes := table.get("space"), dict):
        table["space"] = {key: _hyperparameter(axes[key], f"{source}: {key}") for key in axes}
    return build(Space, table, source)


def _hyperparameter(table: Any, source: str) -> Hyperparameter:
    if not isinstance(table, dict) or not isinstance(table.get("type"), str):
        raise ConfigError(
            f'{source}: a hyperparameter is a table with a type, such as [space."train.lr"]; '
            f"types: {', '.join(sorted(HYPERPARAMETERS))}"
        )
    try:
        cls = look_up(HYPERPARAMETERS, table["type"], "type of hyperparameter")
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
    return build(cls, table, source)
