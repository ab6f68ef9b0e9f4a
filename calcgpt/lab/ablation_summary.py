"""The scores of an ablation over its seeds: means, spreads and differences, and tables of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calcgpt.lab.job import Score
from calcgpt.lab.suite import Metric, Published, Suite
from calcgpt.metrics import OPERATIONS, Operation
from calcgpt.plots import series_style
from calcgpt.statistics import STUDENT_T
from calcgpt.tables import markdown_table


@dataclass(frozen=True)
class Estimate:
    """A quantity measured once with each seed."""

    values: list[float]

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return statistics.fmean(self.values)

    @property
    def sd(self) -> float | None:
        """The sample standard deviation, None for a single value."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def margin(self) -> float | None:
        """Half the 95% interval of the mean by Student's t, None for a single value."""
        if self.sd is None:
            return None
        n = len(self.values)
        return STUDENT_T[min(n - 1, len(STUDENT_T)) - 1] * self.sd / math.sqrt(n)

    def as_json(self) -> dict[str, Any]:
        """Returns the estimate in the form of `report.json`."""
        return {"mean": self.mean, "sd": self.sd, "margin_95": self.margin, "values": self.values}

    def text(self, decimals: int = 4) -> str:
        """Returns the mean ± the standard deviation."""
        spread = "" if self.sd is None else f" ± {self.sd:.{decimals}f}"
        return f"{self.mean:.{decimals}f}{spread}"

    def signed_text(self) -> str:
        """Returns the mean, with its sign, ± half its 95% interval."""
        margin = "" if self.margin is None else f" ± {self.margin:.4f}"
        return f"{self.mean:+.4f}{margin}"


@dataclass(frozen=True)
class VariantSummary:
    """The scores of one variant on one task, in the order of the seeds."""

    name: str
    style: dict[str, Any]  # colour, line style and marker in all plots of the task
    scores: list[Score]
    difference: Estimate | None  # of val_loss from the first variant's, seed by seed

    @property
    def seeds(self) -> list[int]:
        return [score.seed for score in self.scores]

    @property
    def parameters(self) -> int:
        return self.scores[0].parameters

    @property
    def val_loss(self) -> Estimate:
        return self.estimate(lambda score: score.val_loss)

    @property
    def tokens_per_s(self) -> Estimate:
        return self.estimate(lambda score: score.tokens_per_s)

    def estimate(self, metric: Callable[[Score], float]) -> Estimate:
        """Returns the estimate of `metric` over the seeds."""
        return Estimate([metric(score) for score in self.scores])

    def context_losses(self) -> dict[int, Estimate | None]:
        """Returns the validation loss by the length of the windows, None if it was not measured."""
        losses: dict[int, Estimate | None] = {}
        for index, context in enumerate(self.scores[0].contexts):
            values = [score.contexts[index].val_loss for score in self.scores]
            numbers = [value for value in values if value is not None]
            losses[context.block_size] = Estimate(numbers) if len(numbers) == len(values) else None
        return losses


@dataclass(frozen=True)
class TaskSummary:
    """All variants of one task, in the suite's order."""

    name: str
    title: str
    variants: list[VariantSummary]
    published: list[Published]

    @property
    def example(self) -> Score:
        """One of the scores, for what all of them share."""
        return self.variants[0].scores[0]

    @property
    def budget(self) -> str:
        """The length of each run, in words."""
        train, context = self.example.recipe.train, self.example.recipe.model.block_size
        unit = "windows" if train.batches == "stream" else train.batches
        return (
            f"{self.example.steps:,} steps of {train.batch_size} {unit} of {context} tokens "
            f"({self.example.tokens:,} tokens), {train.optimizer} at {train.lr:g}, {train.schedule}"
        )


def summarise(suite: Suite, scores: Sequence[Score]) -> list[TaskSummary]:
    """Returns the tasks that have scores, each with the variants that have scores."""
    summaries = []
    for name, task in suite.tasks.items():
        variants: list[VariantSummary] = []
        for variant in suite.variants:
            variant_scores = [
                score for score in scores if (score.task, score.variant) == (name, variant)
            ]
            if variant_scores:
                variant_scores.sort(key=lambda score: score.seed)
                baseline = variants[0].scores if variants else []
                style = series_style(len(variants))
                variants.append(
                    VariantSummary(
                        variant, style, variant_scores, _difference(variant_scores, baseline)
                    )
                )
        if variants:
            published = [entry for entry in suite.published if entry.task == name]
            summaries.append(TaskSummary(name, task.title or name, variants, published))
    return summaries


