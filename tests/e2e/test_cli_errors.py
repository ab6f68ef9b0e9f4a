"""What is wrong with a command is said in one line: of its words, its files, the machine."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from commands import RunCli

from calcgpt.base import files
from calcgpt.base.extras import install_line
from calcgpt.checkpoint import Checkpoint
from calcgpt_lab.saving import save

TRAIN = ["train", "--quiet", "--recipe", "nano", "--data", "{data}", "--out", "run"]
EVAL = ["eval", "{tiny}", "--data", "{data}", "--engine", "torch", "--quiet"]
SWEEP = ["sweep", "nano", "--data", "{data}", "--out", "x", "--address"]
PUBLISH = ["{tiny}", "out", "--data", "{data}", "--quiet"]
ABLATE = ["ablate", "--suite", "nano", "--out", "x"]
SHAKESPEARE = "there is no data/tinyshakespeare.txt; --data tinyshakespeare=PATH"


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["nosuch"], "nosuch"),
        (["train", "--data", "data", "--out", "run"], "--recipe"),
        (["eval", "{tiny}", "--data", "absent.txt"], "absent.txt"),
        (["eval", "{tiny}", "--data", "{tiny}"], "is a folder without test.txt: name a file in it"),
        (["eval", "{tiny}", "--data", "{tiny}/README.md"], "README.md, line 1"),
        (["eval", "absent", "--data", "{data}/test.txt"], "no checkpoint 'absent'"),
        (["eval", "{tiny}", "--data", "{data}/test.txt", "--n", "0"], "--n"),
        (["eval", "{tiny}", "--data", "{data}/test.txt", "--temperature", "-1"], "--temperature"),
        (["eval", "{tiny}", "--data", "{data}/test.txt", "--device", "tpu"], "device 'tpu'"),
        ([*EVAL, "--engine", "cases", "--device", "mps"], "--device mps is for --engine torch"),
        (["generate", "{tiny}"], "needs a --prompt: it was not trained on lines of text"),
        (["datagen", "{tiny}/config.json"], "is a file, and a folder is needed"),
        (["publish", "absent", "out", "--data", "{data}"], "no checkpoint 'absent'"),
        (["publish", "{tiny}", "out", "--data", "absent"], "absent/val.txt"),
        (["publish", "{tiny}", "out", "--data", "{data}/test.txt"], "is a file: name its folder"),
        (["recipes", "blogg"], "did you mean 'blog'"),
        (["recipes", "absent.toml"], "cannot read recipe absent.toml"),
        (["calc", "12.5*3", "--checkpoint", "."], "'.' is a folder, but holds no checkpoint and"),
        (["calc", "1+1", "--chekpoint", "{tiny}"], "No such option '--chekpoint'"),
        (["calc", "1", "-1"], "'1 -1' may be one expression or several"),
        (["inspect", "{tiny}", "1+2+3"], "give exactly one operation"),
        (["datagen", "out", "--train", "0"], "datagen: train: Input should be greater"),
        (["datagen", "out", "--places", "31"], "places: Input should be less than or equal to 30"),
        (["datagen", "out", "--distribution", "everday"], "did you mean 'everyday'?"),
        (["datagen", "out", "--format", "scratch"], "did you mean 'scratchpad'?"),
        (["calc", "1+1", "--engine", "case"], "did you mean 'cases'?"),
        (["info", "--recipe", "blog", "--set", "model.preset=lama"], "did you mean 'llama'?"),
        (["eval", "{tiny}"], "give either --data or --task"),
        (["eval", "{tiny}", "--data", "x", "--task", "y"], "use only one of --data and --task"),
        (["eval", "{tiny}", "--task", "absent.txt"], "cannot read absent.txt"),
        (["eval", "{tiny}", "--data", "{data}/test.txt", "--split", "val"], "--split is for"),
        (["calc", "1+1", "--min-confidence", "nan"], "nan is not a finite number"),
        (["sweep", "nano", "--out", "x", "--gpus-per-trial", "nan"], "nan is not a finite number"),
        (["generate", "{tiny}", "--temperature", "inf"], "inf is not a finite number"),
        (["ablate", "--suite", "nano", "--out", "x", "--threads", "1025"], "1<=x<=1024"),
        (["train", "--recipe", "nano", "--out", "x", "--threads", "1025"], "1<=x<=1024"),
        (["info", "{tiny}", "--set", "model.n_layer=2"], "--set is for --recipe"),
        (["export", "absent", "x", "--to", "example", "--also", "direct"], "--also is for --to"),
        (["export", "absent", "x", "--to", "gguf", "--address", "https://a"], "--address is for"),
        (["export", "absent", "x", "--to", "web", "--address", "a.b"], "'a.b' is not the address"),
        (["calc", "1+1", "--checkpoint", ""], "'--checkpoint': the name is empty"),
        (["info", ""], "the name is empty"),
        (["datagen", ""], "the name is empty"),
        (["recipes", ""], "the name is empty"),
        (["eval", "absent", "--data", "x", "--json", "."], ". is a folder, and a file is needed"),
        (["eval", "absent", "--data", "x", "--scored", ".."], ".. is a folder"),
        (["eval", "absent", "--data", "x", "--json", "a/b"], "a is not a folder: cannot write b"),
        (["eval", "absent", "--data", "x", "--json", "y", "--scored", "./y"], "both name y"),
        (["eval", "absent", "--data", "x", "--json", "/dev/stdout"], "no checkpoint 'absent'"),
        (["publish", "absent", "{tiny}/README.md/a/b", "--data", "x"], "README.md is a file"),
        (["export", "absent", "{tiny}/README.md", "--to", "hf"], "README.md is a file"),
        (["compare", "absent", "--out", "{tiny}/README.md"], "README.md is a file, and a folder"),
        (["inspect", "absent", "1+1", "--out", "{tiny}/README.md"], "README.md is a file"),
        (["sweep", "absent", "--out", "{tiny}/README.md"], "README.md is a file, and a folder"),
        ([*TRAIN, "--set", "model.n_layer"], "section.field=value"),
        (
            [*TRAIN, "--set", "model.norm=none"],
            "unknown norm 'none'; valid names: layernorm, rmsnorm",
        ),
        ([*TRAIN, "--device", "tpu"], "device 'tpu'"),
        ([*TRAIN, "--data", "absent"], "cannot read absent: No such file"),
        ([*TRAIN, "--data", __file__], "; for plain text: --set tokenizer=chars"),
        ([*TRAIN, "--threads", "0"], "--threads"),
        ([*TRAIN, "--resume", "--force"], "use only one of them"),
        ([*TRAIN, "--set", "model.block_size=20"], "does not fit in 20"),
        ([*TRAIN, "--out", "{data}"], "is the folder of the data: --out must be"),
        ([*TRAIN, "--recipe", "calculator"], "has no worked steps: `calcgpt datagen --format"),
        ([*TRAIN, "--recipe", "task", "--task", "own.txt"], "use only one of --data and --task"),
        ([*EVAL, "--workers", "2", "--temperature", "1"], "at temperature 0"),
        (["datagen", "out", "--workers", "0"], "workers must be an integer from 1 to 256, not 0"),
        ([*SWEEP, "127.0.0.1:1"], "no Ray at 127.0.0.1:1: "),
        ([*SWEEP, "ray://127.0.0.1:1"], "Connection refused"),
        ([*SWEEP, "a.invalid:6379"], "no Ray at a.invalid:6379"),
        ([*SWEEP, "127.0.0.1:many"], "no Ray at 127.0.0.1:many"),
        (["publish", *PUBLISH, "--also", "two"], "'two' is not of the form NAME=FILE"),
        (["publish", *PUBLISH, "--also", "a|b=two.txt"], "NAME=FILE"),
        (["publish", *PUBLISH, "--also", "a=x", "--also", "a=y"], "'a' is given twice"),
        (["publish", *PUBLISH, "--also", "absent=absent.txt"], "cannot read absent.txt"),
        (["info"], "give either CHECKPOINT or --recipe"),
        (
            ["inspect", "{tiny}", "12.5&3"],
            "'&' is not an operation; valid are + - * / ^ (position 4)",
        ),
        (["inspect", "{tiny}", "1+1", "--n", "0"], "--n"),
        (["inspect", "{tiny}"], "EXPRESSION"),
        (["compare", "absent"], "absent is not a folder"),
        (["compare", "{tiny}"], "tiny is not the folder of a run: it has no metrics.jsonl"),
        (["ablate", "--suite", "nowhere", "--out", "x"], "unknown suite 'nowhere'; valid names: "),
        (["ablate", "--suite", "blog", "--out", "x", "--only", "tinyshakespeare"], SHAKESPEARE),
        ([*ABLATE, "--only", "x"], "unknown task or variant 'x'"),
        ([*ABLATE, "--data", "x=y"], "unknown task 'x'; valid names: arithmetic"),
        ([*ABLATE, "--data", "arithmetic=y"], "there is no y; --data arithmetic=PATH"),
        ([*ABLATE, "--set", "model.colour=1"], "unknown field 'model.colour'"),
        ([*ABLATE, "--set", "train.seed=1"], "train.seed is the suite's: use --seed"),
        ([*ABLATE, "--device", "tpu"], "device 'tpu' cannot be used"),
        (["sweep", "nano", "--out", "x"], "--data names a folder to train on"),
        (["sweep", "nano", "--out", "x", "--data", "nowhere"], "cannot read nowhere: No such file"),
        (["sweep", "nano", "--out", "x", "--cpus-per-trial", "4096"], "a trial needs 4096 CPUs"),
        (["sweep", "blok", "--out", "x"], "did you mean 'blog'?"),
        (["export", "{tiny}", "x", "--to", "pdf"], "unknown export target 'pdf'; valid names: "),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, list) else "",
)
def test_what_a_person_gets_wrong_is_one_line_and_exit_code_2(
    run_cli: RunCli, tiny_folder: Path, data_folder: Path, here: Path, args: list[str], reason: str
) -> None:
    assert reason in run_cli(*(a.format(tiny=tiny_folder, data=data_folder) for a in args)).error
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    ("args", "libraries", "what"),
    [
        (TRAIN, ["torch"], "training"),
        ([*TRAIN, "--wandb"], ["wandb"], "training"),
        (
            [*TRAIN, "--recipe", "text", "--set", "tokenizer=bpe"],
            ["tokenizers"],
            "a byte-pair tokenizer",
        ),
        (["eval", "{tiny}", "--data", "{data}", "--engine", "torch"], ["torch"], "engine 'torch'"),
        (["inspect", "{tiny}", "1+1"], ["matplotlib"], "a look inside a model"),
        (["compare", "{tiny}", "--out", "out"], ["matplotlib"], "drawing"),
        (ABLATE, ["torch", "matplotlib"], "an ablation"),
        (["sweep", "nano", "--out", "x"], ["ray"], "a sweep"),
        (["sweep", "nano", "--out", "x"], ["torch", "optuna"], "a sweep"),
        (["export", "{tiny}", "out", "--to", "hf"], ["transformers"], "export to hf"),
        (["export", "{tiny}", "out", "--to", "gguf"], ["gguf"], "export to gguf"),
        (
            ["calc", "1+1", "--checkpoint", "{tiny}", "--engine", "torch"],
            ["torch"],
            "engine 'torch'",
        ),
        (["mcp"], ["mcp"], "`calcgpt mcp`"),
    ],
    ids=lambda value: "-".join(value[:1]) if isinstance(value, list) else "",
)
def test_a_library_that_is_missing_is_named_with_the_command_that_installs_it(
    run_cli: RunCli,
    tiny_folder: Path,
    data_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    libraries: list[str],
    what: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for library in libraries:
        monkeypatch.setitem(sys.modules, library, None)  # importing it raises
    monkeypatch.delitem(sys.modules, "calcgpt_lab.model.stored", raising=False)
    outcome = run_cli(*(arg.format(tiny=tiny_folder, data=data_folder) for arg in args))
    names = " and ".join(filter(None, (", ".join(libraries[:-1]), libraries[-1])))
    line = f"error: {what} needs {names}: {install_line(*libraries)}\n"
    assert outcome == (2, "", line)
    assert list(tmp_path.iterdir()) == []


def test_a_library_of_every_installation_that_is_missing_is_named(
    run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "flint", None)
    line = f"error: flint is not installed: {install_line('flint')}\n"
    assert run_cli("calc", "sqrt(2)") == (2, "", line)
    assert "calcgpt[" not in line  # no extra has it


@pytest.mark.parametrize(
    "args",
    [
        ["train", "--recipe", "{pipe}.toml", "--out", "run"],
        ["train", "--recipe", "nano", "--data", "{pipe}", "--out", "run"],
        ["train", "--recipe", "task", "--task", "{pipe}", "--out", "run"],
        ["calc", "1+1", "--plugin", "{pipe}"],
        ["eval", "{tiny}", "--data", "{pipe}"],
        ["calc", "1+1", "--checkpoint", "{pipe}"],
        ["sweep", "{pipe}.toml", "--out", "out"],
    ],
    ids=lambda args: "-".join(args[:3]),
)
def test_a_pipe_to_which_nothing_writes_is_one_line(
    run_cli: RunCli, tiny_folder: Path, here: Path, args: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "WRITER_SECONDS", 0.1)
    for suffix in ("", ".toml"):
        os.mkfifo(f"pipe{suffix}")
    assert run_cli(*(arg.format(tiny=tiny_folder, pipe="pipe") for arg in args)).error


def test_a_file_of_code_needs_no_suffix(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("VALUE = 1")
    outcome = run_cli("calc", "1+1", "--plugin", tmp_path / "mine")
    assert "adds no variant to a table" in outcome.error


def test_the_file_of_a_task_is_for_its_own_option(
    run_cli: RunCli, tiny: Checkpoint, tmp_path: Path
) -> None:
    train = tiny.recipe.train.model_copy(update={"batches": "problems"})
    of_task = tiny.recipe.model_copy(update={"tokenizer": "chars", "train": train})
    save(replace(tiny, recipe=of_task), tmp_path / "model")
    (tmp_path / "own.txt").write_text("abc=cba\n")
    outcome = run_cli("eval", tmp_path / "model", "--data", tmp_path / "own.txt", "--quiet")
    assert outcome.error.endswith("; for the file of a task, use --task")


def test_a_character_that_a_model_does_not_know_is_named_with_the_file(
    run_cli: RunCli, tiny_folder: Path, data_folder: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own.txt"
    own.write_text("".join(f"{'x' * n}=y\n" for n in range(1, 11)))
    outcome = run_cli("eval", tiny_folder, "--task", own, "--split", "all", "--quiet")
    assert outcome.code == 2
    assert outcome.err.endswith(f"error: {own}: tiny does not know the character 'x'\n")
    train = ("train", "--recipe", "task", "--task", own, "--out", tmp_path / "run", "--quiet")
    sets = ("model.n_layer=1", "train.steps=1", "train.warmup_steps=0")
    outcome = run_cli(*train, *(f"--set={field}" for field in sets), "--device", "cpu")
    assert outcome.code == 0, outcome.err
    outcome = run_cli("eval", tmp_path / "run", "--data", data_folder, "--quiet")
    assert outcome.error.startswith(f"{data_folder / 'test.txt'}: ")
    assert outcome.error.endswith("step-00000001 does not know the character '('")
    for typed, error in {
        ("(",): "not in the vocabulary",
        ("x", "--places=2"): "no other opt",
    }.items():
        assert error in run_cli("calc", "--checkpoint", tmp_path / "run", *typed).error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_too_little_memory_is_one_line(
    monkeypatch: pytest.MonkeyPatch, run_cli: RunCli, error: Exception
) -> None:
    def fail(name: str) -> None:
        raise error

    monkeypatch.setattr("calcgpt_lab.recipe.load_recipe", fail)
    assert run_cli("recipes").error.startswith("not enough memory: ")
