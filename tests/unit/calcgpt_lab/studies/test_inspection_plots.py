"""The plots of an inspection show what was measured."""

from pathlib import Path

import numpy as np
import pytest
import torch
from commands import RunCli

from calcgpt.checkpoint import Checkpoint
from calcgpt.registry import resolve
from calcgpt_lab.studies.inspection import INSERTED, AttentionMaps, Inspection, draw_layer, inspect


@pytest.fixture
def inspection(tiny: Checkpoint) -> Inspection:
    """An inspection of a model whose attention is uniform, and whose name is not a formula."""
    text = f"$(\n+1)={INSERTED}x1=20"
    weights = torch.ones(2, 3, len(text), len(text)).tril()
    weights /= weights.sum(dim=-1, keepdim=True)
    answer = inspect(tiny, "1+1").answer.model_copy(update={"model": "a$b_{c"})
    return Inspection(answer, AttentionMaps(list(text), weights))


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
    figure.savefig("/dev/null", format="png")


def test_the_command_draws_each_layer_and_says_what_is_wrong(
    run_cli: RunCli, tiny_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "out"
    ended = run_cli("inspect", tiny_folder, "12.5*3", "--out", out)
    assert ended.code == 0
    [path] = out.iterdir()
    assert path.name == "attention-layer-0.png"
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert ended.out.splitlines()[-1] == str(path)
    assert "wrong: the exact answer of 12.5*3 is 37.5" in ended.err


def test_the_heads_of_a_shipped_model_are_drawn(run_cli: RunCli, tmp_path: Path) -> None:
    ended = run_cli("inspect", resolve("calculator"), "2+3", "--out", tmp_path)
    assert (ended.code, ended.err, ended.out.splitlines()[0]) == (0, "", "5")
    names = {f"attention-layer-{layer}.png" for layer in range(3)}
    assert {path.name for path in tmp_path.iterdir()} == names
