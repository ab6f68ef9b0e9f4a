"""Evaluation records, their tables and plots, and publishing of checkpoints."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from calcgpt.base.errors import DataError, NotationError
from calcgpt.base.files import sha256
from calcgpt.base.progress import progress_bar
from calcgpt.checkpoint import CONFIG, Checkpoint, check_replaceable
from calcgpt.inference.decoding import Decoder
from calcgpt.metrics import Accuracy, Scores
from calcgpt_lab.data.dataset import MANIFEST
from calcgpt_lab.data.problems import Line, read_hashed_problems, read_problems
from calcgpt_lab.data.task import AnyTask
from calcgpt_lab.evaluation.calibration import confidence_record
from calcgpt_lab.evaluation.evaluate import Evaluation, answer_field, evaluate, predicts_text
from calcgpt_lab.model.decoding import Sampling
from calcgpt_lab.saving import ALSO, SPLITS, save
from calcgpt_lab.tables import printable, text_table
from datagen.splits import Split
from datagen.work_errors import first_error_of_completion

# Fields of a record that metrics.json leaves out: it has the first two elsewhere, and the speed
# depends on the machine.
NOT_PUBLISHED = {"checkpoint", "parameters", "problems_per_second"}

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
    """
    if predicts_text(checkpoint):
        raise DataError(f"{checkpoint.name} predicts text: it has no answers to score")
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
    save(dataclasses.replace(checkpoint, metrics=metrics), out)


def score_text(what: str, record: dict[str, Any], evaluation: Evaluation) -> str:
    """Returns the scores of `what` for a terminal, and how far its confidence can be trusted."""
    temperature = record["temperature"]
    how = f"sampled at temperature {temperature:g}, seed {record['seed']}"
    parts = [f"{what}: {how if temperature else 'greedy'} decoding", score_table(evaluation.scores)]
    parts += [f"{evaluation.problems_per_second:,.0f} problems/s", confidence_line(record)]
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


def scored_lines(evaluation: Evaluation) -> str:
    """Returns a JSON object for each problem, one a line: what the model wrote after its prompt
    and, if that is another, the true completion."""
    columns = (evaluation.lines, evaluation.outputs, evaluation.confidences, evaluation.right)
    rows = []
    for line, output, confidence, right in zip(*columns, strict=True):
        row = {"prompt": line.prompt, "right": right, "confidence": confidence.model_dump()}
        other = {} if output == line.completion else {"completion": line.completion}
        rows.append(f"{json.dumps({**row, 'output': output, **other})}\n")
    return "".join(rows)


def wrong_answers(evaluation: Evaluation, limit: int, has_work: bool = False) -> str:
    """Returns a table of the first wrong answers. If the model writes worked steps, it has the
    first wrong character of each."""
    rows = zip(evaluation.lines, evaluation.outputs, evaluation.right, strict=True)
    wrong = [(line, output) for line, output, right in rows if not right][:limit]
    if not wrong:
        return "no wrong answers"
    header = ["problem", "right", "model", *(["first wrong character"] if has_work else [])]
    cells = []
    for line, output in wrong:
        field = printable(answer_field(line, output)) if "=" in output else "(none)"
        worked = [field, _first_error(line, output)] if has_work else [printable(output)]
        cells.append([line.prompt, line.answer, *worked])
    return text_table(header, cells, left=len(header))


def _first_error(line: Line, output: str) -> str:
    """Returns the first wrong character of some work: its place, and what would be right."""
    try:
        error = first_error_of_completion(line.prompt, output)
    except NotationError:
        return "beyond the notation"
    if error is None:  # the answer in the file is wrong
        return "none"
    expected, actual = (repr(c) if c else "the end" for c in (error.expected, error.actual))
    return f"{error.kind} {error.position}: {expected} expected, {actual} found"
