"""Engines write the same text; a graph that is kept is used again, and never a wrong one."""

from __future__ import annotations

import dataclasses
import logging
import os
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import ConfigError, UserError
from calcgpt.inference import engines
from calcgpt.inference.engines import AUTO, ENGINES, MAX_GRAPHS, cache_folder, load_decoder
from calcgpt.inference.generate import Decoder, generate
from calcgpt.inference.onnx_graph import to_onnx
from calcgpt.model import LanguageModel, build_model

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
    return [tokenizer.decode(written.ids) for written in generate(decoder, prompts_BP, stop)]


def with_model(checkpoint: Checkpoint, model: LanguageModel) -> Checkpoint:
    recipe = checkpoint.recipe.model_copy(update={"model": model.config})
    return dataclasses.replace(checkpoint, recipe=recipe, model=model)


def of_config(checkpoint: Checkpoint, **change: Any) -> Checkpoint:
    config = checkpoint.model.config.model_copy(update=change)
    return with_model(checkpoint, build_model(config, len(checkpoint.tokenizer)).eval())


def with_other_weight(checkpoint: Checkpoint) -> Checkpoint:
    model = build_model(checkpoint.model.config, len(checkpoint.tokenizer)).eval()
    model.load_state_dict(checkpoint.model.state_dict())
    next(model.parameters()).data[1, 2] += 1.0
    return with_model(checkpoint, model)


@pytest.fixture(scope="module")
def proto(tiny: Checkpoint) -> onnx.ModelProto:
    """The graph of `tiny`, which takes seconds to make."""
    return to_onnx(tiny.model)


