"""All engines write the same text; `auto` falls back to torch."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import CheckpointError, ConfigError, UserError
from calcgpt.inference import onnx as onnx_engine
from calcgpt.inference.engines import AUTO, ENGINES, load_decoder
from calcgpt.inference.generate import Decoder, generate
from calcgpt.inference.native import machine_code
from datagen.extras import install_line

PROBLEMS = [
    "$(0000000012+0000000034)=",
    "$(-000000.99*99999999.9)=",
    "$(0000000000/0000000007)=",
    "$(-999999999--000000001)=",
]


def texts(decoder: Decoder, checkpoint: Checkpoint, prompts: list[str]) -> list[str]:
    tokenizer = checkpoint.tokenizer
    prompts_BP = torch.tensor([tokenizer.encode(prompt).tolist() for prompt in prompts])
    stop = int(tokenizer.encode("$")[0])
    return [tokenizer.decode(output.ids) for output in generate(decoder, prompts_BP, stop)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of cached graphs, which does not exist yet."""
    path = tmp_path / "cache"
    monkeypatch.setenv("CALCGPT_CACHE", str(path))
    return path


@pytest.fixture
def exporter(folder: Path, tiny_graph: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every model is exported as the graph of `tiny`, which takes no time."""
    proto = onnx.load_from_string(tiny_graph)
    monkeypatch.setattr(onnx_engine, "to_onnx", lambda model: proto)


@pytest.fixture
def without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llvmlite", None)  # importing it raises
    machine_code.load_decode.cache_clear()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.usefixtures("exporter")
def test_no_more_tokens_are_written_than_asked_for(engine: str, tiny: Checkpoint) -> None:
    _, decoder = load_decoder(tiny, engine)
    prompts_BP = torch.tensor([tiny.tokenizer.encode(prompt).tolist() for prompt in PROBLEMS])
    whole = generate(tiny.model, prompts_BP, -1)
    for n in (0, 1, 3):
        outputs = generate(decoder, prompts_BP, -1, max_new_tokens=n)
        assert [output.ids for output in outputs] == [output.ids[:n] for output in whole]


@pytest.mark.parametrize("engine", [AUTO, *ENGINES])
@pytest.mark.usefixtures("exporter")
def test_all_engines_write_the_same_alone_and_in_a_batch(engine: str, tiny: Checkpoint) -> None:
    expected = texts(tiny.model, tiny, PROBLEMS)
    assert len(set(expected)) > 1
    name, decoder = load_decoder(tiny, engine)
    assert name == ("native" if engine == AUTO else engine)
    assert texts(decoder, tiny, PROBLEMS) == expected
    assert [texts(decoder, tiny, [problem])[0] for problem in PROBLEMS] == expected


@pytest.mark.usefixtures("exporter", "without_numba")
def test_a_graph_with_other_logits_is_neither_used_nor_cached(
    variant: Callable[..., Checkpoint], folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    changed = variant(weight_change=1.0)
    with pytest.raises(UserError, match="onnxruntime's logits differ"):
        load_decoder(changed, "onnxruntime")
    assert load_decoder(changed) == ("torch", changed.model)
    assert "tiny decodes with torch, which is slower: " in caplog.text
    assert "; model.onnx: onnxruntime's log" in caplog.text
    assert not list(folder.glob("*.graph"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attention": "landmark"}, "export to onnx does not support attention 'landmark'"),
        ({"architecture": "bigram"}, "export to onnx is for architecture 'gpt'"),
    ],
)
def test_a_model_that_onnx_cannot_express_is_decoded_by_torch(
    change: dict[str, Any],
    message: str,
    variant: Callable[..., Checkpoint],
    folder: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    changed = variant(**change)
    assert load_decoder(changed) == ("torch", changed.model)
    assert message in caplog.text
    with pytest.raises(ConfigError, match=message):
        load_decoder(changed, "onnxruntime")
    assert not list(folder.glob("*.graph"))


@pytest.mark.usefixtures("folder", "without_numba")
def test_without_numba_and_onnxruntime_torch_decodes(
    tiny: Checkpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)  # importing it raises
    assert load_decoder(tiny) == ("torch", tiny.model)
    for engine, library in (("native", "llvmlite"), ("onnxruntime", "onnxruntime")):
        reason = f"engine '{engine}' needs {library}: {install_line(library)}"
        assert reason in caplog.text
        with pytest.raises(UserError, match=re.escape(reason)):
            load_decoder(tiny, engine)


@pytest.mark.usefixtures("exporter", "without_numba")
def test_without_numba_onnxruntime_decodes(tiny: Checkpoint) -> None:
    assert load_decoder(tiny)[0] == "onnxruntime"


def test_damaged_weights_are_not_blamed_on_a_missing_engine(tiny: Checkpoint) -> None:
    name, *_ = tiny.arrays
    arrays = {other: array for other, array in tiny.arrays.items() if other != name}
    damaged = dataclasses.replace(tiny, arrays=arrays)
    with pytest.raises(CheckpointError, match=f"^{tiny.name}: tensor '{name}' is missing"):
        load_decoder(damaged, among=("native", "torch"))  # not what torch says of it


def test_an_unknown_engine_lists_the_valid_names(tiny: Checkpoint) -> None:
    with pytest.raises(ConfigError) as caught:
        load_decoder(tiny, "tensorflow")
    expected = "unknown engine 'tensorflow'; valid names: auto, native, onnxruntime, torch"
    assert str(caught.value) == expected
