"""The README of a checkpoint, written from its recipe and its metrics alone."""

from __future__ import annotations

from typing import Any

from calcgpt.recipe import Recipe

SPLITS = {
    "validation": "validation, greedy",
    "test": "test, greedy",
    "test_sampled": "test, sampled at temperature 1",
}
ALSO = "also"  # scores on further files, by the name that was given to each


def model_card(name: str, recipe: Recipe, metrics: dict[str, Any]) -> str:
    """Markdown: what the model is, how it was made, what it scored."""
    model, train = recipe.model, recipe.train
    lines = [
        f"# {name}",
        "",
        recipe.description or "A decoder-only transformer trained from scratch.",
        "",
        f"- {metrics.get('parameters', 0):,} parameters: {model.n_layer} layers, "
        f"{model.n_embd} dimensions, {model.n_head} query and {model.kv_heads} key/value heads, "
        f"context {model.block_size}; positions {model.position}, feed-forward "
        f"{model.feedforward}, norm {model.norm}",
        f"- trained for {metrics.get('step', '?')} steps of {train.batch_size} sequences "
        f"({train.batches}), {train.optimizer}, seed {train.seed}",
        "",
    ]
    rows = [score_row(label, metrics[key]) for key, label in SPLITS.items() if key in metrics]
    rows += [score_row(f"{key}, greedy", scores) for key, scores in metrics.get(ALSO, {}).items()]
    if rows:
        lines += [SCORE_HEADER, *rows, ""]
    lines += [
        "It is a research artefact: its answers can be wrong, and `calcgpt calc` says when they",
        "are. Made from `config.json` and `metrics.json` beside this file.",
    ]
    return "\n".join(lines) + "\n"


SCORE_HEADER = (
    "| data | n | character accuracy | exact match | + | - | * | / |\n"
    "|---|---|---|---|---|---|---|---|"
)


def score_row(label: str, scores: dict[str, Any]) -> str:
    """One row of a score table: overall, then exact match per operation."""
    cells = [f"{scores['n']:,}", f"{scores['char_accuracy']:.4f}", f"{scores['exact_match']:.4f}"]
    return f"| {label} | {' | '.join(cells + operation_cells(scores))} |"


def operation_cells(scores: dict[str, Any]) -> list[str]:
    """Exact match of each operation; empty where the data has none of it."""
    operations = scores["by_operation"]
    return [f"{operations[op]['exact_match']:.4f}" if op in operations else "" for op in "+-*/"]
