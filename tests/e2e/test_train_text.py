"""A text, from its file to a trained model."""

from pathlib import Path

from commands import RunCli

TEXT = "To be, or not to be: ÷\r\n" * 5_000


def test_a_model_is_trained_on_a_text(run_cli: RunCli, here: Path) -> None:
    Path("play.txt").write_bytes(TEXT.encode())
    recipe = "--recipe text --set train.steps=2 --set model.n_layer=1 --device cpu"
    ended = run_cli("train", *recipe.split(), "--data", "play.txt", "--out", "run")
    assert ended.code == 0, ended.err
    assert '"val_loss"' in Path("run", "metrics.jsonl").read_text()
    assert ended.out.splitlines()[-3:] == [
        f"calcgpt {c} run" for c in ("generate", "info", "compare")
    ]
    assert run_cli("generate", "run", "--tokens", 5).code == 0
    Path("own.txt").write_text("".join(f"{n}=1\n" for n in range(10)))
    for source in ("--task", "--data"):
        ended = run_cli("eval", "run", source, "own.txt", "--quiet")
        assert ended.error.endswith("step-00000002 predicts text: it has no answers to score")
