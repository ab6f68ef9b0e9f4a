"""Compiled training: one graph of a forward pass, for every scheme and all widths of batches.

The backend counts graphs and runs them unchanged: the tests are about how graphs are captured. They
do not set `fullgraph`, which also captures code that breaks the graph of a run.
"""

from collections.abc import Iterator

import pytest
import torch
from torch.nn import functional as F

from calcgpt.config import ModelConfig
from calcgpt_lab.model.gpt import build_model, compiled
from calcgpt_lab.model.positions import POSITIONS
from datagen.notation import WORK_ALPHABET as ALPHABET

BASE = ModelConfig(block_size=64, n_layer=1, n_embd=32, n_head=4, n_kv_head=2, row_marks=[3])
# Position -> other fields of its config. A graph takes a second, so most graphs test several parts.
BESIDE: dict[str, dict[str, object]] = {
    "learned+rope": {"qk_norm": True, "norm": "rmsnorm", "feedforward": "swiglu"},
    "coupled+rope": {"norm_position": "post", "place_offset": 5},
    "alibi": {"attention": "window"},
    "none": {"attention": "landmark"},
}
# A scheme that another scheme extends is traced as a part of it.
LEAVES = [
    name
    for name, scheme in POSITIONS.items()
    if not any(issubclass(other, scheme) and other is not scheme for other in POSITIONS.values())
]


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("position", LEAVES)
def test_all_widths_are_one_graph(position: str) -> None:
    change = {"position": position, **BESIDE.get(position, {})}
    torch.manual_seed(0)
    model = build_model(BASE.model_copy(update=change), len(ALPHABET))
    graphs: list[torch.fx.GraphModule] = []

    def count(graph: torch.fx.GraphModule, inputs: object) -> object:
        graphs.append(graph)
        return graph.forward

    forward = compiled(model, model, backend=count)
    for rows, width in ((4, 20), (3, 33), (8, 48)):
        tokens = torch.randint(len(ALPHABET), (rows, width))
        losses = []
        for function in (forward, model):
            torch.manual_seed(width)  # of the offsets
            losses.append(F.cross_entropy(function(tokens).flatten(0, 1), tokens.flatten()))
        torch.testing.assert_close(*losses)
    assert len(graphs) == 1
