"""The space of a sweep: the hyperparameters that are searched, and how; a TOML file."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from calcgpt.base.errors import ConfigError, one_line
from calcgpt.config import Recipe
from calcgpt.section import Section, build
from calcgpt_lab.recipe import load_recipe, read_toml, toml_files, with_recipe_beside

Values = dict[str, Any]  # of the hyperparameters, by name
Domain = Literal["choice", "loguniform", "quniform", "randint", "uniform"]  # functions of Ray Tune

SPACES = toml_files("sweeps")
# Fields that have one value in all trials, because trials could not be compared otherwise.
SHARED = ("steps", "eval_interval", "eval_batches", "eval_problems", "checkpoint_interval")
N_CHECKED = 500  # random recipes of a space, which are built before anything runs


class Search(Section):
    """How the space is searched."""

    algorithm: Literal["optuna", "random"] = "optuna"  # proposes values
    scheduler: Literal["asha", "bohb", "none"] = "asha"  # stops trials early
    metric: Literal["val_char_accuracy", "val_exact_match", "val_loss"] = "val_loss"
    trials: int = Field(ge=1, le=100_000)
    max_steps: int | None = Field(None, ge=1, description="steps of a trial; null: the recipe's")
    grace_steps: int = Field(ge=1, description="steps between validations; a trial's minimum")
    reduction_factor: int = Field(3, ge=2, description="one in this many trials passes each rung")
    seed: int = Field(0, ge=0, lt=2**31)

    @property
    def mode(self) -> Literal["min", "max"]:
        """Whether the metric is minimized or maximized."""
        return "min" if self.metric == "val_loss" else "max"


class Space(Section):
    """A sweep's space: a file in `calcgpt_lab/sweeps/` or a user's own."""

    description: str = ""
    recipe: str = Field(description="the recipe that all trials start from")
    fixed: dict[str, Any] = Field({}, description="a recipe's tables that overlay it in all trials")
    search: Search
    space: Annotated[dict[str, dict[Domain, list[Any]]], Field(min_length=1, max_length=100)]

    @model_validator(mode="after")
    def _searchable(self) -> Self:
        if shared := {f"train.{field}" for field in SHARED} & self.space.keys():
            raise ValueError(f"{min(shared)} is the same in all trials: it cannot be searched")
        steps, grace = self.max_steps, self.search.grace_steps
        if steps % grace:
            raise ValueError(f"grace_steps {grace} does not divide max_steps {steps}")
        return self

    @property
    def max_steps(self) -> int:
        """Training steps of a trial that is not stopped early."""
        return self.search.max_steps or self.recipe_with({}).train.steps

    def domains(self) -> dict[str, Any]:
        """Returns the domains of Ray Tune. Raises ConfigError if one of them, or one of some random
        recipes, is invalid."""
        from ray import tune
        from ray.tune.search.optuna import OptunaSearch

        domains, draws = {}, np.random.RandomState(0)
        for name, table in self.space.items():
            try:
                [(kind, values)] = table.items()
                domains[name] = getattr(tune, kind)(*([values] if kind == "choice" else values))
                OptunaSearch.convert_search_space(domains)  # refuses more
            except (ArithmeticError, LookupError, TypeError, ValueError) as error:
                raise ConfigError(f"space.{name}: {one_line(error)}") from None
        for _ in range(N_CHECKED):
            self.recipe_with({name: d.sample(random_state=draws) for name, d in domains.items()})
        return domains

    def recipe_with(self, values: Mapping[str, Any]) -> Recipe:
        """Returns the recipe with values of the hyperparameters, to train it normally.

        Raises ConfigError if the recipe is invalid.
        """
        plain = {name: v.item() if hasattr(v, "item") else v for name, v in values.items()}
        settings = [f"{name}={json.dumps(value, default=str)}" for name, value in plain.items()]
        try:
            return load_recipe(self.recipe, settings, [self.fixed])
        except ConfigError as error:
            raise ConfigError(f"with {', '.join(settings) or 'fixed'}: {error}") from None

    def trial_recipe(self, values: Mapping[str, Any]) -> Recipe:
        """Returns the recipe of a trial: `max_steps` long, with a checkpoint at each round."""
        recipe, grace = self.recipe_with(values), self.search.grace_steps
        train = {"steps": self.max_steps, "eval_interval": grace, "checkpoint_interval": grace}
        # A round is reported with the row after its checkpoint: see `Rounds`.
        train["log_interval"] = min(recipe.train.log_interval, max(1, grace // 20))
        return recipe.model_copy(update={"train": recipe.train.model_copy(update=train)})


def load_space(name: str, *, trials: int | None = None, seed: int | None = None) -> Space:
    """Returns the space `name`: one of the package, or the path of a TOML file.

    `trials` and `seed` replace the file's values. A recipe given by its path is relative to the
    file's folder. Raises ConfigError, one line, for an invalid space.
    """
    table = with_recipe_beside(read_toml(name, SPACES, "space"), name)
    if isinstance(search := table.get("search"), dict):
        overrides = {"trials": trials, "seed": seed}
        search |= {key: value for key, value in overrides.items() if value is not None}
    return build(Space, table, f"space {name!r}")
