"""Checkpoints: folders of plain files. Nothing is pickled.

config.json         the recipe, the package version, and the SHA-256 of both and of the next three
                    files
tokenizer.json      the vocabulary
model.safetensors   the weights, of 32 bits or of 8 (`calcgpt.tensors.pack`)
metrics.json        the scores, and the data they were measured on
README.md           the model card, made from the recipe and the metrics
switches.json       what breaks without each part of the model, if that was measured
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcgpt.base import files
from calcgpt.base.errors import ConfigError, as_path, check_items, check_types
from calcgpt.base.plugins import extension
from calcgpt.config import Recipe
from calcgpt.errors import CheckpointError
from calcgpt.metrics import StoredMetrics
from calcgpt.section import build
from calcgpt.switches import SwitchMap, read_switches, switched_off
from calcgpt.tensors import (
    PACKED_TYPES,
    WEIGHT_TYPE,
    check_header,
    pack,
    read_tensors,
    reason,
    shown,
    unpack,
)
from calcgpt.tokenizer import Tokenizer, tokenizer_from_json
from datagen.slots import Kind

CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
METRICS, CARD = "metrics.json", "README.md"
MAX_WEIGHT_BYTES = 1 << 33  # 8 GiB: two billion numbers
KIND_TABLE = "kinds.weight"  # a row for each kind of slot, and reserved ones (N_KINDS)
# A key in each of our files that other programs do not write into their files of the same name.
OUR_KEYS = {CONFIG: "sha256", TOKENIZER: "type"}
SUFFIX = Path(WEIGHTS).suffix
HASHED = (CONFIG, TOKENIZER, METRICS)  # and all files with the suffix of the weights
CASES = "cases"  # the key of the count of wrong cases


@dataclass(frozen=True)
class Checkpoint:
    """The weights of a model with its recipe, its tokenizer and its metrics. Needs no torch.

    `arrays` has the weights by the names of `model.safetensors`. `switches` says what breaks
    without each part; None if that was not measured.
    """

    name: str
    recipe: Recipe
    tokenizer: Tokenizer
    arrays: dict[str, NDArray[np.float32]]
    metrics: dict[str, Any]
    switches: SwitchMap | None = None

    def __post_init__(self) -> None:
        check_types(
            name=(self.name, str),
            recipe=(self.recipe, Recipe),
            tokenizer=(self.tokenizer, Tokenizer),
            arrays=(self.arrays, dict),
            metrics=(self.metrics, dict),
            switches=(self.switches, SwitchMap, None),
        )

    @classmethod
    def load(cls, folder: str | Path) -> Checkpoint:
        """Returns the checkpoint in a folder, named after the folder, or `RUN-STEP` for a step of a
        run. Raises CheckpointError, which names the file, if a file is missing or damaged, or if
        weights are not finite. Does not compare them with the recipe: their first use does."""
        from safetensors.numpy import load_file

        folder = as_path("folder", folder)
        recipe, hashes = _load_config(folder)
        tokenizer = _load_tokenizer(folder / TOKENIZER, hashes)
        path = folder / WEIGHTS
        check_hash(path, hashes, MAX_WEIGHT_BYTES)
        is_packed = recipe.train.weights == "int8"
        check_header(path, PACKED_TYPES if is_packed else {WEIGHT_TYPE})
        arrays = read_tensors(load_file, path)
        if is_packed:
            arrays = unpack(arrays, path)
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise CheckpointError(
                    f"{path}: tensor {shown(name)} has values that are not finite"
                )
        metrics = _load_metrics(folder, hashes)
        switches = read_switches(folder, hashes.get(WEIGHTS))
        return cls(_name(folder.resolve()), recipe, tokenizer, arrays, metrics, switches)

    @property
    def stored_arrays(self) -> dict[str, NDArray[Any]]:
        """The weights as `model.safetensors` has them."""
        return pack(self.arrays) if self.recipe.train.weights == "int8" else self.arrays

    def without(self, parts: Iterable[str]) -> Checkpoint:
        """Returns the checkpoint with these parts switched off, named as `calcgpt.switches` says.
        Raises ConfigError if the model does not have a part."""
        check_items(parts=(parts, str))
        arrays = switched_off(self.recipe.model, self.arrays, parts)
        metrics = {name: value for name, value in self.metrics.items() if name != CASES}
        return replace(self, arrays=arrays, metrics=metrics)

    @property
    def is_certain(self) -> bool:
        """Whether it was right in every case of the rules that it learned."""
        cases = self.metrics.get(CASES)
        return isinstance(cases, dict) and cases.get("wrong") == 0

    @property
    def n_parameters(self) -> int:
        """The number of trained parameters. Rows that are kept for later kinds do not count."""
        kinds = self.arrays.get(KIND_TABLE, np.zeros(0))
        return sum(array.size for array in self.arrays.values()) - kinds[len(Kind) :].size

    @cached_property
    def model(self) -> Any:
        """The model of torch, on the CPU, built when it is first used. Raises CheckpointError if
        the weights do not fit the recipe, and UserError without torch."""
        return extension("calcgpt.models", "torch")(self)


def _name(folder: Path) -> str:
    """Returns the name of a checkpoint: that of its folder, or `RUN-STEP` for a step of a run."""
    is_step = folder.name.startswith("step-") and folder.parent.name
    return f"{folder.parent.name}-{folder.name}" if is_step else folder.name


def load_metrics(folder: Path) -> dict[str, Any]:
    """Returns the content of `metrics.json`. Raises CheckpointError if it is missing, or if it or
    a `config.json` beside it is damaged."""
    return _load_metrics(folder, read_config(folder)[1] if (folder / CONFIG).exists() else {})


def check_replaceable(out: Path, force: bool, *markers: str) -> None:
    """Raises CheckpointError if `out` exists, unless `force` is set and `out` is a folder with
    files of these names, which show that we wrote it. Other programs write a `config.json` and a
    `tokenizer.json` as well, but without the keys of OUR_KEYS."""
    if not out.exists():
        return
    for marker in markers:
        if not (out / marker).is_file():
            raise CheckpointError(f"{out} exists and has no {marker}: it is not replaced")
        key = OUR_KEYS.get(marker)
        if key and key not in files.read_json(out / marker, CheckpointError):
            raise CheckpointError(
                f"{out} exists and calcgpt did not write its {marker}: it is not replaced"
            )
    if not force:
        raise CheckpointError(f"{out} exists; --force replaces it")


def _load_tokenizer(path: Path, hashes: dict[str, str]) -> Tokenizer:
    check_hash(path, hashes)
    try:
        return tokenizer_from_json(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, CheckpointError) as error:
        raise CheckpointError(f"{path}: {reason(error)}") from None


def _load_metrics(folder: Path, hashes: dict[str, str]) -> dict[str, Any]:
    path = folder / METRICS
    # Checkpoints of earlier versions have no hash of metrics.json.
    content = files.read_json(path, CheckpointError, hashes.get(METRICS))
    build(StoredMetrics, content, str(path), wrong=CheckpointError)
    return content


def check_hash(path: Path, hashes: dict[str, str], max_bytes: int = files.MAX_JSON_BYTES) -> None:
    """Raises CheckpointError unless a file has the SHA-256 that `config.json` says, and at most
    `max_bytes`."""
    try:
        files.check_file(path, max_bytes)
        digest = files.sha256(path)
    except OSError as error:
        raise CheckpointError(f"{path}: {reason(error)}") from None
    if digest != hashes.get(path.name):
        raise CheckpointError(f"{path}: content differs from {CONFIG}'s SHA-256")


def config_sha256(config: dict[str, Any]) -> str:
    """Returns the hash of the content of `config.json` without its hashes."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def read_config(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the content of `config.json` and the SHA-256 of each file by name. Raises
    CheckpointError if the content differs from its own hash."""
    path = folder / CONFIG
    content = files.read_json(path, CheckpointError)
    hashes = content.pop("sha256", None)
    if not isinstance(hashes, dict):
        raise CheckpointError(f"{path}: 'sha256' is missing")
    if hashes.get(CONFIG) != config_sha256(content):
        raise CheckpointError(f"{path}: content differs from its own SHA-256")
    if unknown := [name for name in hashes if name not in HASHED and Path(name).suffix != SUFFIX]:
        raise CheckpointError(
            f"{path}: 'sha256' has {unknown[0]!r}, which is not a file of a checkpoint"
        )
    return content, hashes


def _load_config(folder: Path) -> tuple[Recipe, dict[str, str]]:
    """Returns the recipe, and the SHA-256 of each file by name."""
    path = folder / CONFIG
    content, hashes = read_config(folder)
    content.pop("calcgpt_version", None)
    try:
        recipe = build(Recipe, content, str(path))
    except ConfigError as error:
        plugins = content.get("plugins") or ""
        hint = f"needs --plugin with {plugins[0]!s:.80}, if that is not given: " if plugins else ""
        raise CheckpointError(f"{hint}{error}") from None
    return recipe, hashes
