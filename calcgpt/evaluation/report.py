"""Scores as records and as tables."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from calcgpt.checkpoint import (
    ALSO,
    CONFIG,
    SPLITS,
    Checkpoint,
    check_replaceable,
    load_metrics,
    operation_cells,
)
from calcgpt.data.problems import Line, read_problems
from calcgpt.errors import DataError
from calcgpt.evaluation.evaluate import Evaluation, answer_field, by_length, evaluate
from calcgpt.evaluation.first_errors import fault_record, find_fault
from calcgpt.inference.confidence import confidence_record
from calcgpt.inference.generate import Sampling
from calcgpt.metrics import Accuracy, Scores, read_scores
from datagen.files import sha256

# Said once, for the whole; a speed is the machine's, not the model's; and long.
NOT_PUBLISHED = {"checkpoint", "parameters", "problems_per_second", "by_length"}


def evaluation_record(
    checkpoint: Checkpoint,
    data: Path,
    sampling: Sampling,
    limit: int | None = None,
    progress: bool = True,
) -> tuple[dict[str, Any], Evaluation]:
    """Score a checkpoint on a file; the record is what `calcgpt eval --json` writes.

    `confidence` is as `confidence_record` says, `by_length` as the function of that name; where
    there are worked steps, `fault_record` adds which fail.
    """
    lines = read_problems(data, limit)
    with tqdm(total=len(lines), unit="problem", disable=not progress, leave=False) as bar:
        evaluation = evaluate(checkpoint.model, checkpoint.tokenizer, lines, sampling, bar.update)
    manifest = data.parent / "manifest.json"
    digits = checkpoint.recipe.work_digits
    record = {
        **evaluation.scores.model_dump(),
        "confidence": confidence_record(
            evaluation.outputs, evaluation.probabilities, evaluation.right
        ),
        "by_length": by_length(evaluation),
        **({} if digits is None else fault_record(evaluation, digits)),
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
    checkpoint: Checkpoint,
    data: Path,
    out: Path,
    force: bool = False,
    *,
    also: Mapping[str, Path] | None = None,
    progress: bool = True,
) -> None:
    """Write `out`: the checkpoint without its training state, scored on the whole validation and
    test files of `data`, greedy, and on the test file sampled at temperature 1, as in the blog.

    `also` names further files, which are scored greedy, under `also` in the metrics.
    Raises CheckpointError where something stands at `out`, unless it is a checkpoint and `force`,
    and DataError for a file that holds no problems, before anything is scored.
    """
    check_replaceable(out, CONFIG, force)
    scored = {
        "validation": (data / "val.txt", Sampling()),
        "test": (data / "test.txt", Sampling()),
        "test_sampled": (data / "test.txt", Sampling(temperature=1.0)),
    }
    assert scored.keys() == SPLITS.keys()
    further = {name: (file, Sampling()) for name, file in (also or {}).items()}
    for file, _ in (*scored.values(), *further.values()):
        read_problems(file)

    def scores(file: Path, sampling: Sampling) -> dict[str, Any]:
        record, _ = evaluation_record(checkpoint, file, sampling, progress=progress)
        return {key: value for key, value in record.items() if key not in NOT_PUBLISHED}

    metrics = {key: value for key, value in checkpoint.metrics.items() if key != ALSO}
    metrics |= {key: scores(*source) for key, source in scored.items()}
    if further:
        metrics[ALSO] = {name: scores(*source) for name, source in further.items()}
    dataclasses.replace(checkpoint, metrics=metrics).save(out)


def score_table(scores: Scores) -> str:
    """Returns the scores of one evaluation as a table for a terminal."""
    rows: list[tuple[str, Accuracy]] = [("all", scores), *scores.by_operation.items()]
    lines = [f"{'':>4}{'n':>9}{'char accuracy':>16}{'exact match':>14}"]
    lines += [
        f"{name:>4}{row.n:>9,}{row.char_accuracy:>16.4f}{row.exact_match:>14.4f}"
        for name, row in rows
    ]
    return "\n".join(lines)


def confidence_line(record: dict[str, Any]) -> str:
    """What the probabilities are worth: calibration, and the measure that keeps most problems."""
    error = record["confidence"]["reliability"]["expected_calibration_error"]
    thresholds = record["confidence"]["no_error_above"]
    best = max(thresholds, key=lambda name: thresholds[name]["kept"])
    threshold, kept = thresholds[best]["confidence"], thresholds[best]["kept"]
    return (
        f"confidence: expected calibration error {error:.4f}; above {threshold:.6f} "
        f"({best.replace('_', ' ')}) no answer is wrong, which keeps {kept:.2%}"
    )


def fault_table(record: dict[str, Any]) -> str:
    """Which step of the wrong answers is the first that is wrong, and how many right answers have
    such a step as well."""
    operations, faults = list(record["by_operation"]), record["first_faults"]
    headings = sum((Counter(counts) for counts in faults.values()), Counter[str]())
    lines = []
    if headings:
        lines.append(f"{'first wrong step':<20}" + "".join(f"{op:>9}" for op in operations))
    for heading, _ in headings.most_common():
        counts = (faults.get(op, {}).get(heading, 0) for op in operations)
        lines.append(f"{heading:<20}" + "".join(f"{count:>9,}" for count in counts))
    lucky = sum(sum(counts.values()) for counts in record["faults_of_right_answers"].values())
    return "\n".join([*lines, f"right answers with a wrong step: {lucky:,}"])


def wrong_answers(evaluation: Evaluation, limit: int, digits: int | None = None) -> str:
    """The first wrong answers beside the right ones, and, if the recipe has `work_digits`, the
    first wrong step of each."""
    pairs = zip(evaluation.lines, evaluation.outputs, evaluation.right, strict=True)
    wrong = [(line, output) for line, output, right in pairs if not right][:limit]
    if not wrong:
        return "no wrong answers"
    if digits is not None:
        return "\n".join(_wrong_work(line, output, digits) for line, output in wrong)
    width = len(wrong[0][0].prompt)  # as fields, so that characters line up
    rows = [f"{line.prompt:<{width}}  {line.field:<13}  {output}" for line, output in wrong]
    return "\n".join([f"{'problem':<{width}}  {'right':<13}  model", *rows])


def _wrong_work(line: Line, output: str, digits: int) -> str:
    """One wrong answer, its first wrong step, and a caret under the character that begins it."""
    finding = find_fault(line, output, digits)
    assert finding, "a wrong answer without a finding"
    field = excerpt(answer_field(line, output), 0, 24)[0] if "=" in output else "(none)"
    rows = [f"{line.prompt}  right {line.field}  model {field}"]
    if fault := finding.fault:
        expected, found = (repr(c) if c else "the end" for c in (fault.expected, fault.actual))
        shown, place = excerpt(output, fault.position)
        where = f"{finding.heading} at position {fault.position}"
        rows += [f"{where}: {expected} expected, {found} found", shown, " " * place + "^"]
    else:
        rows.append(finding.heading)
    return "\n    ".join(rows)


def excerpt(text: str, position: int, width: int = 72) -> tuple[str, int]:
    """About `width` characters around a position, with `…` where more follows or precedes, and the
    place of the position among them."""
    start = max(0, min(position - width // 2, len(text) + 1 - width))
    before = "…" if start else ""
    after = "…" if start + width < len(text) else ""
    return f"{before}{text[start : start + width]}{after}", position - start + len(before)


def comparison_table(folders: Sequence[Path]) -> str:
    """The test scores in `metrics.json` of several folders, one Markdown row each."""
    lines = [
        "| model | parameters | n | char accuracy, greedy | exact match, greedy "
        "| char accuracy, sampled | exact match, sampled | EM + | EM - | EM * | EM / |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for folder in folders:
        metrics = load_metrics(folder)
        source = f"{folder}: metrics.json is not that of a published checkpoint"
        try:
            cells = [folder.resolve().name, f"{metrics['parameters']:,}"]
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{source}: {error!r}") from None
        greedy, sampled = (read_scores(metrics, key, source) for key in ("test", "test_sampled"))
        cells.append(f"{greedy.n:,}")
        for scores in (greedy, sampled):
            cells += [f"{scores.char_accuracy:.4f}", f"{scores.exact_match:.4f}"]
        cells += operation_cells(greedy)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
