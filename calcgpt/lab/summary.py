"""The scores of several seeds as means and standard deviations, task by task."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calcgpt.lab.job import Answers, Score
from calcgpt.lab.suite import Published, Suite

# Student's t at 97.5%, for 1, 2, ... degrees of freedom; beyond, the last is a little too wide.
T_975 = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
         2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086]  # fmt: skip


@dataclass(frozen=True)
class Estimate:
    """One number, measured with several seeds."""

    values: list[float]

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return statistics.fmean(self.values)

    @property
    def sd(self) -> float | None:
        """The sample standard deviation; None of one value."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def margin(self) -> float | None:
        """Half the 95% interval of the mean, by Student's t; None of one value."""
        if self.sd is None:
            return None
        n = len(self.values)
        return T_975[min(n - 1, len(T_975)) - 1] * self.sd / math.sqrt(n)

    def as_json(self) -> dict[str, Any]:
        """As it stands in `report.json`."""
        return {"mean": self.mean, "sd": self.sd, "margin_95": self.margin, "values": self.values}


@dataclass(frozen=True)
class VariantSummary:
    """What one variant came to on one task."""

    name: str
    scores: list[Score]  # by seed
    difference: Estimate | None  # of val_loss from the first variant's, seed by seed

    @property
    def seeds(self) -> list[int]:
        """Those that it was trained with."""
        return [score.seed for score in self.scores]

    @property
    def parameters(self) -> int:
        """The same for every seed."""
        return self.scores[0].parameters

    def of(self, metric: Callable[[Score], float]) -> Estimate:
        """Any number of a score, over the seeds."""
        return Estimate([metric(score) for score in self.scores])

    def answers(self, temperature: float, metric: Callable[[Answers], float]) -> Estimate:
        """The same of the answers at one temperature."""
        found = [a for score in self.scores for a in score.answers if a.temperature == temperature]
        return Estimate([metric(answers) for answers in found])

    def context_losses(self) -> dict[int, Estimate | None]:
        """The validation loss by the length of the context; None where it cannot be read."""
        losses: dict[int, Estimate | None] = {}
        for place, entry in enumerate(self.scores[0].contexts):
            values = [score.contexts[place].val_loss for score in self.scores]
            known = [value for value in values if value is not None]
            losses[entry.block_size] = Estimate(known) if len(known) == len(values) else None
        return losses


@dataclass(frozen=True)
class TaskSummary:
    """All variants of one task, in the suite's order."""

    name: str
    title: str
    variants: list[VariantSummary]
    published: list[Published]

    @property
    def temperatures(self) -> list[float]:
        """Those that all variants' answers were decoded at."""
        return [answers.temperature for answers in self.variants[0].scores[0].answers]

    @property
    def budget(self) -> str:
        """How long each run was, in words."""
        score = self.variants[0].scores[0]
        train, context = score.recipe.train, score.recipe.model.block_size
        what = "windows" if train.batches == "stream" else train.batches
        return (
            f"{score.steps:,} steps of {train.batch_size} {what} of {context} tokens "
            f"({score.tokens:,} tokens), {train.optimizer} at {train.lr:g}, {train.schedule}"
        )


def perplexity(score: Score) -> float:
    """Of the validation loss."""
    return math.exp(score.val_loss)


def summarise(suite: Suite, scores: Sequence[Score]) -> list[TaskSummary]:
    """The tasks that have scores, each with the variants that have."""
    summaries = []
    for name, task in suite.tasks.items():
        variants: list[VariantSummary] = []
        for variant in suite.variants:
            here = [s for s in scores if (s.task, s.variant) == (name, variant)]
            if here:
                here.sort(key=lambda score: score.seed)
                first = variants[0].scores if variants else []
                variants.append(VariantSummary(variant, here, _difference(here, first)))
        published = [entry for entry in suite.published if entry.task == name]
        if variants:
            summaries.append(TaskSummary(name, task.title or name, variants, published))
    return summaries


def _difference(scores: Sequence[Score], first: Sequence[Score]) -> Estimate | None:
    """Runs with one seed see the same batches: their difference varies less than they do."""
    of_first = {score.seed: score.val_loss for score in first}
    pairs = [s.val_loss - of_first[s.seed] for s in scores if s.seed in of_first]
    return Estimate(pairs) if pairs else None