def _difference(scores: Sequence[Score], baseline: Sequence[Score]) -> Estimate | None:
    """Returns the difference of the validation loss, seed by seed. Runs with one seed see the same
    batches, so that their difference varies less than the losses do."""
    baseline_losses = {score.seed: score.val_loss for score in baseline}
    values = [s.val_loss - baseline_losses[s.seed] for s in scores if s.seed in baseline_losses]
    return Estimate(values) if values else None


@dataclass(frozen=True)
class Column:
    """A column of the table of scores."""

    heading: str
    cell: Callable[[VariantSummary], str]
    metric: Metric | None = None  # the published number that belongs here
    temperature: float | None = None  # of the answers

    def published_cell(self, entry: Published) -> str:
        """Returns the number that others published, empty if there is none."""
        if self.metric is None or self.temperature not in (None, entry.temperature):
            return ""
        return f"{entry.metrics[self.metric]:g}" if self.metric in entry.metrics else ""


def mean_of(value: Callable[[Score], float], decimals: int = 4) -> Callable[[VariantSummary], str]:
    """Returns the cell of a column with the mean and the spread of `value`."""
    return lambda variant: variant.estimate(value).text(decimals)


def answers_column(index: int, temperature: float, metric: Metric) -> Column:
    """Returns the column of a metric of the answers at one temperature."""
    decoding = "greedy" if temperature == 0 else f"T = {temperature:g}"
    cell = mean_of(lambda score: float(getattr(score.answers[index], metric)))
    return Column(f"{metric.replace('_', ' ')}, {decoding}", cell, metric, temperature)


def operation_column(index: int, operation: Operation) -> Column:
    """Returns the column of the exact match on one operation."""
    cell = mean_of(lambda score: score.answers[index].by_operation[operation].exact_match)
    return Column(f"EM {operation}", cell)


def scores_table(task: TaskSummary) -> str:
    """Returns a table with a row for each variant, followed by those that others published."""
    columns = [
        Column("seeds", lambda v: str(len(v.seeds))),
        Column("parameters", lambda v: f"{v.parameters:,}"),
        Column("train loss", mean_of(lambda s: s.train_loss), "train_loss"),
        Column("val loss", mean_of(lambda s: s.val_loss), "val_loss"),
        Column("Δ val loss (95%)", lambda v: v.difference.signed_text() if v.difference else ""),
        Column("perplexity", mean_of(lambda s: s.perplexity, decimals=3), "perplexity"),
    ]
    temperatures = [answers.temperature for answers in task.example.answers]
    for index, temperature in enumerate(temperatures):
        columns.append(answers_column(index, temperature, "char_accuracy"))
        columns.append(answers_column(index, temperature, "exact_match"))
    if 0.0 in temperatures:
        greedy = temperatures.index(0.0)
        operations = task.example.answers[greedy].by_operation
        columns += [operation_column(greedy, op) for op in OPERATIONS if op in operations]
    columns.append(Column("tokens/s", lambda v: f"{v.tokens_per_s.mean:,.0f}"))
    rows = []
    for variant in task.variants:
        rows.append([variant.name, *(column.cell(variant) for column in columns)])
        for entry in task.published:
            if entry.variant == variant.name:
                cells = [column.published_cell(entry) for column in columns]
                rows.append([f"*{entry.source}*", *cells])
    return markdown_table(["variant", *(column.heading for column in columns)], rows)


def contexts_table(task: TaskSummary) -> str:
    """Returns a table of the validation loss at each length of the windows."""
    rows = [
        [variant.name, *(e.text() if e else "–" for e in variant.context_losses().values())]
        for variant in task.variants
    ]
    sizes = task.variants[0].context_losses()
    return markdown_table(["variant", *(f"{size} tokens" for size in sizes)], rows)
