"""The commands, from data to an answer, and what they say when something is wrong."""

import json
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commands import RunCli, run_apart

from calcgpt.base.files import sha256
from calcgpt.checkpoint import Checkpoint, load_metrics
from calcgpt.inference.calculator import Calculator

NOT_NEEDED = [  # to train
    "fastapi",
    "starlette",
    "uvicorn",
    "pydantic_settings",
    "torch._dynamo",  # takes as long to import as torch
]


def test_the_whole_path_from_data_to_an_answer(here: Path, run_cli: RunCli) -> None:

    def calcgpt(*args: str | int | Path) -> str:
        """Returns the output of `calcgpt ARGS...`, which must succeed."""
        code, out, err = run_cli(*args)
        assert code == 0 or (args[0], code) == ("calc", 1), err  # its answer may be wrong
        assert "Traceback" not in err
        return str(out)

    calcgpt("datagen", "data", "--train", 500, "--val", 100, "--test", 60, "--quiet")
    manifest = here / "data" / "manifest.json"

    steps = ["--set", "train.steps=20", "--set", "train.checkpoint_interval=10"]
    train = ["train", "--recipe", "nano", "--data", "data", "--out", "run"]
    complete, _, *following = calcgpt(*train, *steps, "--seed", 7).splitlines()
    assert complete.endswith("step-00000020")
    for command in following:
        arguments = shlex.split(command)[1:]
        calcgpt(*arguments, *(["--show-config"] if arguments[0] == "serve" else []))
    assert len(following) == 3
    trained = load_metrics(here / "run" / "step-00000020")
    assert (trained["validation"]["n"], trained["trained"]["seed"]) == (100, 7)

    evaluate = ["eval", "run", "--data", "data/test.txt", "--quiet"]
    output = calcgpt(*evaluate, "--json", "scores.json", "--errors", 3)
    assert "greedy decoding" in output
    record = json.loads((here / "scores.json").read_text())
    assert record["n"] == 60 == sum(group["n"] for group in record["by_operation"].values())
    for part in (record, *record["by_operation"].values()):
        assert {"n", "char_accuracy", "exact_match"} <= part.keys()
    assert record["manifest_sha256"] == sha256(manifest)
    assert f"{record['exact_match']:.4f}" in output
    # Twenty steps teach nothing: three wrong answers follow the header.
    assert len(output.partition("problem ")[2].splitlines()) == 4

    sampled = calcgpt(*evaluate, "--temperature", 1, "--n", 5)
    assert "sampled at temperature 1" in sampled
    _, out, err = run_cli(*evaluate, "--n", 61)
    said, few = err.splitlines()
    assert out.startswith(said.replace("run: the best checkpoint is ", "run-"))
    assert few == "there are only 60 problems, not 61"

    calcgpt("publish", "run", "checkpoints/mine", "--data", "data", "--quiet")
    metrics = load_metrics(here / "checkpoints" / "mine")
    assert {"validation", "test", "test_sampled"} <= metrics.keys()
    assert metrics["test"]["manifest_sha256"] == sha256(manifest)

    # The only checkpoint under checkpoints/ is the best one.
    answered = calcgpt("calc", "12.5*3", "--checkpoint", "checkpoints")
    published = Calculator(Checkpoint.load(here / "checkpoints" / "mine")).calculate("12.5*3")
    assert answered == (f"{published.result}\n" if published.result else "")


def test_a_warm_up_that_never_ends_is_noted(
    run_cli: RunCli, data_folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sets = [f"--set=train.{field}" for field in ("steps=2", "warmup_steps=2", "eval_problems=0")]
    small = ["--recipe", "nano", "--set", "model.n_layer=1", "--quiet", "--device", "cpu"]
    run_cli("train", *small, *sets, "--data", data_folder, "--out", tmp_path / "run")
    assert "train.warmup_steps (2) is not below train.steps (2)" in caplog.text


def test_a_full_disk_says_what_is_kept_and_which_command_goes_on(
    run_cli: RunCli, data_folder: Path, here: Path
) -> None:
    """A limit on the size of files stands for the disk."""
    train = ["train", "--recipe", "nano", "--data", data_folder, "--out", "run", "--quiet"]
    train += ["--set", "train.schedule=constant", "--set", "train.eval_problems=0"]
    assert run_cli(*train, "--set", "train.steps=21").code == 0
    longer = [*train, "--set", "train.steps=22", "--resume"]
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, unlimited[1]))
    try:
        said, _, command = run_cli(*longer).error.partition(": calcgpt ")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    kept = "File too large; step-00000021 is kept"
    assert said == f"run: {kept}; free at least 1 MB, and --resume continues"
    assert run_cli(*shlex.split(command)).out.endswith("step-00000022\n")


def test_an_interrupted_command_ends_with_code_130(
    monkeypatch: pytest.MonkeyPatch, run_cli: RunCli
) -> None:
    def interrupt(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("calcgpt_lab.recipe.load_recipe", interrupt)
    assert run_cli("recipes") == (130, "", "\ninterrupted\n")


def test_training_imports_only_what_it_needs(data_folder: Path, tmp_path: Path) -> None:
    program = f"""
import sys
for name in {NOT_NEEDED}:
    sys.modules[name] = None  # importing it raises
from pathlib import Path
from calcgpt_lab.recipe import load_recipe
from calcgpt_lab.training.train import train
recipe = load_recipe("nano", ("train.steps=2", "model.n_layer=1"))
train(recipe, Path(sys.argv[1]), Path(sys.argv[2]), device="cpu", progress=False)
"""
    out = tmp_path / "run"
    ended = subprocess.run(
        [sys.executable, "-c", program, data_folder, out], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    assert Checkpoint.load(out / "step-00000002").metrics["step"] == 2


def test_scoring_takes_the_fastest_engine_by_itself(tiny_folder: Path, data_folder: Path) -> None:
    for folder, engine in (("calculator", "cases"), (tiny_folder, "torch")):
        _, imported = run_apart("eval", folder, "--data", data_folder, "--n", "5")
        assert ("torch" in imported) == (engine == "torch")
