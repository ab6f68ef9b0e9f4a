"""Suites: what an ablation compares, as a TOML file.

A suite lays tables over one recipe: those of a task (what is learnt) and those of a variant (what
is changed), and trains each pair with each seed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from calcgpt.config import Recipe, Section
from calcgpt.errors import ConfigError
from calcgpt.recipe import build, load_recipe, names_in, read_toml
from datagen.plan import DatasetPlan

SUITES = resources.files("calcgpt") / "suites"
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Multiple = Annotated[int, Field(ge=1, le=64)]


class Overlay(Section):
    """Tables of a recipe, laid over what it says otherwise."""

    tokenizer: str | None = None
    vocab_size: int | None = None
    model: dict[str, Any] = Field({})
    train: dict[str, Any] = Field({})

    def table(self) -> dict[str, Any]:
        """As a recipe's TOML would have it, without what is left out."""
        fields = {name: getattr(self, name) for name in Overlay.model_fields}
        return {name: value for name, value in fields.items() if value not in (None, {})}


class Problems(Section):
    """Problems that are made for a task; see `calcgpt datagen`."""

    train: int
    val: int
    test: int
    seed: int = 0
    distribution: str = "blog"
    format: str = "direct"
    digits: int | None = None

    def plan(self) -> DatasetPlan:
        """What `datagen` makes of it; raises DataError."""
        return DatasetPlan(**self.model_dump())


class Task(Overlay):
    """What is learnt: problems, or a text that lies in a folder."""

    title: str = Field("", description="what the report calls it; default: its name")
    problems: Problems | None = None
    text: str | None = Field(None, description="the folder of a text, by default")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.problems is None) == (self.text is None):
            raise ValueError("a task has either problems or text")
        return self


class Variant(Overlay):
    """What is changed."""

    tasks: list[str] | None = Field(None, description="where it makes sense; null: everywhere")


class Scoring(Section):
    """What a run is scored by once its training is done; see `calcgpt.lab.score`."""

    batches: int = Field(200, ge=1, description="windows for the losses, in batches")
    contexts: list[Multiple] = Field(
        [1], min_length=1, description="lengths of the windows, in training contexts"
    )
    problems: int = Field(2_000, ge=0, description="test problems, where the task has them")
    temperatures: list[Annotated[float, Field(ge=0)]] = Field(
        [0.0], description="0 is greedy; the blog sampled at 1"
    )

    @field_validator("contexts")
    @classmethod
    def _own_context(cls, given: list[int]) -> list[int]:
        if 1 not in given:
            raise ValueError("contexts must hold 1, the context of the training")
        return sorted(set(given))


Metric = Literal["train_loss", "val_loss", "perplexity", "char_accuracy", "exact_match"]


class Published(Section):
    """What somebody else reported for a variant."""

    source: str
    task: str
    variant: str
    temperature: float | None = Field(None, description="of char_accuracy and exact_match")
    metrics: dict[Metric, float] = Field(min_length=1)


class Suite(Section):
    """An ablation: a file in `calcgpt/suites/`, or one's own."""

    description: str = ""
    recipe: str = Field(description="what all is laid over")
    seeds: list[Seed] = Field(min_length=1)
    score: Scoring = Scoring()
    tasks: dict[str, Task] = Field(min_length=1)
    variants: dict[str, Variant] = Field(min_length=1)
    published: list[Published] = Field([])

    @field_validator("tasks", "variants")
    @classmethod
    def _names_for_folders(cls, given: dict[str, Any]) -> dict[str, Any]:
        for name in given:
            if not re.fullmatch(r"\w[\w.+-]{0,63}", name):
                raise ValueError(f"{name!r} cannot name a folder: letters, digits and . + - only")
        return given

    @field_validator("seeds")
    @classmethod
    def _each_once(cls, given: list[int]) -> list[int]:
        if len(set(given)) < len(given):
            raise ValueError("a seed is named twice")
        return given

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        mentioned = [(v.tasks or [], f"variant {name!r}") for name, v in self.variants.items()]
        mentioned += [([entry.task], "published") for entry in self.published]
        for tasks, where in mentioned:
            for task in tasks:
                if task not in self.tasks:
                    raise ValueError(f"{where}: there is no task {task!r}")
        for entry in self.published:
            if entry.variant not in self.variants:
                raise ValueError(f"published: there is no variant {entry.variant!r}")
        return self

    def pairs(self) -> list[tuple[str, str]]:
        """(task, variant), of all that are to be trained, in the file's order."""
        return [
            (task, name)
            for task in self.tasks
            for name, variant in self.variants.items()
            if variant.tasks is None or task in variant.tasks
        ]

    def recipe_of(self, task: str, variant: str, seed: int, overrides: Sequence[str]) -> Recipe:
        """What one run trains; raises ConfigError naming the run."""
        layers: list[Mapping[str, Any]] = [
            self.tasks[task].table(),
            self.variants[variant].table(),
            {"train": {"seed": seed}},
        ]
        try:
            return load_recipe(self.recipe, overrides, layers)
        except ConfigError as error:
            raise ConfigError(f"task {task!r}, variant {variant!r}: {error}") from None


def suite_names() -> list[str]:
    """Names of the suites in the package."""
    return names_in(SUITES)


def load_suite(name: str) -> Suite:
    """The suite `name` (of the package, or a path to a TOML file); raises ConfigError, one line."""
    return build(Suite, read_toml(name, SUITES, "suite"), f"suite {name!r}")
