"""How many parameters a model has: by part, as closed formulas, without building it."""

from __future__ import annotations

import dataclasses
from typing import Any

from calcgpt.config import ModelConfig
from calcgpt.model.gpt import MODELS
from calcgpt.model.layers import FEEDFORWARDS
from calcgpt.model.sizes import Sizes


def sizes(config: ModelConfig, vocab_size: int) -> Sizes:
    """The numbers that the formulas are over."""
    n_positions = MODELS[config.architecture].n_positions(config, config.block_size)
    network, _ = FEEDFORWARDS[config.feedforward]
    return Sizes(
        V=vocab_size,
        C=config.n_embd,
        L=config.n_layer,
        H=config.n_head,
        G=config.kv_heads,
        D=config.head_dim,
        F=network.hidden(config),
        N=n_positions,
        P=config.n_place,
        R=len(config.row_marks) + 1,
        K=config.n_bucket,
        M=min(config.max_distance + 1, n_positions),
    )


def count(config: ModelConfig, vocab_size: int) -> dict[str, int]:
    """Part -> its parameters. What a part shares with an earlier one is not counted again."""
    return MODELS[config.architecture].count(config, sizes(config, vocab_size))


def formulas(config: ModelConfig) -> dict[str, Any]:
    """Part -> its parameters as a sympy expression over the names in `Sizes`."""
    import sympy  # torch needs it, so it is there; its import takes a moment

    symbols = Sizes(**{f.name: sympy.Symbol(f.name) for f in dataclasses.fields(Sizes)})
    parts = MODELS[config.architecture].count(config, symbols)
    return {part: sympy.sympify(expression) for part, expression in parts.items()}
