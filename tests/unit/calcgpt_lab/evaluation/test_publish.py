"""`calcgpt publish`: a checkpoint with its scores."""

from pathlib import Path

import pytest
from commands import RunCli

from calcgpt.base.files import sha256
from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import CheckpointError
from calcgpt.metrics import Scores
from calcgpt_lab.evaluation.report import publish
from calcgpt_lab.saving import score_cells


def test_publishing_scores_validation_and_test_and_drops_the_training_state(
    tiny: Checkpoint, data_folder: Path, tmp_path: Path
) -> None:
    before = dict(tiny.metrics)
    publish(tiny, data_folder, tmp_path / "mine", progress=False)
    published = Checkpoint.load(tmp_path / "mine")
    assert published.name == "mine"
    for split, file, temperature in (
        ("validation", "val.txt", 0.0),
        ("test", "test.txt", 0.0),
        ("test_sampled", "test.txt", 1.0),
    ):
        record = published.metrics[split]
        assert (record["file"], record["temperature"], record["n"]) == (file, temperature, 40)
        assert record["file_sha256"] == sha256(data_folder / file)
        assert {"reliability", "no_error_above"} == record["confidence"].keys()
    assert "also" not in published.metrics
    assert published.metrics["parameters"] == tiny.model.n_parameters()
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {
        "README.md",
        "config.json",
        "metrics.json",
        "model.safetensors",
        "tokenizer.json",
    }
    assert tiny.metrics == before


def test_a_task_can_be_published(run_cli: RunCli, tiny_folder: Path, tmp_path: Path) -> None:
    task = tmp_path / "sums.txt"
    task.write_text("".join(f"{a}+{b}={a + b}\n" for a in range(8) for b in range(8)))
    ended = run_cli("publish", tiny_folder, tmp_path / "mine", "--task", task, "--quiet")
    assert ended.code == 0
    assert ended.err == f"{tiny_folder.name} was not trained on the data of {task}\n"
    published = Checkpoint.load(tmp_path / "mine")
    scored = {key: published.metrics[key] for key in ("validation", "test", "test_sampled")}
    assert [(row["split"], row["n"]) for row in scored.values()] == [
        ("val", 6),
        ("test", 6),
        ("test", 6),
    ]
    card = (tmp_path / "mine" / "README.md").read_text()
    assert "| exact match |\n" in card  # no column of an operation
    assert "calcgpt calc" not in card


def test_publishing_scores_further_files_under_their_names(
    run_cli: RunCli, tiny: Checkpoint, tiny_folder: Path, data_folder: Path, tmp_path: Path
) -> None:
    lines = "$(0000000782+0000000021)=3080000000$\n$(0000000471/0000000299)=85.1000000$\n"
    (tmp_path / "two.txt").write_text(lines)
    out = tmp_path / "mine"
    also = ["--also", f"two={tmp_path}/two.txt", "--also", f"val={data_folder}/val.txt"]
    ended = run_cli("publish", tiny_folder, out, "--data", data_folder, "--quiet", *also)
    assert (ended.code, ended.err) == (0, "")
    metrics = Checkpoint.load(out).metrics
    assert list(metrics["also"]) == ["two", "val"]
    assert metrics["also"]["two"]["by_operation"].keys() == {"+", "/"}
    assert metrics["also"]["val"] == metrics["validation"]
    cells = score_cells("two, greedy", Scores.model_validate(metrics["also"]["two"]))
    assert f"| {' | '.join(cells)} |" in (out / "README.md").read_text().splitlines()
    # The same again, without: what is not scored is not in the file.
    publish(Checkpoint.load(out), data_folder, out, force=True, progress=False)
    assert "also" not in Checkpoint.load(out).metrics


def test_publishing_over_a_checkpoint_needs_force(
    tiny: Checkpoint, data_folder: Path, tiny_copy: Path
) -> None:
    with pytest.raises(CheckpointError, match="--force replaces it"):
        publish(tiny, data_folder, tiny_copy, progress=False)
    assert "test" not in Checkpoint.load(tiny_copy).metrics
    publish(tiny, data_folder, tiny_copy, force=True, progress=False)
    assert Checkpoint.load(tiny_copy).metrics["test"]["n"] == 40
