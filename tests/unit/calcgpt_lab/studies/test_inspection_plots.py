"""The plots of an inspection show what was measured."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import RunCli

from calcgpt.checkpoint import Checkpoint
from calcgpt.registry import resolve
from calcgpt_lab.studies.inspection import INSERTED, AttentionMaps, Inspection, inspect
from calcgpt_lab.studies.inspection_plots import draw_activations, draw_layer


@pytest.fixture
def inspection(tiny: Checkpoint) -> Inspection:
    """An inspection of a model whose attention is uniform, and whose name is not a formula."""
    text = f"$(\n+1)={INSERTED}x1=20"
    weights = torch.ones(2, 3, len(text), len(text)).tril()
    weights /= weights.sum(dim=-1, keepdim=True)
    measured = inspect(tiny, "1+1", n=4)
    answer = measured.answer.model_copy(update={"model": "a$b_{c"})
    maps = AttentionMaps(list(text), weights)
    return Inspection(answer, maps, 4, "test.txt", 50, measured.layers * 2)


def test_a_layer_shows_the_weights_of_each_head_and_no_name_is_a_formula(
    inspection: Inspection,
) -> None:
    figure = draw_layer(inspection, 1, range(3))
    panels = [axes for axes in figure.axes if axes.images]
    for head, axes in enumerate(panels):
        weights = inspection.maps.weights_LHSS[1, head].numpy()
        past = np.tri(len(weights), dtype=bool)
        assert (np.asarray(axes.images[0].get_array())[past] == weights[past]).all()
    assert len(panels) == 3
    for drawn in (figure, draw_activations(inspection)):
        drawn.savefig("/dev/null", format="png")


def test_the_command_writes_all_plots_and_numbers(
    run_cli: RunCli, tiny_folder: Path, data_folder: Path, tmp_path: Path
) -> None:
    out, file = tmp_path / "new" / "out", tmp_path / "numbers.json"
    data = ("--data", data_folder / "test.txt", "--n", 7)
    ended = run_cli("inspect", tiny_folder, "12.5*3", "--out", out, "--json", file, *data)
    assert ended.code == 0
    written = {"attention-layer-0.png", "activations.png"}
    assert {path.name for path in out.iterdir()} == written
    for path in out.iterdir():
        assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert f"\n{path}\n" in ended.out
    record = json.loads(file.read_text())
    answer = record["answer"]
    assert ended.out.splitlines()[0] == (answer["result"] or answer["nodes"][0]["output"])
    assert "wrong: the exact answer of 12.5*3 is 37.5" in ended.err
    assert (record["activations"]["problems"], record["activations"]["source"]) == (7, "test.txt")
    [layer] = record["activations"]["layers"]
    assert layer["units"] == 64
    assert f"{layer['before']['mean']:.4f}" in ended.out.splitlines()[-1]


def test_the_heads_of_a_shipped_model_are_drawn(run_cli: RunCli, tmp_path: Path) -> None:
    chosen = ("--n", 8, "--out", tmp_path)
    ended = run_cli("inspect", resolve("calculator"), "2+3", *chosen)
    assert (ended.code, ended.err, ended.out.splitlines()[0]) == (0, "", "5")
    names = {f"attention-layer-{layer}.png" for layer in range(3)}
    assert {path.name for path in tmp_path.iterdir()} == {*names, "activations.png"}
