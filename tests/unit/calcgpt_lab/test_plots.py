"""Plots show the content of rows and records; an invalid file of rows is refused in one line."""

import json
from pathlib import Path
from typing import Any

import pytest
from commands import RunCli

from calcgpt_lab.plots import draw_curves, draw_reliability
from calcgpt_lab.records import read_curves, wilson_interval

ROWS: list[dict[str, Any]] = [
    {"step": 5, "val_loss": 9.0},  # before the first training row: its tokens are unknown
    {"step": 10, "tokens": 1_000_000, "loss": 2.0, "lr": 0.1},
    {"step": 15, "val_loss": 1.75, "val_exact_match": 0.25, "val_exact_match+": 0.5},
    {"step": 20, "tokens": 2_500_000, "loss": 1.5, "lr": 0.1},
    {"step": 20, "val_loss": 1.25, "val_exact_match": 0.5, "val_exact_match+": 0.75},
]
BINS = [
    {"low": 0.0, "high": 0.5, "n": 4, "confidence": 0.25, "accuracy": 0.5},
    {"low": 0.5, "high": 0.75, "n": 0, "confidence": None, "accuracy": None},
    {"low": 0.75, "high": 1.0, "n": 1500, "confidence": 0.9, "accuracy": 1.0},
]
RECORD: dict[str, Any] = {
    "n": 1504,
    "exact_match": 0.75,
    "checkpoint": "a$b_{c",  # no formula, though it looks like one
    "confidence": {"reliability": {"bins": BINS, "expected_calibration_error": 0.125}},
}


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine" / "metrics.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def points(axes: Any) -> list[list[list[float]]]:
    return [line.get_xydata().tolist() for line in axes.lines]


def test_validation_is_drawn_at_the_tokens_of_the_training_row_before_it(run_file: Path) -> None:
    curves = read_curves(run_file)
    figure = draw_curves({"mine": curves, "other$": curves})
    loss, val_loss, exact = figure.axes
    assert points(loss) == 2 * [[[1.0, 2.0], [2.5, 1.5]]]
    assert points(val_loss) == 2 * [[[1.0, 1.75], [2.5, 1.25]]]
    assert points(exact) == 2 * [[[1.0, 0.25], [2.5, 0.5]]]
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["mine", r"other\$"]
    assert "millions" in exact.get_xlabel()
    assert "nats" in loss.get_ylabel()


def test_the_order_of_rows_does_not_matter(run_file: Path) -> None:
    curves = read_curves(run_file)
    run_file.write_text("".join(json.dumps(row) + "\n" for row in reversed(ROWS)))
    assert read_curves(run_file) == curves


def test_a_run_on_text_has_losses_and_nothing_else(run_file: Path) -> None:
    rows = [{"step": 1, "tokens": 5, "loss": 1.0}, {"step": 1, "val_loss": 2.0}]
    run_file.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 2, "tok')
    axes = draw_curves({"mine": read_curves(run_file)}).axes
    assert [panel.get_ylabel().split()[0] for panel in axes] == ["training", "validation"]


def test_the_reliability_diagram_shows_each_bin_with_problems() -> None:
    upper, lower = draw_reliability(RECORD).axes
    [bins] = upper.containers
    assert bins.lines[0].get_xydata().tolist() == [[0.25, 0.5], [0.9, 1.0]]
    assert [[0.0, 0.0], [1.0, 1.0]] in points(upper)
    spans = [segment.tolist() for segment in bins.lines[2][0].get_segments()]
    for (_, low), (_, high), share, n in ((*spans[0], 0.5, 4), (*spans[1], 1.0, 1500)):
        assert (low, high) == pytest.approx(wilson_interval(share, n))
    bars = [(b.get_x(), b.get_width(), b.get_height()) for b in lower.patches]
    assert bars == [(0.0, 0.5, 4), (0.75, 0.25, 1500)]
    assert {text.get_text() for text in lower.texts} == {"4", "1,500"}
    title = "a$b_{c: 1,504 problems, exact match 0.7500\nexpected calibration error 0.1250"
    assert upper.get_title() == title


def test_the_command_draws_the_confidence(
    run_cli: RunCli, tiny_folder: Path, data_folder: Path, tmp_path: Path
) -> None:
    test, plots = data_folder / "test.txt", tmp_path / "new" / "plots"
    assert run_cli("eval", tiny_folder, "--data", test, "--plots", plots, "--quiet").code == 0
    assert (plots / "reliability.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is empty"),
        ('{"step": 1', "has no training row"),  # one line, cut off
        ("hello\n", "line 1: not JSON"),
        ("[" * 100_000 + "\n", "line 1: not JSON"),
        ('{"step": 1, "val_loss": 1.0}\n', "has no training row"),
        ('{"step": 1, "loss": 1.0}\n', "line 1: tokens is missing"),
        ('{"step": 1, "lr": 1.0}\n', "either loss or val_loss"),
        ('{"tokens": 1, "loss": 1.0}\n', "step"),
        ('{"step": 1, "tokens": 1, "loss": NaN}\n', "NaN is not a JSON number"),
        ('{"step": 1, "tokens": 1e999, "loss": 1}\n', "tokens"),
        ("[]\n", "line 1"),
    ],
)
def test_rows_that_cannot_be_read_are_one_line(
    run_cli: RunCli, run_file: Path, tmp_path: Path, content: str, reason: str
) -> None:
    run_file.write_text(content)
    error = run_cli("compare", run_file.parent, "--out", tmp_path / "out").error
    assert "metrics.jsonl" in error
    assert reason in error
    assert not (tmp_path / "out").exists()
