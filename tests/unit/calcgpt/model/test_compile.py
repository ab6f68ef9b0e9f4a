"""Compiled training: one graph of a forward pass, for every scheme and all widths of batches.

The backend counts graphs and runs them as they are: what is tested is how they are captured.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.nn import functional as F

from calcgpt.config import ModelConfig
from calcgpt.model.gpt import build_model, compiled
from datagen.notation import WORK_ALPHABET as ALPHABET

BASE = ModelConfig(block_size=64, n_layer=1, n_embd=32, n_head=4, n_kv_head=2, row_marks=[3])
# Each traces code that no other does. A graph takes a second, so most hold several schemes.
VARIANTS: list[dict[str, object]] = [
    {"position": "learned+rope", "qk_norm": True, "norm": "rmsnorm", "feedforward": "swiglu"},
    {"position": "coupled+rope", "norm_position": "post"},
    {"position": "coordinates", "characters": ALPHABET},
    {"position": "alibi", "attention": "window"},
    {"position": "shaw"},
]


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("change", VARIANTS, ids=str)
def test_all_widths_are_one_graph(change: dict[str, object]) -> None:
    torch.manual_seed(0)
    model = build_model(BASE.model_copy(update=change), len(ALPHABET))
    graphs: list[torch.fx.GraphModule] = []

    def count(graph: torch.fx.GraphModule, inputs: object) -> object:
        graphs.append(graph)
        return graph.forward

    forward = compiled(model, model, backend=count, fullgraph=True)
    for rows, width in ((4, 20), (3, 33), (8, 48)):
        tokens = torch.randint(len(ALPHABET), (rows, width))
        losses = [
            F.cross_entropy(of(tokens).flatten(0, 1), tokens.flatten()) for of in (forward, model)
        ]
        torch.testing.assert_close(*losses)
    assert len(graphs) == 1
