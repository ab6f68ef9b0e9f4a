"""`calcgpt datagen`: its default, and a text from its file to a trained model."""

import json
from pathlib import Path

from commands import RunCli

from calcgpt.base.files import sha256

TEXT = "To be, or not to be: ÷\r\n".encode() * 5_000


def test_problems_is_the_default_subcommand(run_cli: RunCli, here: Path) -> None:
    sizes = ("--train", 30, "--val", 5, "--test", 5, "--quiet")
    for command in (
        ("out", *sizes),
        (*sizes, "before"),
        ("problems", "named", *sizes),
        ("./text", *sizes),
    ):
        ended = run_cli("datagen", *map(str, command))
        assert ended.code == 0, ended.err
        assert ended.out.endswith(": 30 training, 5 validation and 5 test problems\n")
    manifests = [path.read_bytes() for path in here.glob("*/manifest.json")]
    assert len(manifests) == 4
    assert len(set(manifests)) == 1
    assert run_cli("datagen").err == "error: Missing argument 'OUT'.\n"
    assert run_cli("datagen", "text").err == "error: Missing option '--source'.\n"


def test_help_shows_the_options_of_the_default(run_cli: RunCli) -> None:
    assert "--train" in run_cli("datagen", "-h").out
    assert "--val-share" in run_cli("datagen", "text", "--help").out


def test_a_model_is_trained_on_it(run_cli: RunCli, here: Path) -> None:
    Path("play.txt").write_bytes(TEXT)
    ended = run_cli("datagen", "text", "--source", "play.txt")
    assert ended.code == 0, ended.err
    assert f"SHA-256 of the source: {sha256(Path('play.txt'))}\n" in ended.out
    recipe = "--recipe text --set train.steps=2 --set model.n_layer=1 --device cpu"
    ended = run_cli("train", *recipe.split(), "--data", "data/play", "--out", "run", "--quiet")
    assert ended.code == 0, ended.err
    assert '"val_loss"' in Path("run", "metrics.jsonl").read_text()
    scores = ("eval", "run", "--data", "data/play/val.txt", "--json", "scores.json", "--quiet")
    ended = run_cli(*scores, "--device", "cpu")
    assert (ended.code, ended.err) == (0, "")
    record = json.loads(Path("scores.json").read_text())
    assert record["file_sha256"] == sha256(Path("data/play/val.txt"))
    for option in ("--seed=0", "--engine=torch", "--errors=1"):
        ended = run_cli(*scores, option)
        assert "predicts text: use no other options than --data, --json, --device" in ended.error
    Path("own.txt").write_text("".join(f"{n}=1\n" for n in range(10)))
    ended = run_cli("eval", "run", "--task", "own.txt", "--quiet")
    assert ended.error.endswith("step-00000002 predicts text: it has no answers to score")
