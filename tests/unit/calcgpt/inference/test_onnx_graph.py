"""The ONNX graph of a model computes the model's logits."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from calcgpt.checkpoint import Checkpoint
from calcgpt.config import ModelConfig
from calcgpt.errors import ConfigError
from calcgpt.inference.onnx import input_output_names, new_session, to_onnx
from calcgpt.model.attention import ATTENTIONS
from calcgpt.model.gpt import BLOCKS, build_model
from calcgpt.model.layers import FEEDFORWARDS, NORMS
from calcgpt.model.positions import POSITIONS

pytestmark = pytest.mark.usefixtures("quick_exporter")
VOCAB = 21
BLOCK_SIZE = 24
COMMON: dict[str, Any] = {
    "n_layer": 1,  # a layer takes a second to export
    "n_embd": 32,
    "n_head": 4,
    "block_size": BLOCK_SIZE,
    # Limits shorter than the sequences, so that these reach them.
    "row_marks": [2, 11, 5],
    "n_place": 4,
    "max_distance": 6,
    "n_bucket": 8,
    "window": 5,
}
# Each scheme that is not a base class of another one here: those two compute all that their bases
# do, and `none` computes nothing.
SCHEMES = [
    "learned+rope",
    "coupled+rope",
    "sinusoidal",
    "integrated",
    "integrated-per-head",
    "shaw",
    "alibi",
    "t5",
    "t5-buckets",
]
OPTIONS: list[dict[str, Any]] = [
    {"qkv_bias": False, "ff_bias": False, "norm_bias": False},
    {"norm": "rmsnorm", "n_kv_head": 2, "qk_norm": True},
    {"norm": "rmsnorm", "attention": "window", "attn_out_bias": False, "head_bias": False},
    {"norm_position": "post", "n_kv_head": 1, "head_bias": False, "tie_embeddings": True},
    {"attention": "window", "n_layer": 2, "dropout": 0.5},
]


def covering_configs() -> dict[str, ModelConfig]:
    """Returns configs with every scheme, feed-forward network and option at least once."""
    columns = zip(SCHEMES, itertools.cycle(FEEDFORWARDS), itertools.cycle(OPTIONS), strict=False)
    return {
        scheme: ModelConfig(**COMMON | options, position=scheme, feedforward=feedforward)
        for scheme, feedforward, options in columns
    }


CONFIGS = covering_configs()


def test_every_variant_is_covered() -> None:
    configs = CONFIGS.values()
    bases = {base for scheme in SCHEMES for base in POSITIONS[scheme].__mro__}
    others = {"none", "coordinates"}  # the latter is refused
    assert all(scheme in bases or name in others for name, scheme in POSITIONS.items())
    assert {config.feedforward for config in configs} == FEEDFORWARDS.keys()
    assert {config.norm for config in configs} == NORMS.keys()
    assert {config.norm_position for config in configs} == BLOCKS.keys()
    # Landmark attention is refused.
    assert {config.attention for config in configs} == ATTENTIONS.keys() - {"landmark"}


def logits_in_parts(
    graph: onnxruntime.InferenceSession, tokens_BT: torch.Tensor, lengths: list[int]
) -> np.ndarray:
    """Returns the logits (B, T, V) of the tokens, which are read in parts of these lengths."""
    shape = [len(tokens_BT) if size == "batch" else size for size in graph.get_inputs()[2].shape]
    past_kv = np.zeros([0 if size == "past" else size for size in shape], np.float32)
    past, logits = [tokens_BT[:, :0].numpy(), *[past_kv] * (len(graph.get_inputs()) - 2)], []
    for part in tokens_BT.split(lengths, dim=1):
        names = [graph_input.name for graph_input in graph.get_inputs()]
        feed = dict(zip(names, [part.numpy(), *past], strict=True))
        part_logits, *past = graph.run(None, feed)
        logits.append(part_logits)
        assert past[0].shape[1] == past[1].shape[2] == past[2].shape[2]
    np.testing.assert_array_equal(past[0], tokens_BT)
    return np.concatenate(logits, axis=1)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_logits_are_the_models(config: ModelConfig) -> None:
    torch.manual_seed(0)
    model = build_model(config, VOCAB).eval()
    for parameter in model.parameters():  # no bias or gain keeps its neutral value
        parameter.data += 0.1 * torch.randn_like(parameter)
    proto = to_onnx(model)
    onnx.checker.check_model(proto, full_check=True)
    graph = new_session(proto.SerializeToString(), threads=1)
    for batch, lengths in [
        (1, [1]),
        (2, [BLOCK_SIZE]),
        (5, [7]),
        (1, [1] * BLOCK_SIZE),
        (3, [10] + [1] * 5),
        (4, [2, 3, 1, 9]),
    ]:
        tokens_BT = torch.randint(VOCAB, (batch, sum(lengths)))
        with torch.no_grad():
            expected = model(tokens_BT).numpy()
        actual = logits_in_parts(graph, tokens_BT, lengths)
        assert actual.dtype == np.float32
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_the_interface_of_a_graph(tiny: Checkpoint, tiny_graph: bytes) -> None:
    session = new_session(tiny_graph)
    assert [(i.name, i.type, i.shape) for i in session.get_inputs()] == [
        ("tokens", "tensor(int64)", ["batch", "new"]),
        ("past_tokens", "tensor(int64)", ["batch", "past"]),
        ("past_k_0", "tensor(float)", ["batch", 2, "past", 8]),
        ("past_v_0", "tensor(float)", ["batch", 2, "past", 8]),
    ]
    logits, *present = session.get_outputs()
    assert (logits.name, logits.shape) == ("logits", ["batch", "new", VOCAB])
    assert [o.name for o in present] == ["present_tokens", "present_k_0", "present_v_0"]
    inputs, outputs = input_output_names(tiny.model)
    assert inputs == [i.name for i in session.get_inputs()]
    assert outputs == [o.name for o in session.get_outputs()]


def test_a_graph_does_not_name_the_machine(tiny_graph: bytes) -> None:
    import calcgpt

    assert str(calcgpt.__path__[0]).encode() not in tiny_graph


def test_a_session_has_the_requested_threads(tiny_graph: bytes) -> None:
    for threads, expected in ((3, 3), (None, torch.get_num_threads())):
        options = new_session(tiny_graph, threads).get_session_options()
        assert options.intra_op_num_threads == expected


def test_coordinates_are_refused_in_one_line() -> None:
    model = build_model(ModelConfig(n_layer=1, position="coordinates"), 24)
    with pytest.raises(ConfigError, match="does not support position 'coordinates'"):
        to_onnx(model)
