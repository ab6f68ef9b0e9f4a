"""Plots show what was measured, with labels."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.results import Calculation, Confidence, Node
from calcgpt.lab.inspection import (
    BINS,
    INSERTED,
    AttentionMaps,
    Inspection,
    LayerActivations,
    Statistics,
)
from calcgpt.lab.inspection_plots import draw_activations, draw_layer, draw_overview
from datagen.extras import install_line

BEFORE = Statistics(-0.5, 2.0, -2.0, 3.0, [0] * (BINS - 1) + [400])
AFTER = Statistics(0.25, 0.5, 0.0, 0.0, [400] + [0] * (BINS - 1))  # nothing fires
LAYERS = [LayerActivations(8, 3, BEFORE, AFTER), LayerActivations(8, 0, BEFORE, BEFORE)]


def inspection(text: str = f"$(1+1)={INSERTED}x1=20", heads: int = 3) -> Inspection:
    n = len(text)
    weights = torch.rand(2, heads, n, n, generator=torch.Generator().manual_seed(0)).tril()
    weights /= weights.sum(dim=-1, keepdim=True)
    sure = Confidence(answer=1.0, weakest_step=1.0, whole=1.0)
    node = Node(
        expression="1+1",
        position=0,
        end=3,
        problem="1+1",
        prompt="$(1+1)=",
        work="x1",
        output="x1=20$",
        result="2",
        exact="2",
        agrees=True,
        rounded=False,
        confidence=sure,
    )
    answer = Calculation(
        expression="1+1",
        result="2",
        exact="2",
        fraction="2",
        places=2,
        rounded=False,
        verified=True,
        in_tested_range=True,
        confidence=sure,
        nodes=(node,),
        model="a$b_{c",
    )
    return Inspection(answer, AttentionMaps(list(text), weights), 4, "test.txt", 50, LAYERS)


def maps(figure: Any) -> list[Any]:
    return [axes for axes in figure.axes if axes.images]


def test_a_layer_shows_the_weights_of_each_head_with_the_characters() -> None:
    inspected = inspection()
    figure = draw_layer(inspected, 1, range(3))
    for head, axes in enumerate(maps(figure)):
        image = axes.images[0].get_array()
        weights = inspected.maps.weights_LHSS[1, head].numpy()
        past = np.tri(len(weights), dtype=bool)
        assert (np.ma.getmaskarray(image) == ~past).all()
        assert (image[past] == weights[past]).all()
        assert axes.images[0].get_clim() == (0, 1)
        for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
            assert [text.get_text() for text in labels] == inspected.maps.labels
            assert {text.get_fontfamily()[0] for text in labels} == {"monospace"}
            colours = {text.get_text(): text.get_color() for text in labels}
            assert colours[INSERTED] != colours["1"]
        assert axes.get_title() == f"head {head}"
        assert "attended" in axes.get_xlabel()
    assert "a$b_{c: 1+1 = 2" in figure.get_suptitle()
    assert "landmark" in figure.get_suptitle()
    assert "layer 1" in figure.get_suptitle()


def test_thin_lines_follow_each_equals_sign() -> None:
    axes = maps(draw_layer(inspection("$(1+1)=x1=20"), 0, [0]))[0]
    edges = [7 - 0.5, 10 - 0.5]
    assert [line.get_ydata()[0] for line in axes.lines if line.get_xdata() == [0, 1]] == edges
    assert [line.get_xdata()[0] for line in axes.lines if line.get_ydata() == [0, 1]] == edges


@pytest.mark.parametrize(("n", "step"), [(36, 1), (120, 1), (190, 1), (900, 4)])
def test_labels_are_thinned_only_if_they_could_not_be_read(n: int, step: int) -> None:
    inspected = inspection("$" * n, heads=2)
    figure = draw_layer(inspected, 0, range(2))
    axes = maps(figure)[0]
    assert axes.get_xticks().tolist() == list(range(0, n, step))
    # A label is at least ten pixels high, at 150 per inch.
    size = axes.get_yticklabels()[0].get_fontsize()
    assert size >= 4.6
    assert max(figure.get_size_inches()) < 50


def test_a_character_that_cannot_be_printed_is_a_question_mark() -> None:
    axes = maps(draw_layer(inspection("$(\n"), 0, [0]))[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["$", "(", "?"]


@pytest.mark.parametrize(
    ("count", "columns"), [(1, 1), (2, 2), (3, 3), (4, 2), (6, 3), (7, 4), (8, 4), (12, 4), (16, 4)]
)
def test_grids_are_nearly_square_and_full(count: int, columns: int) -> None:
    grid = draw_layer(inspection("$(", heads=count), 0, range(count)).axes[0].get_gridspec()
    assert grid.ncols == columns


def test_the_overview_shows_all_heads_of_all_layers() -> None:
    figure = draw_overview(inspection())
    assert len(maps(figure)) == 2 * 3
    assert [axes.get_ylabel() for axes in maps(figure)[::3]] == ["layer 0", "layer 1"]
    assert [axes.get_title() for axes in maps(figure)[:3]] == ["head 0", "head 1", "head 2"]
    [bar] = [axes for axes in figure.axes if "attention weight" in axes.get_ylabel()]
    assert bar.get_ylim() == (0, 1)


def test_the_bars_show_dead_units_means_and_variances() -> None:
    figure = draw_activations(inspection())
    dead, mean, variance, *histograms = figure.axes

    def heights(axes: Any) -> list[list[float]]:
        return [[bar.get_height() for bar in bars] for bars in axes.containers]

    assert heights(dead) == [[0.375, 0.0]]
    assert [text.get_text() for text in dead.texts] == ["3", "0"]
    assert heights(mean) == [[-0.5, -0.5], [0.25, -0.5]]
    assert heights(variance) == [[2.0, 2.0], [0.5, 2.0]]
    assert "bias shift" in mean.get_title()
    assert "dying ReLU" in dead.get_title()
    upper = figure.subfigs[0]
    assert "4 problems (test.txt; 50 tokens)" in upper.get_suptitle()
    assert "never above 0" in upper.get_suptitle()
    assert [axes.get_title() for axes in histograms] == ["layer 0", "layer 1"]


def test_histograms_are_densities() -> None:
    _, _, _, first, second = draw_activations(inspection()).axes
    for axes in (first, second):
        for stairs in axes.patches:
            values, edges, _ = stairs.get_data()
            assert (values * np.diff(edges)).sum() == pytest.approx(1)
    assert first.patches[0].get_data().edges[[0, -1]].tolist() == [-2.0, 3.0]


PNG = b"\x89PNG\r\n\x1a\n"


def test_the_command_writes_all_plots_and_numbers(
    run_cli: Callable[..., Any], tiny_folder: Path, data_folder: Path, tmp_path: Path
) -> None:
    out, file = tmp_path / "new" / "out", tmp_path / "numbers.json"
    data = ("--data", data_folder / "test.txt", "--n", 7)
    ended = run_cli("inspect", tiny_folder, "12.5*3", "--out", out, "--json", file, *data)
    assert ended.code == 0
    written = {"attention.png", "attention-layer-0.png", "activations.png"}
    assert {path.name for path in out.iterdir()} == written
    for path in out.iterdir():
        assert path.read_bytes().startswith(PNG)
        assert path.stat().st_size > 5_000
        assert f"\n{path}\n" in ended.out
    record = json.loads(file.read_text())
    answer = record["answer"]
    assert ended.out.splitlines()[0] == (answer["result"] or answer["nodes"][0]["output"])
    assert "wrong: the exact answer of 12.5*3 is 37.5" in ended.err
    assert record["activations"]["problems"] == 7
    assert record["activations"]["source"] == "test.txt"
    [layer] = record["activations"]["layers"]
    assert layer["units"] == 64
    assert f"{layer['before']['mean']:.4f}" in ended.out.splitlines()[-1]


def test_one_head_of_one_layer_can_be_drawn(
    run_cli: Callable[..., Any], tiny_folder: Path, tmp_path: Path
) -> None:
    chosen = ("--layer", 0, "--head", 1, "--n", 2, "--out", tmp_path)
    assert run_cli("inspect", tiny_folder, "-5+3", *chosen).code == 0
    assert (tmp_path / "attention-layer-0-head-1.png").is_file()
    assert not (tmp_path / "attention-layer-0.png").exists()


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["1,234,5*3"], "a comma"),
        (["1+1", "--layer", "1"], "no layer 1: the model has layers 0 to 0"),
        (["1+1", "--head", "-1"], "no head -1"),
        (["1+1", "--n", "0"], "--n"),
        (["1+1", "--seed", "-1"], "--seed"),
        (["1+1", "--json", "absent/numbers.json"], "absent is not a folder"),
        (["1+1", "--data", "absent.txt"], "cannot read absent.txt"),
        (["1+1", "--data", "{tiny}/README.md"], "README.md, line 1"),
        (["1+1", "--data", "steps.txt"], "steps.txt: character 'x'"),
        (["1+1", "--data", "long.txt"], "long.txt: a problem of"),
        (["1+1", "--lyer", "1"], "--lyer"),
        ([], "EXPRESSION"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_an_error_is_one_line_and_leaves_no_files(
    run_cli: Callable[..., Any],
    tiny_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    reason: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("steps.txt").write_text("$(0000000001+0000000001)=x1=2000000000$\n")
    Path("long.txt").write_text(f"$(0000000001+0000000001)={'1+' * 30}=2000000000$\n")
    before = set(tmp_path.iterdir())
    ended = run_cli("inspect", tiny_folder, *(arg.format(tiny=tiny_folder) for arg in args))
    assert (ended.code, ended.out) == (2, "")
    (line,) = ended.err.splitlines()
    assert line.startswith("error: ")
    assert reason in line
    assert set(tmp_path.iterdir()) == before


def test_without_matplotlib_one_line_names_the_extra(
    run_cli: Callable[..., Any], tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # importing it raises
    files = ("--out", tmp_path / "out", "--json", tmp_path / "numbers.json")
    ended = run_cli("inspect", tiny_folder, "1+1", "--n", 2, *files)
    assert (ended.code, ended.out) == (2, "")
    line = install_line("matplotlib")
    assert ended.err == f"error: a look inside a model needs matplotlib: {line}\n"
    assert list(tmp_path.iterdir()) == []


def test_measuring_does_not_need_matplotlib(
    tiny: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    from calcgpt.lab.inspection import inspect

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert len(inspect(tiny, "1+1", n=2).layers) == 1
