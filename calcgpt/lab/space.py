"""The space of a sweep: a TOML file with what is searched and how.

The recipe of a trial is the space's recipe, overlaid with its `fixed` table and the trial's values.
"""

import random
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from calcgpt.config import Recipe
from calcgpt.errors import ConfigError, one_line
from calcgpt.recipe import load_recipe, read_toml, toml_files, with_recipe_beside
from calcgpt.section import Section, build

Value = bool | int | float | str
Type = Literal["choice", "int", "loguniform", "quniform", "uniform"]
Metric = Literal["val_char_accuracy", "val_exact_match", "val_loss"]

SPACES = toml_files("sweeps")
ARGUMENTS: dict[Type, list[str]] = {  # of the functions of Ray Tune with these names
    "choice": ["values"],
    "int": ["low", "high"],
    "loguniform": ["low", "high"],
    "quniform": ["low", "high", "q"],
    "uniform": ["low", "high"],
}
# Fields that have one value in all trials, because trials could not be compared otherwise.
SHARED_FIELDS = {
    f"train.{field}"
    for field in ("steps", "eval_interval", "eval_batches", "eval_problems", "checkpoint_interval")
}
N_CHECKED = 500  # random recipes of a space, which are built before anything runs


class Hyperparameter(Section):
    """One dimension of a space: a function of Ray Tune and its arguments."""

    type: Type
    low: int | float | None = None
    high: int | float | None = Field(None, description="an int may have this value, too")
    q: float | None = Field(None, gt=0)
    values: Annotated[list[Value], Field(min_length=2, max_length=1_000)] | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.model_fields_set != {"type", *ARGUMENTS[self.type]}:
            raise ValueError(f"{self.type!r} has the fields {', '.join(ARGUMENTS[self.type])}")
        low, high = self.low, self.high
        if low is not None and high is not None and low >= high:
            raise ValueError(f"low {low!r} is not below high {high!r}")
        if self.type == "int" and not (isinstance(low, int) and isinstance(high, int)):
            raise ValueError("low and high must be integers")
        if self.type == "loguniform" and not (low or 0) > 0:
            raise ValueError("low must be greater than 0")
        return self

    def examples(self) -> Sequence[Value]:
        """Returns some values: all of a choice or an int, else the lowest and the highest."""
        if self.type == "int":
            return range(int(self.low or 0), int(self.high or 0) + 1)
        return self.values or [self.low or 0.0, self.high or 0.0]

    def value(self, draw: Any) -> Value:
        """Returns a draw as a value of a recipe. Some algorithms draw NumPy's scalars, and some
        numbers beyond a bound, in their last bit."""
        value: Value = np.asarray(draw).item()
        if self.low is None or self.high is None or isinstance(value, str):
            return value
        return min(max(value, self.low), self.high)

    def domain(self) -> Any:
        """Returns the domain of Ray Tune. Raises ConfigError if Ray Tune refuses it."""
        from ray import tune

        arguments = [getattr(self, name) for name in ARGUMENTS[self.type]]
        if self.type == "int":
            return tune.randint(arguments[0], arguments[1] + 1)
        try:
            return getattr(tune, self.type)(*arguments)
        except ValueError as error:  # a bound that is no multiple of q
            raise ConfigError(one_line(error)) from None


class Search(Section):
    """How the space is searched."""

    algorithm: Literal["hyperopt", "optuna", "random"] | None = Field(
        None, description="proposes values; null: optuna, or the model of bohb"
    )
    scheduler: Literal["asha", "bohb", "hyperband", "none"] = Field(
        "asha", description="stops trials early"
    )
    metric: Metric = Field("val_loss", description="a loss to minimize or a score to maximize")
    trials: int = Field(ge=1, le=100_000)
    max_steps: int | None = Field(None, ge=1, description="steps of a trial; null: the recipe's")
    grace_steps: int = Field(ge=1, description="steps between validations; a trial's minimum")
    reduction_factor: int = Field(3, ge=2, description="one in this many trials passes each rung")
    seed: int = Field(0, ge=0, lt=2**31)

    @property
    def mode(self) -> Literal["min", "max"]:
        """Whether the metric is minimized or maximized."""
        return "min" if self.metric == "val_loss" else "max"

    @model_validator(mode="after")
    def _check_algorithm(self) -> Self:
        if self.scheduler == "bohb" and self.algorithm is not None:
            raise ValueError("scheduler 'bohb' has its own search: leave out the algorithm")
        return self

    @property
    def method(self) -> str:
        """The name of the algorithm that proposes values."""
        if self.scheduler != "bohb":
            return self.algorithm or "optuna"
        try:
            import_module("ConfigSpace")
            import_module("hpbandster.optimizers.config_generators.bohb")
        except Exception:  # an old package can raise anything
            return "optuna"
        return "bohb"


class Space(Section):
    """A sweep's space: a file in `calcgpt/sweeps/` or a user's own."""

    description: str = ""
    recipe: str = Field(description="the recipe that all trials start from")
    fixed: dict[str, Any] = Field({}, description="a recipe's tables that overlay it in all trials")
    search: Search
    space: Annotated[dict[str, Hyperparameter], Field(min_length=1)]

    @model_validator(mode="after")
    def _searchable(self) -> Self:
        if shared := sorted(SHARED_FIELDS & self.space.keys()):
            raise ValueError(f"{shared[0]} is the same in all trials: it cannot be searched")
        steps, grace = self.max_steps, self.search.grace_steps
        if steps % grace:
            raise ValueError(f"grace_steps {grace} does not divide max_steps {steps}")
        draws = random.Random(0)  # nosec B311  # no secret
        for _ in range(N_CHECKED):
            axes = self.space.items()
            self.recipe_with({name: draws.choice(axis.examples()) for name, axis in axes})
        return self

    @property
    def max_steps(self) -> int:
        """Training steps of a trial that is not stopped early."""
        return self.search.max_steps or self.base_recipe().train.steps

    def base_recipe(self) -> Recipe:
        """Returns the recipe with the fixed table and without any hyperparameter."""
        return load_recipe(self.recipe, overlays=[self.fixed])

    def values_of(self, draws: Mapping[str, Any]) -> dict[str, Value]:
        """Returns what an algorithm has drawn as values of a recipe."""
        return {name: axis.value(draws[name]) for name, axis in self.space.items()}

    def recipe_with(self, values: Mapping[str, Value]) -> Recipe:
        """Returns the recipe with values of the hyperparameters, to train it normally.

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
        intervals = {"eval_interval": grace, "checkpoint_interval": grace}
        # A round is reported with the row after its checkpoint: see `RoundReporter`.
        rows = min(recipe.train.log_interval, max(1, grace // 20))
        train = {"steps": self.max_steps, **intervals, "log_interval": rows}
        return recipe.model_copy(update={"train": recipe.train.model_copy(update=train)})


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
    return list(SPACES)


def load_space(name: str, *, trials: int | None = None, seed: int | None = None) -> Space:
    """Returns the space `name`: one of the package, or the path of a TOML file.

    `trials` and `seed` replace the file's values. A recipe given by its path is relative to the
    file's folder. Raises ConfigError, one line, if it finds an invalid recipe in the space.
    """
    table = with_recipe_beside(read_toml(name, SPACES, "space"), name)
    if isinstance(search := table.get("search"), dict):
        overrides = {"trials": trials, "seed": seed}
        search |= {key: value for key, value in overrides.items() if value is not None}
    return build(Space, table, f"space {name!r}")
