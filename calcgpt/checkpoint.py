"""The README of a checkpoint, written from its recipe and its metrics alone.

Checkpoints: a folder of plain files, nothing pickled.

config.json         the recipe, the package version, the SHA-256 of itself and of the next two
tokenizer.json      the vocabulary
model.safetensors   the weights
metrics.json        what it scored, and on what
README.md           the model card
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from calcgpt import __version__
from calcgpt.config import Recipe
from calcgpt.data.tokenizer import Tokenizer, tokenizer_from_json
from calcgpt.errors import CheckpointError, ConfigError
from calcgpt.metrics import OPERATIONS, Scores, read_scores
from calcgpt.model.gpt import LanguageModel, build_model
from calcgpt.model.parameters import count
from calcgpt.recipe import build
from datagen.files import new_folder, read_json, sha256, write_json, write_text

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
    also = metrics.get(ALSO, {})
    rows = [
        score_row(label, read_scores(metrics, key, name))
        for key, label in SPLITS.items()
        if key in metrics
    ]
    rows += [score_row(f"{key}, greedy", read_scores(also, key, name)) for key in also]
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


def score_row(label: str, scores: Scores) -> str:
    """One row of a score table: overall, then exact match per operation."""
    cells = [f"{scores.n:,}", f"{scores.char_accuracy:.4f}", f"{scores.exact_match:.4f}"]
    return f"| {label} | {' | '.join(cells + operation_cells(scores))} |"


def operation_cells(scores: Scores) -> list[str]:
    """Exact match of each operation; empty where the data has none of it."""
    accuracies = (scores.by_operation.get(operation) for operation in OPERATIONS)
    return [f"{accuracy.exact_match:.4f}" if accuracy else "" for accuracy in accuracies]


CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
METRICS, CARD = "metrics.json", "README.md"

log = logging.getLogger(__name__)


@dataclass
class Checkpoint:
    """A model with all that it takes to use it and to know what it is worth."""

    name: str
    recipe: Recipe
    tokenizer: Tokenizer
    model: LanguageModel
    metrics: dict[str, Any]

    def save(self, folder: Path, extra: dict[str, dict[str, torch.Tensor]] | None = None) -> None:
        """Write the folder; it appears whole or not at all. `extra`: more safetensors files, by
        file name, for what only training needs."""
        with new_folder(folder) as staging:
            write_text(staging / TOKENIZER, self.tokenizer.to_json())
            tensors = {WEIGHTS: _weights(self.model), **(extra or {})}
            for name, content in tensors.items():
                _save_tensors(content, staging / name)
            config = {"calcgpt_version": __version__, **self.recipe.model_dump()}
            hashes = {name: sha256(staging / name) for name in (TOKENIZER, *tensors)}
            hashes[CONFIG] = _config_sha256(config)
            write_json(staging / CONFIG, {**config, "sha256": hashes})
            write_json(staging / METRICS, self.metrics)
            write_text(staging / CARD, model_card(folder.name, self.recipe, self.metrics))

    @classmethod
    def load(cls, folder: Path, device: str | torch.device = "cpu") -> Checkpoint:
        """Raises CheckpointError, naming the file, for whatever is missing or does not fit."""
        recipe, hashes = _load_config(folder)
        text = _read(folder / TOKENIZER)
        _check_hash(folder / TOKENIZER, hashes)
        try:
            tokenizer = tokenizer_from_json(text)
        except CheckpointError as error:
            raise CheckpointError(f"{folder / TOKENIZER}: {error}") from None
        tensors = load_tensors(folder, WEIGHTS, hashes)
        model = _build(recipe, tokenizer, tensors, folder / WEIGHTS)
        model.load_state_dict(tensors, strict=False)  # a tied head is not in the file
        return cls(
            folder.resolve().name,
            recipe,
            tokenizer,
            model.to(device).eval(),
            load_metrics(folder),
        )


def load_tensors(
    folder: Path, name: str, hashes: dict[str, str] | None = None
) -> dict[str, torch.Tensor]:
    """The tensors of one safetensors file of a checkpoint, checked against its hash."""
    path = folder / name
    hashes = _load_config(folder)[1] if hashes is None else hashes
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: {_reason(error)}") from None
    _check_hash(path, hashes)
    return tensors


def load_metrics(folder: Path) -> dict[str, Any]:
    """The content of `metrics.json`."""
    return read_json(folder / METRICS, CheckpointError)


def resolve(reference: str, root: Path | None = None) -> Path:
    """The folder that `reference` means: a checkpoint folder, a folder of checkpoints (then the
    best in it), a name under `root`, or `best`, the best under `root`."""
    root = default_root() if root is None else root
    if reference == "best":
        return best(root)
    for folder in (Path(reference), root / reference):
        if (folder / CONFIG).is_file():
            return folder
        if any(folder.glob(f"[!.]*/{CONFIG}")):
            return best(folder)
    names = ", ".join(sorted(f.parent.name for f in root.glob(f"*/{CONFIG}"))) or "none"
    raise CheckpointError(f"no checkpoint {reference!r}; under {root} there are: {names}")


def best(root: Path) -> Path:
    """The folder under `root` with the highest validation exact match; of equals the one with fewer
    parameters, then the one with the lower validation loss, as in a run near its end.

    A folder whose metrics cannot be read is passed over with a warning.
    """
    ranked = []
    for config in sorted(root.glob(f"[!.]*/{CONFIG}")):
        try:
            metrics = load_metrics(config.parent)
            exact_match = -1.0  # saved on a signal, before it was validated: comes last
            if "validation" in metrics:
                exact_match = float(metrics["validation"]["exact_match"])
                if not 0.0 <= exact_match <= 1.0:
                    raise ValueError(f"exact match is {exact_match}")
            loss = float(metrics.get("val_loss", math.inf))
            if math.isnan(loss):
                raise ValueError("validation loss is not a number")
            ranked.append((-exact_match, int(metrics["parameters"]), loss, config.parent))
        except (CheckpointError, KeyError, TypeError, ValueError, AttributeError) as error:
            log.warning("passed over %s: %s", config.parent, error)
    if not ranked:
        raise CheckpointError(f"no checkpoint in {root}")
    # min keeps the first of equals, the list is sorted by name: the choice is deterministic.
    return min(ranked, key=lambda entry: entry[:3])[3]


def default_root() -> Path:
    """`checkpoints/` here, or, where there is none, the one beside the package."""
    here = Path("checkpoints")
    return here if here.is_dir() else Path(__file__).resolve().parents[1] / "checkpoints"


def _save_tensors(tensors: dict[str, torch.Tensor], path: Path) -> None:
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
        path.chmod(0o644)  # safetensors leaves it to the owner alone
    except SafetensorError as error:  # a full disk, say: not an OSError here
        raise CheckpointError(f"cannot write {path}: {_reason(error)}") from None


def _weights(model: LanguageModel) -> dict[str, torch.Tensor]:
    weights = model.state_dict()
    if model.config.tie_embeddings:
        del weights["head.weight"]  # the same numbers as the token embedding's
    return weights


def _build(
    recipe: Recipe, tokenizer: Tokenizer, tensors: dict[str, torch.Tensor], path: Path
) -> LanguageModel:
    """A model that the tensors fit. A config may ask for anything: nothing is built that has more
    parameters than are there."""
    if sum(count(recipe.model, len(tokenizer)).values()) != sum(
        t.numel() for t in tensors.values()
    ):
        with torch.device("meta"):  # shapes without memory; slow, as torch imports its compiler
            _check_shapes(build_model(recipe.model, len(tokenizer)), tensors, path)
    model = build_model(recipe.model, len(tokenizer))
    _check_shapes(model, tensors, path)
    return model


def _check_shapes(model: LanguageModel, tensors: dict[str, torch.Tensor], path: Path) -> None:
    expected = _weights(model)
    for name in sorted(expected.keys() | tensors.keys()):
        if name not in tensors:
            raise CheckpointError(f"{path}: tensor {name!r} is missing")
        if name not in expected:
            raise CheckpointError(f"{path}: tensor {name!r} is not part of this model")
        want, have = tuple(expected[name].shape), tuple(tensors[name].shape)
        if want != have:
            raise CheckpointError(f"{path}: tensor {name!r} is {have}, {CONFIG} says {want}")


def _check_hash(path: Path, hashes: dict[str, str]) -> None:
    if hashes.get(path.name) != sha256(path):
        raise CheckpointError(f"{path}: content differs from {CONFIG}'s SHA-256")


def _config_sha256(config: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def _load_config(folder: Path) -> tuple[Recipe, dict[str, str]]:
    path = folder / CONFIG
    content = read_json(path, CheckpointError)
    hashes = content.pop("sha256", None)
    if not isinstance(hashes, dict):
        raise CheckpointError(f"{path}: 'sha256' is missing")
    if hashes.get(CONFIG) != _config_sha256(content):
        raise CheckpointError(f"{path}: content differs from its own SHA-256")
    content.pop("calcgpt_version", None)
    try:
        return build(Recipe, content, str(path)), hashes
    except ConfigError as error:
        raise CheckpointError(str(error)) from None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split())
