"""onnxruntime decodes as torch does; a cached graph is used again, and never a wrong one."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest
import torch

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import UserError
from calcgpt.inference import cache
from calcgpt.inference import onnx as onnx_engine
from calcgpt.inference.cache import MAX_FILES, cache_folder, read_cached, write_cached
from calcgpt.inference.generate import Sampling, generate
from calcgpt.inference.onnx import PACKAGE, OnnxDecoder, cached_graph, graph_key
from datagen.files import locked

pytestmark = pytest.mark.usefixtures("quick_exporter")


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_onnxruntime_writes_what_torch_writes(
    temperature: float, tiny: Checkpoint, tiny_graph: bytes
) -> None:
    model = tiny.model
    prompts_BP = torch.randint(model.vocab_size, (6, 5), generator=torch.Generator().manual_seed(0))
    prompts_BP[:, :3] = prompts_BP[0, :3]  # a shared prefix, which is read once
    sampling = Sampling(temperature, seed=3)
    endless = generate(model, prompts_BP, stop_token=-1, sampling=sampling)
    stop = endless[0].ids[3]  # a token that some rows write, sooner or later
    expected = generate(model, prompts_BP, stop, sampling=sampling)
    actual = generate(OnnxDecoder(model, tiny_graph), prompts_BP, stop, sampling=sampling)
    assert len({len(completion.ids) for completion in expected}) > 1  # rows end at unlike times
    for by_torch, by_onnxruntime in zip(expected, actual, strict=True):
        assert by_onnxruntime.ids == by_torch.ids
        assert by_onnxruntime.probabilities == pytest.approx(by_torch.probabilities, abs=1e-5)


KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
from calcgpt.inference.cache import write_cached
Path.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
write_cached(Path(sys.argv[1]), b"content")
"""


class CountingExporter:
    """Stands in for `to_onnx`: returns the graph of `tiny` for every model, and counts calls."""

    def __init__(self, proto: onnx.ModelProto) -> None:
        self.proto = proto
        self.n_call = 0

    def __call__(self, model: Any) -> onnx.ModelProto:
        self.n_call += 1
        return self.proto


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of cached graphs, which does not exist yet."""
    path = tmp_path / "cache" / "of mine"
    monkeypatch.setenv("CALCGPT_CACHE", str(path))
    return path


@pytest.fixture
def exporter(folder: Path, tiny_graph: bytes, monkeypatch: pytest.MonkeyPatch) -> CountingExporter:
    counting = CountingExporter(onnx.load_from_string(tiny_graph))
    monkeypatch.setattr(onnx_engine, "to_onnx", counting)
    return counting


@pytest.fixture
def cached(tiny: Checkpoint, exporter: CountingExporter, folder: Path) -> Path:
    """The cache file of `tiny`."""
    cached_graph(tiny.model)
    assert exporter.n_call == 1
    (file,) = folder.glob("*.graph")
    return file


def test_a_graph_is_exported_from_the_model_without_losing_log_lines(
    variant: Callable[..., Checkpoint],
    tiny_graph: bytes,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A service that already answers may export one more model at the same time."""
    model = variant(weight_change=1.0).model
    embed = type(model.positions).embed

    def logged(*args: Any) -> torch.Tensor:
        logging.getLogger("service").warning("answered")
        return embed(*args)

    monkeypatch.setattr(type(model.positions), "embed", logged)
    assert cached_graph(model) != tiny_graph  # `check` has compared it with the model
    assert "answered" in caplog.text
    assert len(list(folder.glob("*.graph"))) == 1


