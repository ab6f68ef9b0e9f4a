"""Evaluation records, publishing of checkpoints, and tables of scores."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from calcgpt.base.errors import DataError
from calcgpt.base.files import sha256
from calcgpt.base.progress import progress_bar
from calcgpt.checkpoint import ALSO, CONFIG, SPLITS, Checkpoint, check_replaceable, load_metrics
from calcgpt.inference.decoding import Decoder
from calcgpt.metrics import Accuracy, Scores, operation_cells, read_scores
from calcgpt.tables import markdown_table, text_table
from calcgpt_lab.data.dataset import MANIFEST
from calcgpt_lab.data.problems import Line, read_hashed_problems, read_problems
from calcgpt_lab.data.task import AnyTask
from calcgpt_lab.evaluation.calibration import confidence_record
from calcgpt_lab.evaluation.evaluate import (
    Evaluation,
    answer_field,
    by_operand_length,
    evaluate,
    first_error,
    first_error_record,
    predicts_text,
)
from calcgpt_lab.model.decoding import Sampling
from datagen.splits import Split

# Fields of a record that metrics.json leaves out: it has the first two elsewhere, the speed depends
# on the machine, and the tables by length are long.
NOT_PUBLISHED = {"checkpoint", "parameters", "problems_per_second", "by_length"}

Evaluate: TypeAlias = Callable[..., Evaluation]  # takes lines and `progress`, as `evaluate` does


def evaluation_record(
    checkpoint: Checkpoint,
    data: Path | AnyTask,
    sampling: Sampling,
    limit: int | None = None,
    progress: bool = True,
    score_lines: Evaluate | None = None,
    split: str = "test",
) -> tuple[dict[str, Any], Evaluation]:
    """Scores a checkpoint on the problems of a file or of a task.

    `split` names the part of a task to score: `train`, `val`, `test` or `all`. The seed of the
    checkpoint's recipe splits the task, as in training.

    Returns the record that `calcgpt eval --json` writes, and the evaluation. `score_lines` replaces
    `evaluate` with the model itself. The field `confidence` of the record is a `confidence_record`.
    For a file, the record has `by_length` from `by_operand_length` and, if the model writes worked
    steps, the fields of `first_error_record`.
    """
    split_seed = checkpoint.recipe.train.seed
    if isinstance(data, Path):
        lines, data_sha256 = read_hashed_problems(data, limit)
    else:
        lines = data.lines(split, split_seed, limit)
    if score_lines is None:
        score_lines = partial(evaluate, checkpoint.model, checkpoint.tokenizer, sampling=sampling)
    with progress_bar(len(lines), progress, unit="problem", leave=False) as bar:
        evaluation = score_lines(lines, progress=bar.update)
    record = {
        **evaluation.scores.model_dump(),
        "confidence": confidence_record(evaluation.confidences, evaluation.right),
        "temperature": sampling.temperature,
        "seed": sampling.seed,
        "checkpoint": checkpoint.name,
        "parameters": checkpoint.n_parameters,
        "problems_per_second": round(evaluation.problems_per_second, 1),
    }
    if not isinstance(data, Path):
        source = {"task": data.name, "task_sha256": data.fingerprint}
        return record | source | {"split": split, "split_seed": split_seed}, evaluation
    record["by_length"] = by_operand_length(evaluation)
    if checkpoint.recipe.has_work:
        record |= first_error_record(evaluation)
    manifest = data.parent / MANIFEST
    return record | {
        "file": data.name,
        "file_sha256": data_sha256,
        "manifest_sha256": sha256(manifest) if manifest.is_file() else None,
    }, evaluation


def publish(
    checkpoint: Checkpoint,
    data: Path | AnyTask,
    out: Path,
    force: bool = False,
    *,
    also: Mapping[str, Path] | None = None,
    decoder: Decoder | None = None,
    progress: bool = True,
) -> None:
    """Writes the folder `out`: the checkpoint without its training state, and its scores.

    The validation and test problems of `data`, a data set or a task, are scored with greedy
    decoding. The test problems are also scored with sampling at temperature 1, as in the blog post.
    `also` names further files, which are scored with greedy decoding and recorded under `also` in
    the metrics. `decoder` decodes greedily; it defaults to the model itself.

    Raises CheckpointError if `out` exists and may not be replaced (see `check_replaceable`), and
    DataError for a model of plain text, for a file without problems and for a pipe. Raises before
    any scoring.
    """
    check_replaceable(out, force, CONFIG)
    if predicts_text(checkpoint):
        raise DataError(f"{checkpoint.name} predicts text: it has no answers to score")
    if isinstance(data, Path) and data.is_file():
        raise DataError(f"{data} is a file: name its folder, which has val.txt and test.txt")
    also = also or {}
    splits = (str(Split.VAL), str(Split.TEST))
    val, test = (data / f"{split}.txt" if isinstance(data, Path) else data for split in splits)
    for source in (val, test, *also.values()):
        if isinstance(source, Path):
            if source.exists() and not (source.is_file() or source.is_dir()):
                raise DataError(f"{source} is not a regular file, and it is read more than once")
            read_problems(source)

    def scores(source: Path | AnyTask, split: str = "", temperature: float = 0.0) -> dict[str, Any]:
        sampling = Sampling(temperature)
        model = decoder if decoder and not temperature else checkpoint.model
        tokenizer = checkpoint.tokenizer
        answers = partial(evaluate, model, tokenizer, sampling=sampling)
        record, _ = evaluation_record(checkpoint, source, sampling, None, progress, answers, split)
        return {key: value for key, value in record.items() if key not in NOT_PUBLISHED}

    metrics = {key: value for key, value in checkpoint.metrics.items() if key != ALSO}
    metrics["validation"], metrics["test"] = scores(val, splits[0]), scores(test, splits[1])
    metrics["test_sampled"] = scores(test, splits[1], temperature=1.0)
    assert metrics.keys() >= SPLITS.keys()
    if also:
        metrics[ALSO] = {name: scores(file) for name, file in also.items()}
    dataclasses.replace(checkpoint, metrics=metrics).save(out)


def score_text(what: str, record: dict[str, Any], evaluation: Evaluation) -> str:
    """Returns the scores of `what` for a terminal, and how far its confidence can be trusted."""
    temperature = record["temperature"]
    how = f"sampled at temperature {temperature:g}, seed {record['seed']}"
    parts = [f"{what}: {how if temperature else 'greedy'} decoding", score_table(evaluation.scores)]
    if evaluation.problems_per_second:
        parts.append(f"{evaluation.problems_per_second:,.0f} problems/s")
    parts.append(confidence_line(record))
    if "first_errors" in record:
        parts.append(first_error_table(record))
    return "\n".join(parts)


def score_table(scores: Scores) -> str:
    """Returns the scores of one evaluation as a table for a terminal."""
    rows: list[tuple[str, Accuracy]] = [("all", scores), *scores.by_operation.items()]
    return text_table(
        ["", "n", "char accuracy", "exact match"],
        [
            [name, f"{row.n:,}", f"{row.char_accuracy:.4f}", f"{row.exact_match:.4f}"]
            for name, row in rows
        ],
    )


def confidence_line(record: dict[str, Any]) -> str:
    """Returns the calibration error, and the threshold of the confidence that keeps most."""
    error = record["confidence"]["reliability"]["expected_calibration_error"]
    thresholds = record["confidence"]["no_error_above"]
    best = max(thresholds, key=lambda name: thresholds[name]["kept"])
    threshold, kept = thresholds[best]["confidence"], thresholds[best]["kept"]
    if not kept:
        return f"confidence: expected calibration error {error:.4f}; no threshold excludes errors"
    return (
        f"confidence: expected calibration error {error:.4f}; above {threshold:.6f} "
        f"({best.replace('_', ' ')}) no answer is wrong, which keeps {kept:.2%}"
    )


def first_error_table(record: dict[str, Any]) -> str:
    """Returns the number of wrong answers by the kind of their first wrong step, and the number of
    right answers with a wrong step."""
    operations, counts = list(record["by_operation"]), record["first_errors"]
    totals = sum(map(Counter, counts.values()), Counter[str]())
    rows = [
        [kind, *(f"{counts.get(op, {}).get(kind, 0):,}" for op in operations)]
        for kind, _ in totals.most_common()
    ]
    table = text_table(["first wrong step", *operations], rows) + "\n" if rows else ""
    n_right = sum(sum(kinds.values()) for kinds in record["errors_of_right_answers"].values())
    return f"{table}right answers with a wrong step: {n_right:,}"


def wrong_answers(evaluation: Evaluation, limit: int, has_work: bool = False) -> str:
    """Returns the first wrong answers, each with the right one. If the model writes worked
    steps, the first wrong step of each is shown too."""
    rows = zip(evaluation.lines, evaluation.outputs, evaluation.right, strict=True)
    wrong = [(line, output) for line, output, right in rows if not right][:limit]
    if not wrong:
        return "no wrong answers"
    if has_work:
        return "\n".join(_wrong_work(line, output) for line, output in wrong)
    header = ["problem", "right", "model"]
    return text_table(
        header, [[line.prompt, line.answer, output] for line, output in wrong], left=3
    )


def _wrong_work(line: Line, output: str) -> str:
    """Returns one wrong answer and its first wrong step, with a caret under the wrong character."""
    error = first_error(line, output)
    assert error, "a wrong answer without an error"
    answer = excerpt(answer_field(line, output), 0, 24)[0] if "=" in output else "(none)"
    rows = [f"{line.prompt}  right {line.answer}  model {answer}"]
    if wrong := error.character:
        expected, actual = (repr(c) if c else "the end" for c in (wrong.expected, wrong.actual))
        text, index = excerpt(output, wrong.position)
        position = f"{error.kind} at position {wrong.position}"
        rows += [f"{position}: {expected} expected, {actual} found", text, " " * index + "^"]
    else:
        rows.append(error.kind)
    return "\n    ".join(rows)


def excerpt(text: str, position: int, width: int = 72) -> tuple[str, int]:
    """Returns about `width` characters around a position, with `…` for text that is cut off, and
    the index of the position among them."""
    start = max(0, min(position - width // 2, len(text) + 1 - width))
    before = "…" if start else ""
    after = "…" if start + width < len(text) else ""
    return f"{before}{text[start : start + width]}{after}", position - start + len(before)


def comparison_table(folders: Sequence[Path]) -> str:
    """Returns the test scores in `metrics.json` of several folders as a Markdown table.

    Raises DataError if one is not the `metrics.json` of a published checkpoint.
    """
    header = ["model", "parameters", "n", "char accuracy, greedy", "exact match, greedy"]
    header += ["char accuracy, sampled", "exact match, sampled", "EM +", "EM -", "EM *", "EM /"]
    rows = []
    for folder in folders:
        metrics = load_metrics(folder)
        if metrics.get("test") is None:
            raise DataError(
                f"{folder} is not published: `calcgpt publish {folder} OUT --data FOLDER` writes "
                "its scores"
            )
        source = f"{folder}: metrics.json is not that of a published checkpoint"
        try:
            parameters = f"{metrics['parameters']:,}"
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{source}: {error!r}") from None
        greedy, sampled = (read_scores(metrics, key, source) for key in ("test", "test_sampled"))
        accuracies = [
            f"{share:.4f}"
            for scores in (greedy, sampled)
            for share in (scores.char_accuracy, scores.exact_match)
        ]
        name = folder.resolve().name
        rows.append([name, parameters, f"{greedy.n:,}", *accuracies, *operation_cells(greedy)])
    return markdown_table(header, rows)
