"""Export to ONNX writes a folder that answers as the checkpoint does, or nothing."""

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

import calcgpt
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import ModelConfig, Recipe
from calcgpt.data.tokenizer import Tokenizer, byte_pair_tokenizer
from calcgpt.errors import CheckpointError, ConfigError
from calcgpt.export import EXPORTERS
from calcgpt.export.onnx import check, to_onnx
from calcgpt.inference.generate import generate
from calcgpt.model.attention import ATTENTIONS
from calcgpt.model.base import BLOCKS, LanguageModel
from calcgpt.model.gpt import build_model
from calcgpt.model.layers import FEEDFORWARDS, NORMS
from calcgpt.model.positions import POSITIONS

pytestmark = pytest.mark.usefixtures("quick_exporter")

SMALL: dict[str, Any] = {"n_layer": 1, "n_embd": 32, "n_head": 4, "block_size": 24}
# Limits shorter than the sequences, so that these reach them.
LIMITS = {"row_marks": [2, 11, 5], "n_place": 4, "max_distance": 6, "n_bucket": 8, "window": 5}
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
CONFIGS = {
    scheme: ModelConfig(**SMALL | LIMITS | options, position=scheme, feedforward=feedforward)
    for scheme, feedforward, options in zip(
        SCHEMES, itertools.cycle(FEEDFORWARDS), itertools.cycle(OPTIONS), strict=False
    )
}


def checkpoint_of(model: LanguageModel, tokenizer: Tokenizer) -> Checkpoint:
    return Checkpoint.from_model("mine", Recipe(model=model.config), tokenizer, model, {})


@pytest.fixture
def export(
    monkeypatch: pytest.MonkeyPatch, tiny_graph: bytes
) -> Callable[[Checkpoint, Path, bool], str]:
    """The exporter, with the graph of `tiny` for every model, which takes no time."""
    proto = onnx.load_from_string(tiny_graph)
    monkeypatch.setattr("calcgpt.export.onnx.to_onnx", lambda model: proto)
    return EXPORTERS["onnx"]


def test_the_folder(tiny: Checkpoint, tiny_graph: bytes, export: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert export(tiny, out, False) == "an ONNX graph with a key/value cache"
    assert {file.name for file in out.iterdir()} == {"model.onnx", "tokenizer.json", "README.md"}
    assert (out / "tokenizer.json").read_text() == tiny.tokenizer.to_json()
    assert (out / "model.onnx").read_bytes() == tiny_graph
    assert str(Path(calcgpt.__file__).parent).encode() not in tiny_graph  # nothing of this machine


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attention": "landmark"}, "export to onnx does not support attention 'landmark'"),
        ({"position": "coordinates"}, "export to onnx does not support position 'coordinates'"),
        ({"architecture": "bigram"}, "export to onnx is for architecture 'gpt'"),
        ({"block_size": 3}, "export to onnx needs a block_size of 4 or more"),
    ],
)
def test_a_model_that_onnx_cannot_express_is_refused(
    change: dict[str, Any], message: str, tiny: Checkpoint, tmp_path: Path
) -> None:
    model = build_model(ModelConfig(**SMALL | change), len(tiny.tokenizer)).eval()
    with pytest.raises(ConfigError, match=message) as caught:
        EXPORTERS["onnx"](checkpoint_of(model, tiny.tokenizer), tmp_path / "out", False)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


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


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_logits_are_the_models(config: ModelConfig) -> None:
    torch.manual_seed(0)
    model = build_model(config, 21).eval()
    for parameter in model.parameters():  # no bias or gain keeps its neutral value
        parameter.data += 0.1 * torch.randn_like(parameter)
    check(model, to_onnx(model).SerializeToString())


def test_an_operator_that_onnx_lacks_is_named_in_one_line(
    tiny: Checkpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    scheme = type(tiny.model.positions)
    monkeypatch.setattr(scheme, "embed", lambda self, x, tokens, start: x.cummin(dim=1)[0])
    with pytest.raises(ConfigError, match=r"^export to onnx: .*cummin") as caught:
        EXPORTERS["onnx"](tiny, tmp_path / "out", False)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("weight", [0.5, float("nan")])
def test_a_graph_with_other_logits_is_not_written(
    weight: float, tiny: Checkpoint, export: Any, tmp_path: Path
) -> None:
    model = build_model(tiny.model.config, len(tiny.tokenizer)).eval()
    model.load_state_dict(tiny.model.state_dict())
    model.blocks[0].ff.down.weight.data[3, 5] = weight
    with pytest.raises(CheckpointError, match=r"model.onnx: onnxruntime's logits differ"):
        export(checkpoint_of(model, tiny.tokenizer), tmp_path / "out", False)
    assert not list(tmp_path.iterdir())


def test_a_graph_that_does_not_run_is_not_written(
    tiny: Checkpoint, tiny_graph: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = onnx.load_from_string(tiny_graph)
    broken.graph.node[0].op_type = "NoSuchOperator"
    monkeypatch.setattr("calcgpt.export.onnx.to_onnx", lambda model: broken)
    with pytest.raises(
        CheckpointError, match=r"model.onnx does not run: .*NoSuchOperator"
    ) as caught:
        EXPORTERS["onnx"](tiny, tmp_path / "out", False)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_the_code_in_the_readme_of_a_model_of_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It starts with the first token and continues to the end of the context."""
    tokenizer = byte_pair_tokenizer("no problem, no problem")
    torch.manual_seed(0)
    model = build_model(ModelConfig(**SMALL), len(tokenizer)).eval()
    EXPORTERS["onnx"](checkpoint_of(model, tokenizer), tmp_path / "out", False)
    monkeypatch.chdir(tmp_path / "out")
    readme = Path("README.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    exec(code, {})
    (completion,) = generate(model, torch.tensor([[0]]), stop_token=-1)
    assert len(completion.ids) == SMALL["block_size"]
    expected = "".join(tokenizer.vocabulary[i] for i in completion.ids)
    assert capsys.readouterr().out == f"{[expected]}\n"