class Exporter:
    """In the place of `to_onnx`: the graph of `tiny`, at once, for all; counts how often."""

    def __init__(self, proto: onnx.ModelProto) -> None:
        self.proto = proto
        self.n_call = 0

    def __call__(self, model: LanguageModel) -> onnx.ModelProto:
        self.n_call += 1
        return self.proto


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where graphs are kept; there is none yet."""
    path = tmp_path / "cache" / "of mine"
    monkeypatch.setenv("CALCGPT_CACHE", str(path))
    return path


@pytest.fixture
def exporter(folder: Path, proto: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch) -> Exporter:
    fake = Exporter(proto)
    monkeypatch.setattr(engines, "to_onnx", fake)
    return fake


@pytest.fixture
def kept(tiny: Checkpoint, exporter: Exporter, folder: Path) -> Path:
    """The file of `tiny`, made by an earlier start."""
    load_decoder(tiny, "onnxruntime")
    assert exporter.n_call == 1
    (file,) = folder.iterdir()
    return file


@pytest.mark.parametrize("engine", [AUTO, *ENGINES])
@pytest.mark.usefixtures("exporter")
def test_all_write_the_same_alone_and_together(engine: str, tiny: Checkpoint) -> None:
    expected = texts(tiny.model, tiny, PROBLEMS)
    assert len(set(expected)) > 1
    name, decoder = load_decoder(tiny, engine)
    assert name == ("onnxruntime" if engine == AUTO else engine)
    assert texts(decoder, tiny, PROBLEMS) == expected
    assert [texts(decoder, tiny, [problem])[0] for problem in PROBLEMS] == expected


def test_the_graph_is_made_of_the_model(tiny: Checkpoint, folder: Path) -> None:
    mine = with_other_weight(tiny)
    _, decoder = load_decoder(mine, "onnxruntime")
    assert texts(decoder, mine, PROBLEMS) == texts(mine.model, mine, PROBLEMS)
    assert len(list(folder.iterdir())) == 1


def test_a_graph_that_is_kept_needs_onnxruntime_alone(
    tiny: Checkpoint, kept: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for library in ("onnx", "onnxscript"):
        monkeypatch.setitem(sys.modules, library, None)  # importing it raises
    monkeypatch.setattr(engines, "to_onnx", None)
    caplog.clear()
    name, decoder = load_decoder(tiny)
    assert name == "onnxruntime"
    assert texts(decoder, tiny, PROBLEMS) == texts(tiny.model, tiny, PROBLEMS)
    assert not caplog.records
    with pytest.raises(UserError, match=r"needs onnx: pip install 'calcgpt\[onnx\]'"):
        load_decoder(with_other_weight(tiny), "onnxruntime")


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:20],
        lambda content: content[:-1],
        lambda content: content + b"\0",
        lambda content: b"garbage" * 1_000,
        lambda content: bytes([content[0] ^ 1]) + content[1:],  # of the digest
        lambda content: content[:5_000] + bytes([content[5_000] ^ 1]) + content[5_001:],
    ],
    ids=["empty", "short", "truncated", "longer", "garbage", "digest", "byte"],
)
def test_a_damaged_file_is_made_anew(
    damage: Callable[[bytes], bytes],
    tiny: Checkpoint,
    kept: Path,
    exporter: Exporter,
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole = kept.read_bytes()
    kept.write_bytes(damage(whole))
    _, decoder = load_decoder(tiny, "onnxruntime")
    assert texts(decoder, tiny, PROBLEMS) == texts(tiny.model, tiny, PROBLEMS)
    assert exporter.n_call == 2
    assert f"{kept} is damaged" in caplog.text
    assert kept.read_bytes() == whole


def change_weight(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, tmp: Path) -> Checkpoint:
    return with_other_weight(checkpoint)


def change_config(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, tmp: Path) -> Checkpoint:
    """All weights the same, other arithmetic."""
    changed = of_config(checkpoint, feedforward="gelu")
    changed.model.load_state_dict(checkpoint.model.state_dict())
    return changed


def change_library(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, tmp: Path
) -> Checkpoint:
    monkeypatch.setattr(onnxruntime, "__version__", "0.0.0")
    return checkpoint


def change_source(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, tmp: Path) -> Checkpoint:
    shutil.copytree(engines.PACKAGE, tmp / "calcgpt")
    monkeypatch.setattr(engines, "PACKAGE", tmp / "calcgpt")
    with (tmp / "calcgpt" / "model" / "positions.py").open("a") as file:
        file.write("\n")
    return checkpoint


@pytest.mark.parametrize("change", [change_weight, change_config, change_library, change_source])
def test_what_a_graph_depends_on_makes_another(
    change: Callable[[Checkpoint, pytest.MonkeyPatch, Path], Checkpoint],
    tiny: Checkpoint,
    kept: Path,
    exporter: Exporter,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    changed = change(tiny, monkeypatch, tmp_path)
    monkeypatch.setattr(engines, "check", lambda model, graph: None)
    load_decoder(changed, "onnxruntime")
    assert exporter.n_call == 2
    assert len(list(folder.iterdir())) == 2


def test_a_copy_of_the_source_elsewhere_is_no_change(
    tiny: Checkpoint,
    kept: Path,
    exporter: Exporter,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(engines, "PACKAGE", shutil.copytree(engines.PACKAGE, tmp_path / "copy"))
    load_decoder(tiny, "onnxruntime")
    assert exporter.n_call == 1


@pytest.mark.usefixtures("exporter")
def test_a_graph_of_other_logits_is_neither_used_nor_kept(
    tiny: Checkpoint, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine = with_other_weight(tiny)
    with pytest.raises(UserError, match="onnxruntime's logits differ"):
        load_decoder(mine, "onnxruntime")
    name, decoder = load_decoder(mine)
    assert (name, decoder) == ("torch", mine.model)
    assert "tiny decodes by torch, which is slower: model.onnx: onnxruntime's log" in caplog.text
    assert not folder.exists()


def test_where_nothing_can_be_kept_one_warning_is_all(
    tiny: Checkpoint, exporter: Exporter, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.parent.mkdir()
    folder.write_text("a file")
    for n_call in (1, 2):
        caplog.clear()
        _, decoder = load_decoder(tiny, "onnxruntime")
        assert texts(decoder, tiny, PROBLEMS) == texts(tiny.model, tiny, PROBLEMS)
        assert exporter.n_call == n_call
        (warning,) = (record for record in caplog.records if record.levelno >= logging.WARNING)
        assert "the graph is not kept" in warning.getMessage()
    assert folder.read_text() == "a file"


def test_the_graphs_used_last_are_kept(
    tiny: Checkpoint, kept: Path, exporter: Exporter, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for age in range(MAX_GRAPHS):
        other = folder / f"{age}.graph"
        other.write_bytes(b"")
        os.utime(other, (1_000_000_000 - age,) * 2)
    os.utime(kept, (0, 0))
    load_decoder(tiny, "onnxruntime")  # used now, whenever it was made
    monkeypatch.setattr(onnxruntime, "__version__", "0.0.0")
    load_decoder(tiny, "onnxruntime")
    names = {file.name for file in folder.iterdir()}
    assert len(names) == MAX_GRAPHS
    assert kept.name in names
    assert names >= {f"{age}.graph" for age in range(MAX_GRAPHS - 2)}


def test_a_file_that_several_write_is_whole_at_any_time(tmp_path: Path) -> None:
    path = tmp_path / "mine.graph"
    graphs = [bytes([i]) * 300_000 for i in range(4)]
    engines._write(path, graphs[0])
    with ThreadPoolExecutor() as pool:
        writers = [pool.submit(engines._write, path, graphs[i % 4]) for i in range(100)]
        while not all(writer.done() for writer in writers):
            assert engines._read(path) in graphs
        for writer in writers:
            writer.result()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attention": "landmark"}, "export to onnx does not know attention 'landmark'"),
        ({"architecture": "bigram"}, "export to onnx is for architecture 'gpt'"),
    ],
)
def test_what_no_graph_can_hold_is_decoded_by_torch(
    change: dict[str, Any],
    message: str,
    tiny: Checkpoint,
    folder: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    mine = of_config(tiny, **change)
    assert load_decoder(mine) == ("torch", mine.model)
    assert message in caplog.text
    with pytest.raises(ConfigError, match=message):
        load_decoder(mine, "onnxruntime")
    assert not folder.exists()


def test_without_onnxruntime(
    tiny: Checkpoint,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert load_decoder(tiny) == ("torch", tiny.model)
    assert "pip install 'calcgpt[onnx]'" in caplog.text
    with pytest.raises(UserError, match=r"needs onnxruntime: pip install 'calcgpt\[onnx\]'"):
        load_decoder(tiny, "onnxruntime")


def test_an_unknown_engine_lists_the_known(tiny: Checkpoint) -> None:
    with pytest.raises(ConfigError) as caught:
        load_decoder(tiny, "tensorflow")
    expected = "unknown engine 'tensorflow'; valid names: auto, onnxruntime, torch"
    assert str(caught.value) == expected


def test_threads_are_as_many_as_asked_for(
    tiny: Checkpoint, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = []
    start = onnxruntime.InferenceSession

    def session(graph: bytes, options: Any, **rest: Any) -> Any:
        created.append(options.intra_op_num_threads)
        return start(graph, options, **rest)

    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    load_decoder(tiny, "onnxruntime", threads=3)
    load_decoder(tiny, "onnxruntime")
    assert created == [3, torch.get_num_threads()]


def test_the_folder_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CALCGPT_CACHE", "/mine")
    monkeypatch.setenv("XDG_CACHE_HOME", "/theirs")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == Path("/mine")
    monkeypatch.setenv("CALCGPT_CACHE", "")
    assert cache_folder() == Path("/theirs/calcgpt")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path("/home/me/.cache/calcgpt")


def test_a_user_without_a_home_keeps_nothing(
    tiny: Checkpoint,
    exporter: Exporter,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    for name in ("CALCGPT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert load_decoder(tiny)[0] == "onnxruntime"
    assert "the graph is not kept" in caplog.text


@pytest.mark.usefixtures("folder")
def test_other_log_lines_are_not_lost_while_a_graph_is_made(
    tiny: Checkpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A service that answers already may make the graph of one more model."""
    embed = type(tiny.model.positions).embed

    def logged(*args: Any) -> torch.Tensor:
        logging.getLogger("service").warning("answered")
        return embed(*args)

    monkeypatch.setattr(type(tiny.model.positions), "embed", logged)
    to_onnx(tiny.model)
    assert "answered" in caplog.text