def test_a_cached_graph_needs_only_onnxruntime(
    tiny: Checkpoint,
    variant: Callable[..., Checkpoint],
    cached: Path,
    exporter: CountingExporter,
    tiny_graph: bytes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for library in ("onnx", "onnxscript"):
        monkeypatch.setitem(sys.modules, library, None)  # importing it raises
    caplog.clear()
    assert cached_graph(tiny.model) == tiny_graph
    assert exporter.n_call == 1
    assert not caplog.records
    with pytest.raises(UserError, match="needs onnx and onnxscript: "):
        cached_graph(variant(weight_change=1.0).model)


def test_a_damaged_cache_file_is_replaced(
    tiny: Checkpoint, cached: Path, exporter: CountingExporter, tiny_graph: bytes
) -> None:
    whole = cached.read_bytes()
    cached.write_bytes(whole[:-1])
    assert cached_graph(tiny.model) == tiny_graph
    assert exporter.n_call == 2
    assert cached.read_bytes() == whole


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:20],
        lambda content: content[:-1],
        lambda content: content + b"\0",
        lambda content: b"garbage" * 1_000,
        lambda content: bytes([content[0] ^ 1]) + content[1:],  # of the digest
        lambda content: content[:50] + bytes([content[50] ^ 1]) + content[51:],
    ],
    ids=["empty", "short", "truncated", "longer", "garbage", "digest", "byte"],
)
def test_damage_is_detected(
    damage: Callable[[bytes], bytes], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "a.graph"
    graph = bytes(range(256))
    write_cached(path, graph)
    assert read_cached(path) == graph
    path.write_bytes(damage(path.read_bytes()))
    assert read_cached(path) is None
    assert f"{path} is damaged" in caplog.text


class TestTheKeyOfAGraph:
    def test_depends_on_the_weights(
        self, tiny: Checkpoint, variant: Callable[..., Checkpoint]
    ) -> None:
        assert graph_key(variant().model) == graph_key(tiny.model)
        assert graph_key(variant(weight_change=1.0).model) != graph_key(tiny.model)

    def test_depends_on_the_config(
        self, tiny: Checkpoint, variant: Callable[..., Checkpoint]
    ) -> None:
        assert graph_key(variant(feedforward="gelu").model) != graph_key(tiny.model)

    def test_depends_on_onnxruntime(
        self, tiny: Checkpoint, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = graph_key(tiny.model)
        monkeypatch.setattr(onnxruntime, "__version__", "0.0.0")
        assert graph_key(tiny.model) != before

    def test_depends_on_the_code_but_not_on_its_folder(
        self, tiny: Checkpoint, tmp_path: Path
    ) -> None:
        copy = shutil.copytree(PACKAGE, tmp_path / "copy")
        assert graph_key(tiny.model, copy) == graph_key(tiny.model)
        with (copy / "model" / "positions.py").open("a") as file:
            file.write("\n")
        assert graph_key(tiny.model, copy) != graph_key(tiny.model)

    def test_names_the_cache_file(self, tiny: Checkpoint, cached: Path) -> None:
        assert cached.name == f"{graph_key(tiny.model)}.graph"


def test_if_nothing_can_be_cached_there_is_one_warning(
    tiny: Checkpoint,
    exporter: CountingExporter,
    folder: Path,
    tiny_graph: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder.parent.mkdir()
    folder.write_text("a file")
    for n_call in (1, 2):
        caplog.clear()
        assert cached_graph(tiny.model) == tiny_graph
        assert exporter.n_call == n_call
        (warning,) = (record for record in caplog.records if record.levelno >= logging.WARNING)
        assert "cannot cache the graph" in warning.getMessage()
    assert folder.read_text() == "a file"


def test_the_least_recently_used_graphs_are_removed(tmp_path: Path) -> None:
    for age in range(MAX_FILES):
        path = tmp_path / f"{age}.graph"
        write_cached(path, b"")
        os.utime(path, (1_000_000_000 - age,) * 2)
    oldest = tmp_path / f"{MAX_FILES - 1}.graph"
    read_cached(oldest)  # this counts as a use
    write_cached(tmp_path / "new.graph", b"")
    expected = {"new.graph", oldest.name, *(f"{age}.graph" for age in range(MAX_FILES - 2))}
    assert {file.name for file in tmp_path.iterdir()} == expected


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED_WHILE_WRITING, tmp_path / "a.graph"]
    ) as killed:
        assert killed.wait() == -signal.SIGKILL
    [left] = tmp_path.iterdir()
    write_cached(tmp_path / "b.graph", b"")  # the process might still be writing
    assert left.exists()
    os.utime(left, (1e9, 1e9))
    write_cached(tmp_path / "b.graph", b"")
    assert list(tmp_path.iterdir()) == [tmp_path / "b.graph"]


def test_a_file_that_several_threads_write_is_whole_at_any_time(tmp_path: Path) -> None:
    path = tmp_path / "mine.graph"
    graphs = [bytes([i]) * 300_000 for i in range(4)]
    write_cached(path, graphs[0])
    with ThreadPoolExecutor() as pool:
        writers = [pool.submit(write_cached, path, graphs[i % 4]) for i in range(100)]
        while not all(writer.done() for writer in writers):
            assert read_cached(path) in graphs
        for writer in writers:
            writer.result()
    assert list(tmp_path.iterdir()) == [path]


def test_of_several_that_need_a_file_one_makes_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    barrier, have_read, makers = threading.Barrier(4), set[int](), list[int]()

    def read(path: Path) -> bytes | None:
        content = read_cached(path)
        if (thread := threading.get_ident()) not in have_read:
            have_read.add(thread)
            barrier.wait()  # no one has found the file
        return content

    def make() -> bytes:
        makers.append(threading.get_ident())
        return b"made"

    monkeypatch.setattr(cache, "read_cached", read)
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(cache.cached, "a.graph", make, "a graph") for _ in range(4)]
        assert [future.result() for future in futures] == [b"made"] * 4
    assert len(makers) == 1


def test_who_waits_too_long_makes_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LOCK_TIMEOUT", 0.01)
    with locked(folder, "writing"):
        assert cache.cached("a.graph", lambda: b"made", "a graph") == b"made"
    assert read_cached(folder / "a.graph") == b"made"


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALCGPT_CACHE", "/mine")
    monkeypatch.setenv("XDG_CACHE_HOME", "/shared")
    monkeypatch.setenv("HOME", "/home/me")
    assert cache_folder() == Path("/mine")
    monkeypatch.setenv("CALCGPT_CACHE", "")
    assert cache_folder() == Path("/shared/calcgpt")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path("/home/me/.cache/calcgpt")


def test_a_user_without_a_home_caches_nothing(
    tiny: Checkpoint,
    exporter: CountingExporter,
    tiny_graph: bytes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    for name in ("CALCGPT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert cached_graph(tiny.model) == tiny_graph
    assert "cannot cache the graph" in caplog.text
