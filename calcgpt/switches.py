"""Switches: the parts of a model that can be switched off, and what is measured of each.

A part is named by its layer and its place there, both from 1: `1.2` is the second attention head of
the first layer, `1.ff` the feed-forward step of that layer, `1.n7` its seventh neuron. Head h adds
to the residual stream through columns of the attention's output projection, a neuron through one
column of the down projection. Without these columns, the part adds nothing: it is off.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from calcgpt.base.errors import ConfigError
from calcgpt.base.files import read_json
from calcgpt.config import ModelConfig
from calcgpt.errors import CheckpointError
from calcgpt.metrics import Count, Name, PartialModel, Share
from calcgpt.section import build
from datagen.operations import Sign

PART = r"[1-9]\d{0,3}\.([1-9]\d{0,5}|ff|n[1-9]\d{0,5})"
MAX_PARTS = 2_000  # of a map, and goals
SWITCHES = "switches.json"  # in the folder of a checkpoint
Arrays = Mapping[str, NDArray[np.float32]]


class Source(PartialModel):
    """Where a head looks when the model writes some characters, in words that fit a sentence."""

    writing: Name
    at: Name
    share: Share  # of the head's attention


class Part(PartialModel):
    """What is measured of a part. The shares are those of the model without it."""

    right: dict[Sign, Share]  # answers, by operation
    unfinished: Share  # texts that do not end
    wrong: dict[Name, Share]  # characters, by what they are; only those that are written otherwise
    looks: list[Source] = Field([], max_length=8)  # of a head, what breaks most without it first


PartName = Annotated[str, Field(pattern=f"^{PART}$")]


class Goal(PartialModel):
    """A wrong answer to a problem, which the model gives without any of a few single parts."""

    problem: Name
    answer: Name
    parts: Annotated[list[PartName], Field(min_length=1, max_length=8)]


class SwitchMap(PartialModel):
    """`switches.json`, which `calcgpt inspect --switches` writes: what breaks without each head,
    each feed-forward step and each neuron that matters, and goals for readers of the page."""

    weights: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]  # SHA-256 of model.safetensors
    n: Count
    seed: Count
    parts: Annotated[dict[PartName, Part], Field(max_length=MAX_PARTS)]
    goals: list[Goal] = Field([], max_length=MAX_PARTS)


def read_switches(folder: Path, weights: str | None) -> SwitchMap | None:
    """Returns the map in the folder of a checkpoint; None if it has none, or one of other weights
    than those with this SHA-256. Raises CheckpointError if the file is damaged."""
    path = folder / SWITCHES
    if not path.exists():
        return None
    content = read_json(path, CheckpointError)
    switches = build(SwitchMap, content, str(path), wrong=CheckpointError)
    return switches if switches.weights == weights else None


def parts_of(config: ModelConfig) -> list[str]:
    """Returns the heads and the feed-forward steps of a model, layer by layer."""
    heads = [*range(1, config.n_head + 1), "ff"]
    return [f"{layer}.{head}" for layer in range(1, config.n_layer + 1) for head in heads]


def switched_off(
    config: ModelConfig, arrays: Arrays, parts: Iterable[str]
) -> dict[str, NDArray[np.float32]]:
    """Returns the weights of a model, by the names of `model.safetensors`, without these parts.

    Raises ConfigError if the model does not have a part.
    """
    result = dict(arrays)
    for part in parts:
        name, columns = _columns(config, part)
        if f"{name}.weight" not in result:  # a bigram, or a variant of a plug-in
            raise ConfigError(f"this model has no {name}: its parts cannot be switched off")
        weight = result[f"{name}.weight"] = result[f"{name}.weight"].copy()
        weight[:, columns] = 0
        if part.endswith("ff") and f"{name}.bias" in result:
            result[f"{name}.bias"] = np.zeros_like(result[f"{name}.bias"])
    return result


def _columns(config: ModelConfig, part: str) -> tuple[str, slice]:
    """Returns the module through which a part adds to the residual stream, and its columns."""
    heads, neurons = config.n_head, config.ff_width
    if re.fullmatch(PART, part):
        layer, place = part.split(".")
        is_neuron, index = place.startswith("n"), int(place.strip("nf") or 0)
        if int(layer) <= config.n_layer and index <= (neurons if is_neuron else heads):
            prefix = f"blocks.{int(layer) - 1}"
            if not index:
                return f"{prefix}.ff.down", slice(None)
            width = 1 if is_neuron else config.head_dim
            columns = slice((index - 1) * width, index * width)
            return f"{prefix}.ff.down" if is_neuron else f"{prefix}.attn.out", columns
    raise ConfigError(
        f"no part {part[:20]!r}: this model has heads 1.1 to {config.n_layer}.{heads}, steps 1.ff "
        f"to {config.n_layer}.ff and neurons 1.n1 to {config.n_layer}.n{neurons}"
    )
