"""What a model is made of, and how it came about: its choices, where its parameters are, its
training, what it scored, and what it was trained on.
"""

from __future__ import annotations

from pathlib import Path

from calcgpt.checkpoint import METRICS, SPLITS, Checkpoint
from calcgpt.config import ModelConfig
from calcgpt.errors import CheckpointError, ConfigError
from calcgpt.lab.compare import perplexity
from calcgpt.metrics import PartialModel, Scores
from calcgpt.model.parameters import SIZES, count, formulas, sizes
from calcgpt.recipe import build
from calcgpt.tables import duration, printable, significant, text_table
from calcgpt.training.environment import Start, read_starts

BYTES = 4  # of a float32


class _Metrics(PartialModel):
    step: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    data_sha256: str | None = None
    val_loss: float | None = None
    validation: Scores | None = None
    test: Scores | None = None
    test_sampled: Scores | None = None


def parameter_table(config: ModelConfig, vocab_size: int) -> str:
    """The parameters by part: the closed formula, and what it comes to. Below, the formulas'
    letters."""
    numbers = count(config, vocab_size)
    expressions = {part: str(expression) for part, expression in formulas(config).items()}
    total = sum(numbers.values())
    rows = [[part, expressions[part], f"{number:,}"] for part, number in numbers.items()]
    rows.append(["all", f"{total * BYTES / 1e6:,.1f} MB in float32", f"{total:,}"])
    legend = _legend(config, vocab_size, " ".join(expressions.values()))
    return f"{text_table([], rows, left=2)}\n\n{legend}"


def choices(config: ModelConfig) -> str:
    """The named variants on one line, the other fields that are not at their defaults on the
    next."""
    fields = config.model_dump()
    named = {name for name, value in fields.items() if isinstance(value, str)}
    changed = config.model_dump(exclude_defaults=True).keys() - named
    lines = (
        ", ".join(f"{name} = {fields[name]}" for name in fields if name in of)
        for of in (named, changed)
    )
    return "\n".join(line for line in lines if line)


def _legend(config: ModelConfig, vocab_size: int, formula: str) -> str:
    """The letters that occur in `formula`, their numbers and what they stand for."""
    numbers = sizes(config, vocab_size)
    return "\n".join(
        f"{letter} = {numbers[letter]:<8,} {meaning}"
        for letter, meaning in SIZES.items()
        if letter in formula
    )


def training(checkpoint: Checkpoint, folder: Path) -> str:
    """How far it was trained, what it scored and, for a checkpoint in the folder of its run, what
    it was trained on. CheckpointError, one line, for metrics that make no sense."""
    try:
        metrics = build(_Metrics, checkpoint.metrics, str(folder / METRICS))
    except ConfigError as error:
        raise CheckpointError(str(error)) from None
    parts = [printable(f"{folder}: {_progress(metrics, checkpoint.recipe.train.steps)}")]
    scores = {label: getattr(metrics, key) for key, label in SPLITS.items()}
    rows = [[label, *_score_cells(of)] for label, of in scores.items() if of is not None]
    if rows:
        parts.append(text_table(["", "n", "char acc.", "exact match", *"+-*/"], rows))
    before = [start for start in read_starts(folder.parent) if start.step < (metrics.step or 0)]
    if before:
        parts.append("\n".join(map(printable, _environment(before))))
    return "\n\n".join(parts)


def _progress(metrics: _Metrics, steps: int) -> str:
    told = []
    if metrics.step is not None:
        told.append(f"step {metrics.step:,} of {steps:,}")
    if metrics.tokens is not None:
        told.append(f"{metrics.tokens:,} tokens")
    if metrics.seconds is not None:
        told.append(f"{duration(metrics.seconds)} of training")
    if metrics.val_loss is not None:
        told.append(f"validation loss {significant(metrics.val_loss)}")
        if (of := perplexity(metrics.val_loss)) is not None:
            told.append(f"perplexity {significant(of)}")
    if metrics.data_sha256 is not None:
        told.append(f"data {metrics.data_sha256[:12]}")
    return ", ".join(told) or "nothing is known of its training"


def _score_cells(scores: Scores) -> list[str | None]:
    operations = scores.by_operation
    return [
        f"{scores.n:,}",
        f"{scores.char_accuracy:.4f}",
        f"{scores.exact_match:.4f}",
        *(f"{operations[op].exact_match:.4f}" if op in operations else None for op in "+-*/"),
    ]


def _environment(starts: list[Start]) -> list[str]:
    """What the last of these starts ran on, in four lines."""
    last, git = starts[-1], starts[-1].git
    resumed = ", ".join(f"{start.step:,}" for start in starts if start.step)
    versions = [f"{name} {version}" for name, version in last.versions.items()]
    if git:
        versions.append(f"commit {git.commit[:12]}{' with changes' if git.dirty else ''}")
    device = last.device if last.device == "cpu" else f"{last.device} ({last.device_name})"
    return [
        f"started {last.time}: {' '.join(last.command)}"
        + (f" (resumed after step {resumed})" if resumed else ""),
        ", ".join(versions),
        f"{last.platform}, {last.processor}, {last.cores} cores, {last.threads} threads, "
        f"{last.processes} {'process' if last.processes == 1 else 'processes'}",
        f"{device}, {last.precision}, seed {last.seed}, deterministic algorithms "
        f"{'on' if last.deterministic.algorithms else 'off'}",
    ]
