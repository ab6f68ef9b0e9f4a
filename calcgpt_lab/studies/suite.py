"""Suites: TOML files that say what an ablation compares.

A suite has one recipe, tasks (what a model learns) and variants (what changes). Each task and each
variant has tables that override fields of the recipe: first the task's, then the variant's. An
ablation trains every pair of task and variant with every seed.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from calcgpt.base.errors import ConfigError, unknown_name
from calcgpt.config import Recipe
from calcgpt.section import Section, build
from calcgpt_lab.data.plan import DatasetPlan
from calcgpt_lab.model.decoding import Sampling
from calcgpt_lab.recipe import load_recipe, read_toml, toml_files, with_recipe_beside

SUITES = toml_files("suites")
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Multiple = Annotated[int, Field(ge=1, le=64)]


class Overlay(Section):
    """Tables that override fields of a recipe."""

    tokenizer: str | None = None
    vocab_size: int | None = None
    model: dict[str, Any] = Field({})
    train: dict[str, Any] = Field({})

    @field_validator("train")
    @classmethod
    def _check_train(cls, table: dict[str, Any]) -> dict[str, Any]:
        if "seed" in table:
            raise ValueError("seed is the suite's: list it in seeds")
        return table

    def table(self) -> dict[str, Any]:
        """Returns the fields that are set, as a table of a recipe."""
        return self.model_dump(include=set(Overlay.model_fields), exclude_defaults=True)


class Task(Overlay):
    """What a model learns: problems, or a text."""

    title: str = Field("", description="its heading in the report; default: its name")
    problems: DatasetPlan | None = Field(None, description="to generate, as `datagen` does")
    text: str | None = Field(None, description="the default path of the text")

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.problems is None) == (self.text is None):
            raise ValueError("a task has either problems or text")
        return self


class Variant(Overlay):
    """What changes."""

    tasks: list[str] | None = Field(None, description="the tasks to train it on; null: all")


class Scoring(Section):
    """How to score a run after its training; see `calcgpt_lab.studies.job`."""

    batches: int = Field(200, ge=1, description="batches of windows for each loss")
    contexts: list[Multiple] = Field(
        [1], min_length=1, description="lengths of windows, as multiples of the training context"
    )
    problems: int = Field(2_000, ge=0, description="number of test problems, if the task has any")
    temperatures: list[Annotated[float, Field(ge=0)]] = Field(
        [0.0], description="0 is greedy; the blog sampled at 1"
    )

    @field_validator("contexts")
    @classmethod
    def _check_contexts(cls, contexts: list[int]) -> list[int]:
        if 1 not in contexts:
            raise ValueError("contexts must include 1, the training context")
        return sorted(set(contexts))

    @field_validator("temperatures")
    @classmethod
    def _check_temperatures(cls, temperatures: list[float]) -> list[float]:
        for temperature in temperatures:
            Sampling(temperature)  # raises ConfigError
        return temperatures


Metric = Literal["train_loss", "val_loss", "perplexity", "char_accuracy", "exact_match"]


class Published(Section):
    """Results that others published for a variant."""

    source: str
    task: str
    variant: str
    temperature: float | None = Field(None, description="of char_accuracy and exact_match")
    metrics: dict[Metric, float] = Field(min_length=1)


class Suite(Section):
    """An ablation: a file in `calcgpt_lab/suites/`, or your own."""

    description: str = ""
    recipe: str = Field(description="the recipe that all runs start from")
    seeds: list[Seed] = Field(min_length=1)
    score: Scoring = Scoring()
    tasks: dict[str, Task] = Field(min_length=1)
    variants: dict[str, Variant] = Field(min_length=1)
    published: list[Published] = Field([])

    @field_validator("tasks", "variants")
    @classmethod
    def _check_names(cls, tables: dict[str, Any]) -> dict[str, Any]:
        for name in tables:
            if not re.fullmatch(r"\w[\w.+-]{0,63}", name):
                raise ValueError(
                    f"{name!r} cannot name a folder: only letters, digits, _ . + - are allowed"
                )
        return tables

    @field_validator("seeds")
    @classmethod
    def _check_seeds(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) < len(seeds):
            raise ValueError("a seed is listed twice")
        return seeds

    @model_validator(mode="after")
    def _check_references(self) -> Self:
        for name, variant in self.variants.items():
            for task in variant.tasks or []:
                if task not in self.tasks:
                    raise ValueError(f"variant {name!r}: unknown task {task!r}")
        for entry in self.published:
            if entry.task not in self.tasks:
                raise ValueError(f"published: unknown task {entry.task!r}")
            if entry.variant not in self.variants:
                raise ValueError(f"published: unknown variant {entry.variant!r}")
        return self

    def pairs(self, only: Sequence[str] = ()) -> list[tuple[str, str]]:
        """Returns the pairs (task, variant) to train, in the order of the file.

        `only` selects tasks, or pairs as TASK/VARIANT; empty selects all. Raises ConfigError for an
        unknown name.
        """
        pairs = [
            (task, name)
            for task in self.tasks
            for name, variant in self.variants.items()
            if variant.tasks is None or task in variant.tasks
        ]
        names = [*self.tasks, *map("/".join, pairs)]
        for name in only:
            if name not in names:
                raise ConfigError(unknown_name("task or variant", name, names))
        return [pair for pair in pairs if not only or {pair[0], "/".join(pair)} & {*only}]

    def recipe_of(self, task: str, variant: str, seed: int, overrides: Sequence[str]) -> Recipe:
        """Returns the recipe of one run. Raises ConfigError, naming the run, if it is not valid."""
        layers: list[Mapping[str, Any]] = [
            self.tasks[task].table(),
            self.variants[variant].table(),
            {"train": {"seed": seed}},
        ]
        try:
            recipe = load_recipe(self.recipe, overrides, layers)
        except ConfigError as error:
            raise ConfigError(f"task {task!r}, variant {variant!r}: {error}") from None
        if recipe.train.seed != seed:  # an override would give all runs one seed
            raise ConfigError("train.seed is the suite's: use --seed")
        return recipe


def load_suite(name: str) -> Suite:
    """Returns the suite `name`: of the package, or a path to a TOML file. Raises ConfigError, one
    line, if there is none or it is not valid. A recipe given by its path is relative to the file's
    folder."""
    return build(
        Suite, with_recipe_beside(read_toml(name, SUITES, "suite"), name), f"suite {name!r}"
    )
