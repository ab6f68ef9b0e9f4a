"""Scores as records and as tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from calcgpt.checkpoint import CONFIG, Checkpoint, load_metrics
from calcgpt.errors import CheckpointError, DataError
from calcgpt.evaluate import Evaluation, evaluate, read_problems
from calcgpt.generate import Sampling
from calcgpt.model_card import SPLITS, operation_cells
from datagen.files import sha256


def evaluation_record(
    checkpoint: Checkpoint,
    data: Path,
    sampling: Sampling,
    limit: int | None = None,
    progress: bool = True,
) -> tuple[dict[str, Any], Evaluation]:
    """Score a checkpoint on a file; the record is what `calcgpt eval --json` writes."""
    lines = read_problems(data, limit)
    with tqdm(total=len(lines), unit="problem", disable=not progress, leave=False) as bar:
        evaluation = evaluate(checkpoint.model, checkpoint.tokenizer, lines, sampling, bar.update)
    manifest = data.parent / "manifest.json"
    record = {
        **evaluation.scores,
        "temperature": sampling.temperature,
        "seed": sampling.seed,
        "file": data.name,
        "file_sha256": sha256(data),
        "manifest_sha256": sha256(manifest) if manifest.is_file() else None,
        "checkpoint": checkpoint.name,
        "parameters": checkpoint.model.n_parameters(),
        "problems_per_second": round(evaluation.problems_per_second, 1),
    }
    return record, evaluation


def publish(
    checkpoint: Checkpoint, data: Path, out: Path, force: bool = False, progress: bool = True
) -> None:
    """Write `out`: the checkpoint without its training state, scored on the whole validation and
    test files of `data`, greedy, and on the test file sampled at temperature 1, as in the blog.

    Raises CheckpointError where something stands at `out`, unless it is a checkpoint and `force`.
    """
    if out.exists() and not (out / CONFIG).is_file():
        raise CheckpointError(f"{out} exists and is no checkpoint: it is left alone")
    if out.exists() and not force:
        raise CheckpointError(f"{out} exists; --force replaces it")
    scored = {
        "validation": (data / "val.txt", Sampling()),
        "test": (data / "test.txt", Sampling()),
        "test_sampled": (data / "test.txt", Sampling(temperature=1.0)),
    }
    assert scored.keys() == SPLITS.keys()
    metrics = dict(checkpoint.metrics)
    for key, (file, sampling) in scored.items():
        metrics[key] = evaluation_record(checkpoint, file, sampling, progress=progress)[0]
        # Said once, for the whole; and a speed is the machine's, not the model's.
        for not_here in ("checkpoint", "parameters", "problems_per_second"):
            del metrics[key][not_here]
    dataclasses.replace(checkpoint, metrics=metrics).save(out)


def score_table(record: dict[str, Any]) -> str:
    """The scores of one evaluation, for a terminal."""
    rows = [("all", record), *record["by_operation"].items()]
    lines = [f"{'':>4}{'n':>9}{'char accuracy':>16}{'exact match':>14}"]
    lines += [
        f"{name:>4}{s['n']:>9,}{s['char_accuracy']:>16.4f}{s['exact_match']:>14.4f}"
        for name, s in rows
    ]
    return "\n".join(lines)


def error_table(evaluation: Evaluation, limit: int) -> str:
    """The first wrong answers beside the right ones, as fields, so that characters line up."""
    width = len(evaluation.lines[0].prompt)
    rows = [f"{'problem':<{width}}  {'right':<13}  model"]
    for line, output in zip(evaluation.lines, evaluation.outputs, strict=True):
        if (line.prompt + output).rpartition("=")[2] != line.field:
            rows.append(f"{line.prompt:<{width}}  {line.field:<13}  {output}")
        if len(rows) > limit:
            break
    return "\n".join(rows) if len(rows) > 1 else "no wrong answers"


def comparison_table(folders: Sequence[Path]) -> str:
    """The test scores in `metrics.json` of several folders, one Markdown row each."""
    lines = [
        "| model | parameters | n | char accuracy, greedy | exact match, greedy "
        "| char accuracy, sampled | exact match, sampled | EM + | EM - | EM * | EM / |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for folder in folders:
        metrics = load_metrics(folder)
        try:
            greedy, sampled = metrics["test"], metrics["test_sampled"]
            cells = [folder.resolve().name, f"{metrics['parameters']:,}", f"{greedy['n']:,}"]
            for scores in (greedy, sampled):
                cells += [f"{scores['char_accuracy']:.4f}", f"{scores['exact_match']:.4f}"]
            cells += operation_cells(greedy)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{folder}: metrics.json is not that of a published checkpoint: {error!r}"
            ) from None
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
