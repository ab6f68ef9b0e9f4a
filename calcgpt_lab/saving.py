"""Checkpoints as folders: how they are written, and the model card."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import save_file

from calcgpt import __version__
from calcgpt.base import files
from calcgpt.base.errors import DataError, as_path, check_items, check_types
from calcgpt.checkpoint import CARD, CONFIG, METRICS, TOKENIZER, WEIGHTS, Checkpoint, config_sha256
from calcgpt.config import Recipe
from calcgpt.errors import CheckpointError
from calcgpt.metrics import Scores
from calcgpt.section import build
from calcgpt.switches import SWITCHES
from calcgpt.tensors import reason
from calcgpt_lab.tables import markdown_table
from datagen.operations import SIGNS

SPLITS = {
    "validation": "validation, greedy",
    "test": "test, greedy",
    "test_sampled": "test, sampled at temperature 1",
}
ALSO = "also"  # the key of scores on further files, which are named by the user


def save(
    checkpoint: Checkpoint,
    folder: str | Path,
    extra: Mapping[str, Mapping[str, NDArray[Any]]] | None = None,
) -> None:
    """Writes the folder, whole or not at all.

    `extra` holds the content of further safetensors files by file name, such as the state of
    the training.
    """
    check_types(checkpoint=(checkpoint, Checkpoint), extra=(extra, Mapping, None))
    check_items(extra=(extra or {}, str), tensors=((extra or {}).values(), Mapping))
    folder = as_path("folder", folder)
    files.check_output_folder(folder)
    with files.new_folder(folder) as staging:
        files.write_text(staging / TOKENIZER, checkpoint.tokenizer.to_json())
        _write_tensors(checkpoint.stored_arrays, staging / WEIGHTS)
        for name, tensors in (extra or {}).items():
            arrays = {key: np.asarray(array, order="C") for key, array in tensors.items()}
            _write_tensors(arrays, staging / name)
        config = {"calcgpt_version": __version__, **checkpoint.recipe.model_dump()}
        files.write_json(staging / METRICS, checkpoint.metrics)
        if checkpoint.switches:
            files.write_json(staging / SWITCHES, checkpoint.switches.model_dump())
        names = (TOKENIZER, METRICS, WEIGHTS, *(extra or {}))
        hashes = {name: files.sha256(staging / name) for name in names}
        hashes[CONFIG] = config_sha256(config)
        files.write_json(staging / CONFIG, {**config, "sha256": hashes})
        card = model_card(folder.name, checkpoint.recipe, checkpoint.metrics)
        files.write_text(staging / CARD, card)


def _write_tensors(arrays: dict[str, NDArray[Any]], path: Path) -> None:
    """Raises CheckpointError if it fails, and OSError if that is for want of space, which is not an
    OSError in safetensors."""
    try:
        save_file(arrays, path)
        path.chmod(0o644)  # safetensors makes files that only their owner can read
    except SafetensorError as error:
        for number in files.NO_SPACE:
            if f"(os error {number})" in str(error):
                raise OSError(number, os.strerror(number), str(path)) from None
        raise CheckpointError(f"cannot write {path}: {reason(error)}") from None


def model_card(
    name: str, recipe: Recipe, metrics: dict[str, Any], source: str = "beside this file"
) -> str:
    """Returns the README of a checkpoint in Markdown: the model, its training and its scores.

    `source` says where the recipe and the metrics are.
    """
    model, train = recipe.model, recipe.train
    lines = [
        f"# {name}",
        "",
        recipe.description or "A decoder-only transformer trained from scratch.",
        "",
        f"- {metrics.get('parameters') or 0:,} parameters: {model.n_layer} layers, "
        f"{model.n_embd} dimensions, {model.n_head} query and {model.kv_heads} key/value heads, "
        f"context {model.block_size}; positions {model.position}, feed-forward "
        f"{model.feedforward}, norm {model.norm}",
        f"- trained for {metrics.get('step', '?')} steps of {train.batch_size} sequences "
        f"({train.batches}), {train.optimizer}, seed {train.seed}",
        "",
    ]
    also = metrics.get(ALSO) or {}
    scores = {
        label: read_scores(metrics, key, name)
        for key, label in SPLITS.items()
        if metrics.get(key) is not None
    }
    scores |= {f"{key}, greedy": read_scores(also, key, name) for key in also}
    calculates = any(row.by_operation for row in scores.values()) or not scores
    if scores:
        header = ["data", "n", "character accuracy", "exact match", *SIGNS]
        rows = [score_cells(label, row) for label, row in scores.items()]
        end = None if calculates else -len(SIGNS)
        lines += [markdown_table(header[:end], [row[:end] for row in rows]), ""]
    warning = ", and `calcgpt calc` says when they\nare." if calculates else "."
    lines += [
        f"It is a research artefact: its answers can be wrong{warning} Made from `config.json` and "
        f"`metrics.json` {source}."
    ]
    return "\n".join(lines) + "\n"


def read_scores(metrics: Mapping[str, Any], key: str, source: str) -> Scores:
    """Returns the scores under `key` of a checkpoint's `metrics.json`. Raises DataError, one line
    that starts with `source`, if they are not valid."""
    return build(Scores, metrics.get(key), f"{source}: {key}", wrong=DataError)


def score_cells(label: str, scores: Scores) -> list[str]:
    """Returns a row of a score table: accuracy over all problems, then exact match by operation, ""
    for one of which the data has no problem."""
    accuracy = [f"{scores.n:,}", f"{scores.char_accuracy:.4f}", f"{scores.exact_match:.4f}"]
    by_operation = (scores.by_operation.get(operation) for operation in SIGNS)
    return [label, *accuracy, *(f"{row.exact_match:.4f}" if row else "" for row in by_operation)]
