"""Checkpoints of small models with random weights, and changes of their files."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from calcgpt.base.files import sha256
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import ModelConfig, Recipe
from calcgpt.errors import CheckpointError
from calcgpt_lab.data.tokenizers import arithmetic_tokenizer
from calcgpt_lab.model.gpt import GPT
from calcgpt_lab.model.stored import checkpoint_of

CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
METRICS, CARD = "metrics.json", "README.md"
NEEDED = (CONFIG, TOKENIZER, WEIGHTS, METRICS)


def make(seed: int = 0, **fields: Any) -> Checkpoint:
    """A checkpoint with random weights."""
    sizes = {"n_layer": 1, "n_embd": 16, "n_head": 2, "block_size": 64}
    recipe = Recipe(model=ModelConfig(**{**sizes, **fields}))
    torch.manual_seed(seed)
    model = GPT(recipe.model, 21).eval()
    metrics = {"parameters": model.n_parameters(), "step": 3}
    return checkpoint_of("made", recipe, arithmetic_tokenizer(), model, metrics)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refusal(folder: Path) -> str:
    """Returns the one-line error of a checkpoint that is refused."""
    with pytest.raises(CheckpointError) as caught:
        _ = Checkpoint.load(folder).model
    message = str(caught.value)
    assert "\n" not in message
    return message


def edit_json(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    table = json.loads(path.read_text())
    change(table)
    path.write_text(json.dumps(table))


def claim_config_hash(folder: Path) -> None:
    """Updates the hash of `config.json` in itself."""
    table = json.loads((folder / CONFIG).read_text())
    hashes = table.pop("sha256", None)
    if isinstance(hashes, dict):
        canonical = json.dumps(table, sort_keys=True)
        hashes[CONFIG] = hashlib.sha256(canonical.encode()).hexdigest()
        edit_json(folder / CONFIG, lambda table: table.update(sha256=hashes))


def claim_hash(folder: Path, name: str) -> None:
    """Updates the hash of a file in `config.json`."""
    digest = sha256(folder / name)
    edit_json(folder / CONFIG, lambda table: table["sha256"].update({name: digest}))
