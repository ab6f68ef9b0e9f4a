"""Checkpoints as models of torch."""

from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

from calcgpt.base.errors import check_types
from calcgpt.checkpoint import CONFIG, WEIGHTS, Checkpoint, check_hash, read_config
from calcgpt.config import ModelConfig, Recipe
from calcgpt.errors import CheckpointError
from calcgpt.inference.decoding import Decoder
from calcgpt.registry import resolve
from calcgpt.tensors import check_header, read_tensors, shown
from calcgpt.tokenizer import Tokenizer
from calcgpt_lab.model import parameters
from calcgpt_lab.model.base import LanguageModel
from calcgpt_lab.model.decoding import TokenDecoder
from calcgpt_lab.model.devices import pick_device
from calcgpt_lab.model.gpt import build_model

STATES = 16  # the state of a training has at most that many times the size of the weights,
STATE_BYTES = 1 << 22  # and some more


def load(reference: str | Path = "best", device: str | torch.device = "cpu") -> Checkpoint:
    """Returns the checkpoint that `reference` names (see `calcgpt.registry.resolve`), with its
    model on a device. Raises CheckpointError if there is no such checkpoint or it is damaged, and
    ConfigError if there is no such device."""
    checkpoint = Checkpoint.load(resolve(reference))
    check_types(device=(device, str, torch.device))
    checkpoint.model.to(pick_device(str(device)))
    return checkpoint


def checkpoint_of(
    name: str,
    recipe: Recipe,
    tokenizer: Tokenizer,
    model: LanguageModel,
    metrics: dict[str, Any],
) -> Checkpoint:
    """Returns a checkpoint with a copy of the weights of a model."""
    tensors = {name: tensor.float() for name, tensor in stored_tensors(model).items()}
    return Checkpoint(name, recipe, tokenizer, to_arrays(tensors), metrics)


def to_arrays(tensors: dict[str, torch.Tensor]) -> dict[str, NDArray[Any]]:
    """Returns copies of tensors as arrays."""
    return {name: tensor.numpy(force=True).copy() for name, tensor in tensors.items()}


def load_tensors(folder: Path, name: str) -> dict[str, torch.Tensor]:
    """Returns the tensors of a safetensors file of a checkpoint. Raises CheckpointError if the
    file is missing, is much larger than the weights or has another hash than `config.json` says."""
    weights = folder / WEIGHTS
    n_byte = weights.stat().st_size if weights.exists() else 0
    check_hash(folder / name, read_config(folder)[1], STATES * n_byte + STATE_BYTES)
    check_header(folder / name)
    return read_tensors(load_file, folder / name)


def build(checkpoint: Checkpoint) -> LanguageModel:
    """Returns the model of a checkpoint, on the CPU. Raises CheckpointError if the weights do not
    fit the recipe. A model of another size is not built: a config may ask for any."""
    n_value = sum(array.size for array in checkpoint.arrays.values())
    n_expected = n_stored(checkpoint.recipe.model, len(checkpoint.tokenizer))
    if n_value != n_expected:
        raise CheckpointError(
            f"{checkpoint.name}/{WEIGHTS}: has {n_value:,} numbers, {CONFIG} says {n_expected:,}"
        )
    tensors = {name: torch.tensor(array) for name, array in checkpoint.arrays.items()}
    model = build_model(checkpoint.recipe.model, len(checkpoint.tokenizer))
    _check_shapes(model, tensors, f"{checkpoint.name}/{WEIGHTS}")
    model.load_state_dict(tensors, strict=False)  # a tied head is not in the file
    return model.eval()


def torch_decoder(
    checkpoint: Checkpoint, threads: int | None = None, live: bool = False
) -> Decoder:
    """Returns a decoder by the model itself, which is always live. `threads` applies to the whole
    process."""
    if threads:
        torch.set_num_threads(threads)
    return TokenDecoder(checkpoint.model, checkpoint.tokenizer)


def n_stored(config: ModelConfig, vocab_size: int) -> int:
    """Returns how many numbers the weights of a model are. No memory is allocated for them."""
    if parameters.has_formulas(config):
        return parameters.n_stored(config, vocab_size)
    with torch.device("meta"):  # slow: torch imports its compiler
        tensors = stored_tensors(build_model(config, vocab_size))
    return sum(tensor.numel() for tensor in tensors.values())


def stored_tensors(model: LanguageModel) -> dict[str, torch.Tensor]:
    """Returns the tensors of a model that a checkpoint has."""
    tensors = model.state_dict()
    if model.config.tie_embeddings:
        del tensors["head.weight"]  # it is the token embedding's tensor
    return tensors


def _check_shapes(model: LanguageModel, tensors: dict[str, torch.Tensor], file: str) -> None:
    expected = stored_tensors(model)
    for name in sorted(expected.keys() | tensors.keys()):
        if name not in tensors:
            raise CheckpointError(f"{file}: tensor {name!r} is missing")
        if name not in expected:
            raise CheckpointError(f"{file}: tensor {shown(name)} is not part of this model")
        shape, expected_shape = tuple(tensors[name].shape), tuple(expected[name].shape)
        if shape != expected_shape:
            raise CheckpointError(
                f"{file}: tensor {name!r} is {shape}, {CONFIG} says {expected_shape}"
            )
