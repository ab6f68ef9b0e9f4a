"""What is exported to ONNX computes the same, and nothing is written that does not."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from calcgpt.checkpoint import Checkpoint
from calcgpt.config import ModelConfig, Recipe
from calcgpt.data.tokenizer import Tokenizer, byte_pair_tokenizer
from calcgpt.errors import CheckpointError, ConfigError, UserError
from calcgpt.export import EXPORTERS
from calcgpt.inference import onnx_graph as target
from calcgpt.inference.generate import Sampling, generate
from calcgpt.inference.onnx_graph import OnnxDecoder
from calcgpt.model import FEEDFORWARDS, POSITIONS, LanguageModel, build_model
from calcgpt.recipe import load_preset, preset_names

VOCAB = 21
ROOM = 24
SMALL = {"n_layer": 1, "n_embd": 32, "n_head": 4, "block_size": ROOM}  # a layer takes a second
PRESETS = {name: load_preset(name).model_copy(update=SMALL) for name in preset_names()}
# Shorter than the sequences, so that they are reached.
SHORT = {"row_marks": [2, 11, 5], "n_place": 4, "max_distance": 6, "n_bucket": 8, "window": 5}


def variants() -> dict[str, ModelConfig]:
    """What no preset has: the other positions, each with another feed-forward network, and the
    options of attention and norms."""
    positions = sorted(set(POSITIONS) - {config.position for config in PRESETS.values()})
    configs = {
        position: ModelConfig(**SMALL | SHORT, position=position, feedforward=feedforward)
        for position, feedforward in zip(positions, itertools.cycle(FEEDFORWARDS), strict=False)
    }
    options = {"norm_position": "post", "qk_norm": True, "n_kv_head": 1, "attention": "window"}
    options |= {"n_layer": 3, "position": "integrated", "dropout": 0.5}
    configs["options"] = ModelConfig(**SMALL | SHORT | options)
    return configs


def build(config: ModelConfig, n_token: int = VOCAB, seed: int = 0) -> LanguageModel:
    torch.manual_seed(seed)
    model = build_model(config, n_token).eval()
    for parameter in model.parameters():  # so that no bias or gain is at its neutral value
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def session(proto: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(proto.SerializeToString(), options)


def logits_in_parts(
    graph: onnxruntime.InferenceSession, tokens_BT: torch.Tensor, lengths: list[int]
) -> np.ndarray:
    """Logits (B, T, V) of the tokens, cut into parts of these lengths."""
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


@pytest.mark.parametrize("config", (PRESETS | variants()).values(), ids=PRESETS | variants())
def test_logits_are_the_models(config: ModelConfig) -> None:
    model = build(config)
    proto = target.to_onnx(model)
    onnx.checker.check_model(proto, full_check=True)
    graph = session(proto)
    for batch, lengths in [
        (1, [1]),
        (2, [ROOM]),
        (5, [7]),
        (1, [1] * ROOM),
        (3, [10] + [1] * 5),
        (4, [2, 3, 1, 9]),
    ]:
        tokens_BT = torch.randint(VOCAB, (batch, sum(lengths)))
        with torch.no_grad():
            expected = model(tokens_BT).numpy()
        actual = logits_in_parts(graph, tokens_BT, lengths)
        assert actual.dtype == np.float32
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.fixture(scope="module")
def tiny_graph(tiny: Checkpoint) -> onnx.ModelProto:
    return target.to_onnx(tiny.model)


@pytest.fixture
def exported(
    monkeypatch: pytest.MonkeyPatch, tiny_graph: onnx.ModelProto
) -> Callable[[Checkpoint, Path, bool], str]:
    """The exporter, to which every model has the graph of `tiny`: it takes no time."""
    monkeypatch.setattr("calcgpt.export.onnx.to_onnx", lambda model: tiny_graph)
    return EXPORTERS["onnx"]


def test_the_folder_and_the_graphs_interface(
    tiny: Checkpoint, tiny_graph: onnx.ModelProto, exported: Any, tmp_path: Path
) -> None:
    assert exported(tiny, tmp_path / "out", False) == "an ONNX graph with a key/value cache"
    names = {file.name for file in (tmp_path / "out").iterdir()}
    assert names == {"model.onnx", "tokenizer.json", "README.md"}
    assert (tmp_path / "out" / "tokenizer.json").read_text() == tiny.tokenizer.to_json()
    loaded = session(onnx.load(tmp_path / "out" / "model.onnx"))
    assert [(i.name, i.type, i.shape) for i in loaded.get_inputs()] == [
        ("tokens", "tensor(int64)", ["batch", "new"]),
        ("past_tokens", "tensor(int64)", ["batch", "past"]),
        ("past_k_0", "tensor(float)", ["batch", 2, "past", 8]),
        ("past_v_0", "tensor(float)", ["batch", 2, "past", 8]),
    ]
    logits, *present = loaded.get_outputs()
    assert (logits.name, logits.shape) == ("logits", ["batch", "new", VOCAB])
    assert [o.name for o in present] == ["present_tokens", "present_k_0", "present_v_0"]
    # Nor does it say on which machine it was made.
    assert str(Path(target.__file__).parent).encode() not in tiny_graph.SerializeToString()


def test_what_stands_at_out_is_replaced_only_by_force(
    tiny: Checkpoint, exported: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    exported(tiny, out, False)
    (out / "README.md").write_text("mine")
    with pytest.raises(CheckpointError, match="out exists; --force replaces it"):
        exported(tiny, out, False)
    assert (out / "README.md").read_text() == "mine"
    exported(tiny, out, True)
    assert (out / "README.md").read_text().startswith("# out\n")
    (out / "model.onnx").unlink()
    with pytest.raises(CheckpointError, match=r"out exists and has no model\.onnx: it is left"):
        exported(tiny, out, True)


@pytest.mark.parametrize("library", ["onnx", "onnxruntime", "onnxscript"])
def test_without_a_library_one_line_names_the_extra(
    library: str, tiny: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)  # importing it raises
    with pytest.raises(UserError) as caught:
        EXPORTERS["onnx"](tiny, tmp_path / "out", False)
    assert str(caught.value) == (f"export to onnx needs {library}: pip install 'calcgpt[onnx]'")
    assert not list(tmp_path.iterdir())


def checkpoint_of(model: LanguageModel, tokenizer: Tokenizer) -> Checkpoint:
    return Checkpoint("mine", Recipe(model=model.config), tokenizer, model, {})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attention": "landmark"}, "export to onnx does not know attention 'landmark'"),
        ({"architecture": "bigram"}, "export to onnx is for architecture 'gpt'"),
        ({"block_size": 3}, "export to onnx needs a block_size of 4 or more"),
    ],
)
def test_what_no_graph_can_hold_is_refused(
    change: dict[str, Any], message: str, tiny: Checkpoint, tmp_path: Path
) -> None:
    mine = checkpoint_of(build(ModelConfig(**SMALL | change)), tiny.tokenizer)
    with pytest.raises(ConfigError, match=message) as caught:
        EXPORTERS["onnx"](mine, tmp_path / "out", False)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_an_operator_that_onnx_lacks_is_named_in_one_line(
    tiny: Checkpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    kind = type(tiny.model.positions)
    monkeypatch.setattr(kind, "embed", lambda self, x, tokens, start: x.cummin(dim=1)[0])
    with pytest.raises(ConfigError, match=r"^export to onnx: .*cummin") as caught:
        EXPORTERS["onnx"](tiny, tmp_path / "out", False)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("weight", [0.5, float("nan")])
def test_a_graph_with_other_logits_is_not_written(
    weight: float, tiny: Checkpoint, exported: Any, tmp_path: Path
) -> None:
    model = build_model(tiny.model.config, VOCAB).eval()
    model.load_state_dict(tiny.model.state_dict())
    model.blocks[0].ff.down.weight.data[3, 5] = weight
    with pytest.raises(CheckpointError, match=r"model.onnx: onnxruntime's logits differ"):
        exported(checkpoint_of(model, tiny.tokenizer), tmp_path / "out", False)
    assert not list(tmp_path.iterdir())


def test_a_graph_that_does_not_run_is_not_written(
    tiny: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_graph: onnx.ModelProto
) -> None:
    broken = onnx.ModelProto()
    broken.CopyFrom(tiny_graph)
    broken.graph.node[0].op_type = "NoSuchOperator"
    monkeypatch.setattr("calcgpt.export.onnx.to_onnx", lambda model: broken)
    with pytest.raises(
        CheckpointError, match=r"model.onnx does not run: .*NoSuchOperator"
    ) as caught:
        EXPORTERS["onnx"](tiny, tmp_path / "out", False)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_the_readmes_loop_of_a_model_of_other_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It starts with any token and goes on to the end of the context."""
    tokenizer = byte_pair_tokenizer("no problem, no problem")
    model = build(ModelConfig(**SMALL), len(tokenizer))
    EXPORTERS["onnx"](checkpoint_of(model, tokenizer), tmp_path / "out", False)
    monkeypatch.chdir(tmp_path / "out")
    exec(code_of(Path("README.md").read_text()), {})
    (written,) = generate(model, torch.tensor([[0]]), stop_token=-1)
    assert len(written.ids) == ROOM
    expected = "".join(tokenizer.vocabulary[i] for i in written.ids)
    assert capsys.readouterr().out == f"{[expected]}\n"


def code_of(readme: str) -> str:
    (code,) = re.findall(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    return str(code)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_decoding_by_onnxruntime_writes_what_decoding_by_torch_writes(temperature: float) -> None:
    model = build(PRESETS["llama"])
    prompts_BP = torch.randint(VOCAB, (6, 5))
    prompts_BP[:, :3] = prompts_BP[0, :3]  # what all begin with is read once
    sampling = Sampling(temperature, seed=3)
    endless = generate(model, prompts_BP, stop_token=-1, sampling=sampling)
    stop = endless[0].ids[3]  # one that some rows write, sooner or later
    expected = generate(model, prompts_BP, stop, sampling=sampling)
    actual = generate(OnnxDecoder(model), prompts_BP, stop, sampling=sampling)
    assert len({len(completion.ids) for completion in expected}) > 1  # rows end at unlike times
    for ours, theirs in zip(expected, actual, strict=True):
        assert ours.ids == theirs.ids
        assert theirs.probabilities == pytest.approx(ours.probabilities, abs=1e-5)


def test_decoding_needs_onnxruntime(tiny: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UserError, match=r"needs onnxruntime: pip install 'calcgpt\[onnx\]'"):
        OnnxDecoder(tiny.model)
