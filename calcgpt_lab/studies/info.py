"""What `calcgpt info` prints: a model's variants, parameters, training and scores."""

from pathlib import Path
from typing import Any

from calcgpt.base.extras import install_line, is_installed
from calcgpt.checkpoint import METRICS, Checkpoint
from calcgpt.config import ModelConfig, Recipe
from calcgpt.errors import CheckpointError
from calcgpt.metrics import StoredMetrics
from calcgpt.section import build
from calcgpt_lab.data.tokenizers import TOKENIZERS
from calcgpt_lab.model import parameters
from calcgpt_lab.records import perplexity
from calcgpt_lab.saving import SPLITS, score_cells
from calcgpt_lab.tables import duration, printable, significant, text_table
from calcgpt_lab.training.environment import Start, read_starts
from datagen.operations import SIGNS

BYTES_PER_PARAMETER = 4  # in float32
BIGRAM = {"architecture", "block_size"}  # the fields that a bigram uses


class CheckpointMetrics(StoredMetrics):
    """The parts of a checkpoint's metrics.json that are printed."""

    tokens: int | None = None
    seconds: float | None = None
    data_sha256: str | None = None
    val_loss: float | None = None


def vocabulary_size(recipe: Recipe) -> int:
    """Returns the number of tokens of a recipe's tokenizer; for "chars", whose tokens are the
    characters of the data, the number of characters of the notation."""
    if recipe.tokenizer == "bpe":
        return recipe.vocab_size
    name = "arithmetic" if recipe.tokenizer == "chars" else recipe.tokenizer
    return len(TOKENIZERS[name]("", recipe.vocab_size))


def describe(config: ModelConfig, vocab_size: int) -> str:
    """Returns the variants of a model, and its parameters and operations."""
    parts = [choices(config), parameter_table(config, vocab_size)]
    parts.append(operation_table(config, vocab_size))
    if not is_installed("sympy"):
        parts.append(f"The formulas need sympy: {install_line('sympy')}")
    return "\n\n".join(parts)


def choices(config: ModelConfig) -> str:
    """Returns the named variants on one line, and other fields that are not at their defaults on
    the next. Leaves out fields that the architecture does not use."""
    fields = config.model_dump(include=BIGRAM if config.architecture == "bigram" else None)
    variants = {name for name, value in fields.items() if isinstance(value, str)} - {"characters"}
    changed = config.model_dump(exclude_defaults=True).keys() - variants
    lines = (
        ", ".join(f"{name} = {fields[name]}" for name in fields if name in names)
        for names in (variants, changed)
    )
    return "\n".join(line for line in lines if line)


def parameter_table(config: ModelConfig, vocab_size: int) -> str:
    """Returns the parameters of each part as a formula and as a number, and a legend of the
    formulas' letters."""
    numbers, parts = _count(config, vocab_size)
    expressions = {part: str(formula) for part, formula in parts.items()}
    total = sum(numbers.values())
    rows = [[part, expressions[part], f"{number:,}"] for part, number in numbers.items()]
    rows.append(["all", f"{total * BYTES_PER_PARAMETER / 1e6:,.1f} MB in float32", f"{total:,}"])
    letters = set("".join(expressions.values()))
    values = parameters.sizes(config, vocab_size)
    legend = [
        f"{letter} = {values[letter]:<8,} {meaning}"
        for letter, meaning in parameters.SIZES.items()
        if letter in letters
    ]
    return "\n".join([text_table([], rows, left=2), "", *legend])


def _count(config: ModelConfig, vocab_size: int) -> tuple[dict[str, int], dict[str, Any]]:
    """Returns the parameters of each part, and their formulas. Without formulas, a model is built
    and counted."""
    if parameters.has_formulas(config):
        return parameters.count(config, vocab_size), parameters.formulas(config)
    from calcgpt_lab.model.gpt import build_model

    return {"all parts": build_model(config, vocab_size).n_parameters()}, {"all parts": ""}


def operation_table(config: ModelConfig, vocab_size: int) -> str:
    """Returns the FLOPs of a token of a full context, as formulas and as numbers."""
    numbers = parameters.flops(config, vocab_size)
    expressions = parameters.formulas(config, parameters.flop_formulas)
    rows = [[part, str(expressions[part]), f"{number:,}"] for part, number in numbers.items()]
    total = sum(numbers.values())
    rows.append(["all, forward", "", f"{total:,}"])
    rows.append(["all, in training", "", f"{3 * total:,}"])
    return "FLOPs per token of a full context:\n" + text_table([], rows, left=2)


def training(checkpoint: Checkpoint, folder: Path) -> str:
    """Returns a checkpoint's progress and scores and, if it lies in the folder of its run, the
    environment in which it was trained.

    Raises CheckpointError, one line, if its metrics are invalid.
    """
    source = str(folder / METRICS)
    metrics = build(CheckpointMetrics, checkpoint.metrics, source, wrong=CheckpointError)
    parts = [printable(f"{folder}: {_progress(metrics, checkpoint.recipe.train.steps)}")]
    by_split = {label: getattr(metrics, key) for key, label in SPLITS.items()}
    cells = [score_cells(label, scores) for label, scores in by_split.items() if scores]
    rows = [[cell or None for cell in row] for row in cells]
    if rows:
        parts.append(text_table(["", "n", "char acc.", "exact match", *SIGNS], rows))
    starts = [start for start in read_starts(folder.parent) if start.step < (metrics.step or 0)]
    if starts:
        parts.append("\n".join(map(printable, _environment(starts))))
    return "\n\n".join(parts)


def _progress(metrics: CheckpointMetrics, steps: int) -> str:
    parts = []
    if metrics.step is not None:
        parts.append(f"step {metrics.step:,} of {steps:,}")
    if metrics.tokens is not None:
        parts.append(f"{metrics.tokens:,} tokens")
    if metrics.seconds is not None:
        parts.append(f"{duration(metrics.seconds)} of training")
    if metrics.val_loss is not None:
        parts.append(f"validation loss {significant(metrics.val_loss)}")
        parts.append(f"perplexity {significant(perplexity(metrics.val_loss))}")
    if metrics.data_sha256 is not None:
        parts.append(f"data {metrics.data_sha256[:12]}")
    return ", ".join(parts) or "metrics.json says nothing about its training"


def _environment(starts: list[Start]) -> list[str]:
    """Returns the time, versions, machine and settings of the last start, in four lines."""
    last = starts[-1]
    resumed = ", ".join(f"{start.step:,}" for start in starts if start.step)
    versions = [f"{name} {version}" for name, version in last.versions.items()]
    if git := last.git:
        versions.append(f"commit {git.commit[:12]}{' with changes' if git.dirty else ''}")
    device = last.device if last.device == "cpu" else f"{last.device} ({last.device_name})"
    return [
        f"started {last.time}" + (f" (resumed after step {resumed})" if resumed else ""),
        ", ".join(versions),
        f"{last.platform}, {last.processor}, {last.cores} cores, {last.threads} threads, "
        f"{last.processes} {'process' if last.processes == 1 else 'processes'}",
        f"{device}, {last.precision}, seed {last.seed}, deterministic algorithms "
        f"{'on' if last.deterministic.algorithms else 'off'}",
    ]
