"""Plots show the content of files; invalid files are refused in one line."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import RunCli

from calcgpt_lab.plots import draw_curves, draw_operand_lengths, draw_reliability, file_figures
from calcgpt_lab.records import MAX_TABLE, read_curves, read_record, wilson_interval

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
    "temperature": 0.0,
    "checkpoint": "a$b_{c",  # no formula, though it looks like one
    "file": "test.txt",
    "confidence": {"reliability": {"bins": BINS, "expected_calibration_error": 0.125}},
    "by_length": {
        "+": {"n": [[0, 4], [1500, 0]], "right": [[0, 1], [1500, 0]]},
        "/": {"n": [[0, 0], [0, 12345]], "right": [[0, 0], [0, 12000]]},
    },
    "first_errors": {"*": {"product row": 3, "sign": 1}, "/": {"sign": 4}},
}


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine" / "metrics.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


@pytest.fixture
def record_file(tmp_path: Path) -> Path:
    path = tmp_path / "scores.json"
    path.write_text(json.dumps(RECORD))
    return path


def lines(axes: Any) -> dict[str, list[list[float]]]:
    return {line.get_label(): line.get_xydata().tolist() for line in axes.lines}


def test_validation_is_drawn_at_the_tokens_of_the_training_row_before_it(run_file: Path) -> None:
    loss, exact = draw_curves(read_curves(run_file), "mine").axes
    assert lines(loss) == {
        "training": [[1.0, 2.0], [2.5, 1.5]],
        "validation": [[1.0, 1.75], [2.5, 1.25]],
    }
    assert lines(exact) == {"all": [[1.0, 0.25], [2.5, 0.5]], "A + B": [[1.0, 0.5], [2.5, 0.75]]}
    assert loss.get_title() == "mine"
    assert "millions" in exact.get_xlabel()
    assert "nats" in loss.get_ylabel()


def test_the_order_of_rows_does_not_matter(run_file: Path) -> None:
    curves = read_curves(run_file)
    run_file.write_text("".join(json.dumps(row) + "\n" for row in reversed(ROWS)))
    assert read_curves(run_file) == curves


def test_a_run_on_text_has_a_loss_and_nothing_else(run_file: Path) -> None:
    rows = [{"step": 1, "tokens": 5, "loss": 1.0}, {"step": 1, "val_loss": 2.0}]
    run_file.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step": 2, "tok')
    [loss] = draw_curves(read_curves(run_file), "mine").axes
    assert lines(loss).keys() == {"training", "validation"}


def test_the_reliability_diagram_shows_each_bin_with_problems(record_file: Path) -> None:
    upper, lower = draw_reliability(read_record(record_file)).axes
    [points] = upper.containers
    assert points.lines[0].get_xydata().tolist() == [[0.25, 0.5], [0.9, 1.0]]
    assert [0.0, 0.0] in lines(upper)["perfectly calibrated"]
    spans = [segment.tolist() for segment in points.lines[2][0].get_segments()]
    for (_, low), (_, high), share, n in ((*spans[0], 0.5, 4), (*spans[1], 1.0, 1500)):
        assert (low, high) == pytest.approx(wilson_interval(share, n))
    bars = [(b.get_x(), b.get_width(), b.get_height()) for b in lower.patches]
    assert bars == [(0.0, 0.5, 4), (0.75, 0.25, 1500)]
    assert {text.get_text() for text in lower.texts} == {"4", "1,500"}
    assert "a$b_{c on test.txt\n1,504 problems, exact match 0.7500" in upper.get_title()
    assert "0.1250" in upper.get_title()


def test_a_heat_map_shows_shares_and_counts_and_leaves_cells_without_problems_blank(
    record_file: Path,
) -> None:
    plus, over, bar = draw_operand_lengths(read_record(record_file)).axes
    shares = plus.images[0].get_array()
    assert np.ma.getmaskarray(shares).tolist() == [[True, False], [False, True]]
    assert (shares[0, 1], shares[1, 0]) == (0.25, 1.0)
    assert {text.get_position(): text.get_text() for text in plus.texts} == {
        (1, 0): "4\n✗3",
        (0, 1): "1,500",
    }
    assert [text.get_text() for text in over.texts] == ["12k\n✗345"]
    assert plus.images[0].get_clim() == over.images[0].get_clim() == (0, 1)
    assert (plus.get_title(), over.get_title()) == ("A + B", "A ÷ B")
    assert (plus.get_xlabel(), plus.get_ylabel()) == ("digits of B", "digits of A")
    assert "exact match" in bar.get_ylabel()


def test_the_command_writes_every_plot(
    run_cli: RunCli, run_file: Path, record_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "pictures"
    ended = run_cli("plot", out, run_file, record_file)
    names = ["mine-curves", "scores-reliability", "scores-lengths", "scores-errors"]
    assert ended.err == ""
    assert ended.out.splitlines() == [f"{out}/{name}.png" for name in names]
    assert {path.name for path in out.iterdir()} == {f"{name}.png" for name in names}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in out.iterdir())
    assert run_cli("plot", out, record_file).code == 0  # again, over the old


def test_a_model_without_steps_has_no_plot_of_first_errors(record_file: Path) -> None:
    record_file.write_text(json.dumps({k: v for k, v in RECORD.items() if k != "first_errors"}))
    assert file_figures(record_file).keys() == {"scores-reliability", "scores-lengths"}


def test_a_real_record_can_be_drawn(
    run_cli: RunCli, tiny_folder: Path, data_folder: Path, tmp_path: Path
) -> None:
    test = data_folder / "test.txt"
    assert run_cli("eval", tiny_folder, "--data", test, "--json", tmp_path / "a.json").code == 0
    assert file_figures(tmp_path / "a.json").keys() == {"a-reliability", "a-lengths"}


def changed(path: str, value: Any) -> str:
    """Returns RECORD as JSON, with one value replaced."""
    record = copy.deepcopy(RECORD)
    *keys, last = path.split(".")
    part: Any = record
    for key in keys:
        part = part[int(key)] if isinstance(part, list) else part[key]
    part[int(last) if isinstance(part, list) else last] = value
    return json.dumps(record)


BIN = "confidence.reliability.bins.0"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.json", "", "is empty"),
        ("a.json", "hello", "not JSON"),
        ("a.json", "[" * 100_000, "not JSON"),
        ("a.json", "[]", "not a record of `eval --json`"),
        ("a.json", '{"n": 5, "exact_match": 1.0}', "Field required"),
        ("a.json", changed("exact_match", 2), "exact_match"),
        ("a.json", changed("exact_match", float("nan")), "NaN is not a JSON number"),
        ("a.json", changed("n", "many"), "n: "),
        ("a.json", changed("checkpoint", "x" * 10_000), "checkpoint"),
        ("a.json", changed("confidence", None), "confidence"),
        ("a.json", changed(f"{BIN}.n", 0), "null where n is 0"),
        ("a.json", changed(f"{BIN}.confidence", None), "null where n is 0"),
        ("a.json", changed(f"{BIN}.accuracy", None), "null where n is 0"),
        ("a.json", changed("confidence.reliability.bins", []), "bins"),
        ("a.json", changed("by_length", {}), "by_length"),
        ("a.json", changed("file", ""), "either file or task"),
        ("a.json", changed("by_length", {"^": RECORD["by_length"]["+"]}), "by_length"),
        ("a.json", changed("by_length.+.n", []), "by_length"),
        ("a.json", changed("by_length.+.n", [[1] * MAX_TABLE] * (MAX_TABLE + 1)), "by_length"),
        ("a.json", changed("by_length.+.n", [[0, 4], [1500]]), "square"),
        ("a.json", changed("by_length.+.right", [[0]]), "square"),
        ("a.json", changed("by_length.+.right", [[1, 4], [0, 0]]), "more right answers"),
        ("a.json", changed("by_length.+.n.0.0", -1), "by_length"),
        ("a.json", changed("first_errors", {"+": {"sign": "two"}}), "first_errors"),
        ("a.txt", json.dumps(RECORD), "neither"),
        ("a.jsonl", "", "is empty"),
        ("a.jsonl", '{"step": 1', "has no training row"),  # one line, cut off
        ("a.jsonl", "hello\n", "line 1: not JSON"),
        ("a.jsonl", '{"step": 1, "val_loss": 1.0}\n', "has no training row"),
        ("a.jsonl", '{"step": 1, "loss": 1.0}\n', "line 1: tokens is missing"),
        ("a.jsonl", '{"step": 1, "lr": 1.0}\n', "either loss or val_loss"),
        ("a.jsonl", '{"tokens": 1, "loss": 1.0}\n', "step"),
        ("a.jsonl", '{"step": 1, "tokens": 1, "loss": NaN}\n', "NaN is not a JSON number"),
        ("a.jsonl", '{"step": 1, "tokens": 1e999, "loss": 1}\n', "tokens"),
        ("a.jsonl", "[]\n", "line 1"),
    ],
)
def test_a_file_that_cannot_be_drawn_is_one_line(
    run_cli: RunCli, tmp_path: Path, name: str, content: str, reason: str
) -> None:
    (tmp_path / name).write_text(content)
    error = run_cli("plot", tmp_path / "out", tmp_path / name).error
    assert name in error
    assert reason in error
    assert not (tmp_path / "out").exists()


def test_two_files_do_not_draw_over_each_other(
    run_cli: RunCli, record_file: Path, tmp_path: Path
) -> None:
    ended = run_cli("plot", tmp_path / "out", record_file, record_file)
    assert "another file gives scores-reliability.png as well" in ended.error
