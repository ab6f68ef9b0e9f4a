"""The scores of several seeds as means and standard deviations, task by task.

The report of an ablation: report.md to read, report.json to compute with, and the pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calcgpt.lab.ablation_plots import draw_task
from calcgpt.lab.job import Answers, Score
from calcgpt.lab.suite import Published, Suite
from calcgpt.lab.summary import Estimate, TaskSummary, VariantSummary, perplexity, summarise
from calcgpt.plots import save_figures
from calcgpt.tables import markdown_table
from datagen.files import write_json, write_text

NOTE = (
    "Losses are in nats a token, after the last step, over windows that are the same for all; "
    "± is the standard deviation over the seeds. Δ is the difference of the validation loss from "
    "the first variant's, seed by seed, with its 95% interval (Student's t). Nothing was chosen by "
    "any of it. Tokens a second are those of the training, beside the other runs."
)


def write_report(suite: Suite, scores: Sequence[Score], out: Path) -> list[Path]:
    """Write it for the runs that are done, and return its files. Raises UserError, after the text
    is written, where matplotlib is missing."""
    if not scores:
        return []
    tasks = summarise(suite, scores)
    write_json(out / "report.json", report_record(suite, tasks))
    figures = {name: draw for task in tasks for name, draw in draw_task(task, out).items()}
    write_text(out / "report.md", report_text(suite, tasks, list(figures)))
    pictures = save_figures(out / "plots", ((name, draw()) for name, draw in figures.items()))
    return [out / "report.md", out / "report.json", *pictures]


def report_record(suite: Suite, tasks: Sequence[TaskSummary]) -> dict[str, Any]:
    """Everything that the report says, and each seed's values."""
    return {
        "description": suite.description,
        "tasks": {
            task.name: {
                "title": task.title,
                "budget": task.budget,
                "variants": {variant.name: _variant(variant) for variant in task.variants},
                "published": [entry.model_dump() for entry in task.published],
            }
            for task in tasks
        },
    }


def _variant(variant: VariantSummary) -> dict[str, Any]:
    contexts = variant.context_losses()
    return {
        "seeds": variant.seeds,
        "parameters": variant.parameters,
        "train_loss": variant.of(lambda score: score.train_loss).as_json(),
        "val_loss": variant.of(lambda score: score.val_loss).as_json(),
        "val_loss_difference": variant.difference.as_json() if variant.difference else None,
        "perplexity": variant.of(perplexity).as_json(),
        "tokens_per_s": variant.of(lambda score: score.tokens_per_s).as_json(),
        "val_loss_at_context": {
            str(size): estimate.as_json() if estimate else None
            for size, estimate in contexts.items()
        },
        "runs": [score.model_dump(include={"seed", "steps", "tokens", "seconds", "answers"})
                 for score in variant.scores],
    }  # fmt: skip


def report_text(suite: Suite, tasks: Sequence[TaskSummary], pictures: Sequence[str]) -> str:
    """Markdown: for each task its table, what others reported beside, and its pictures."""
    parts = ["# " + (suite.description or "Ablation"), NOTE]
    for task in tasks:
        parts += [f"## {task.title}", f"{task.budget}.", scores_table(task)]
        if len(task.variants[0].scores[0].contexts) > 1:
            parts += ["Validation loss by the length of the context:", contexts_table(task)]
        parts += [
            f"![{name}](plots/{name}.png)" for name in pictures if name.startswith(f"{task.name}-")
        ]
    return "\n\n".join(parts) + "\n"


def scores_table(task: TaskSummary) -> str:
    """One row a variant; below it, one for each report of others."""
    header = ["variant", "seeds", "parameters", "train loss", "val loss", "Δ val loss (95%)",
              "perplexity"]  # fmt: skip
    for temperature in task.temperatures:
        how = "greedy" if temperature == 0 else f"T = {temperature:g}"
        header += [f"char accuracy, {how}", f"exact match, {how}"]
    if operations := _operations(task):
        header += [f"EM {operation}" for operation in operations]
    rows = []
    for variant in task.variants:
        rows.append(_row(task, variant, operations))
        mine = [entry for entry in task.published if entry.variant == variant.name]
        rows += [_published_row(task, entry, len(operations)) for entry in mine]
    return markdown_table([*header, "tokens/s"], rows)


def contexts_table(task: TaskSummary) -> str:
    """The validation loss at each length of the context."""
    sizes = task.variants[0].context_losses()
    rows = [
        [variant.name, *(_cell(estimate) for estimate in variant.context_losses().values())]
        for variant in task.variants
    ]
    return markdown_table(["variant", *(f"{size} tokens" for size in sizes)], rows)


def _operations(task: TaskSummary) -> list[str]:
    """The operations of the test problems, in the order of the notation."""
    if 0.0 not in task.temperatures:
        return []
    greedy = _greedy(task.variants[0].scores[0])
    return [operation for operation in "+-*/" if operation in greedy.by_operation]


def _greedy(score: Score) -> Answers:
    return next(answers for answers in score.answers if answers.temperature == 0)


def _row(task: TaskSummary, variant: VariantSummary, operations: Sequence[str]) -> list[str]:
    difference = variant.difference
    cells = [
        variant.name,
        str(len(variant.seeds)),
        f"{variant.parameters:,}",
        _cell(variant.of(lambda score: score.train_loss)),
        _cell(variant.of(lambda score: score.val_loss)),
        _signed(difference) if difference else "",
        _cell(variant.of(perplexity), 3),
    ]
    for temperature in task.temperatures:
        cells.append(_cell(variant.answers(temperature, lambda answers: answers.char_accuracy)))
        cells.append(_cell(variant.answers(temperature, lambda answers: answers.exact_match)))
    for operation in operations:
        cells.append(_cell(Estimate([_exact_match(s, operation) for s in variant.scores])))
    return [*cells, f"{variant.of(lambda score: score.tokens_per_s).mean:,.0f}"]


def _exact_match(score: Score, operation: str) -> float:
    return {str(op): of for op, of in _greedy(score).by_operation.items()}[operation].exact_match


def _published_row(task: TaskSummary, entry: Published, n_operation: int) -> list[str]:
    known = entry.metrics

    def cell(name: Any) -> str:
        return f"{known[name]:g}" if name in known else ""

    cells = [f"*{entry.source}*", "", "", cell("train_loss"), cell("val_loss"), "",
             cell("perplexity")]  # fmt: skip
    for temperature in task.temperatures:
        same = entry.temperature == temperature
        cells += [cell("char_accuracy"), cell("exact_match")] if same else ["", ""]
    return [*cells, *[""] * n_operation, ""]


def _cell(estimate: Estimate | None, places: int = 4) -> str:
    """Mean ± standard deviation; a dash where there is nothing."""
    if estimate is None:
        return "–"
    spread = "" if estimate.sd is None else f" ± {estimate.sd:.{places}f}"
    return f"{estimate.mean:.{places}f}{spread}"


def _signed(estimate: Estimate) -> str:
    """Mean ± half its 95% interval."""
    margin = "" if estimate.margin is None else f" ± {estimate.margin:.4f}"
    return f"{estimate.mean:+.4f}{margin}"
