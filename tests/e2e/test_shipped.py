"""The shipped checkpoints agree with their recipes and metrics."""

import shlex
from pathlib import Path

import pytest
from commands import RunCli

from calcgpt.base.files import sha256
from calcgpt.checkpoint import Checkpoint, load_metrics
from calcgpt.inference.engines import load_decoder
from calcgpt.registry import best
from calcgpt_lab.data.dataset import DatasetPlan, generate
from calcgpt_lab.data.problems import read_problems
from calcgpt_lab.evaluation.evaluate import evaluate
from calcgpt_lab.recipe import load_recipe

ROOT = Path(__file__).parents[2] / "checkpoints"
N_RESCORED = 500  # of the 10,000
SHIPPED = sorted(file.parent for file in ROOT.glob("*/config.json"))


@pytest.fixture(scope="module")
def test_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The test problems of the data that the checkpoints were scored on: the number of training
    problems does not change them."""
    folder = tmp_path_factory.mktemp("data")
    generate(folder, DatasetPlan(train=1, val=10_000, test=10_000, seed=0), progress=False)
    return folder / "test.txt"


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_one_command_retrains_it(folder: Path) -> None:
    recipe = Checkpoint.load(folder).recipe
    compiled = f"train.compile={str(recipe.train.compile).lower()}"  # changes the speed alone
    assert recipe == load_recipe(folder.name, (compiled,))


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_it_is_small_and_without_training_state(folder: Path) -> None:
    names = {"README.md", "config.json", "metrics.json", "model.safetensors", "tokenizer.json"}
    assert {file.name for file in folder.iterdir()} - {"switches.json"} == names
    assert Checkpoint.load(folder).model.n_parameters() == load_metrics(folder)["parameters"]
    assert load_metrics(folder)["parameters"] <= 10_000_000


def test_the_best_has_the_scores_in_its_metrics(test_file: Path) -> None:
    folder = best(ROOT)
    recorded = load_metrics(folder)["test"]
    assert sha256(test_file) == recorded["file_sha256"]
    checkpoint = Checkpoint.load(folder)
    lines = read_problems(test_file, N_RESCORED)
    _, decoder = load_decoder(checkpoint)
    scores = evaluate(decoder, checkpoint.tokenizer, lines).scores
    # These are some of the problems, and another processor may round differently.
    assert scores.exact_match == pytest.approx(recorded["exact_match"], abs=0.003)
    assert scores.char_accuracy == pytest.approx(recorded["char_accuracy"], abs=0.003)


def test_the_readmes_example_is_what_it_answers(run_cli: RunCli) -> None:
    text = (ROOT.parent / "README.md").read_text("utf-8")
    example = text[text.index(".venv/bin/calcgpt ") :]
    command, output = example.split("```")[0], example.split("```")[2]
    ended = run_cli(*shlex.split(command)[1:])
    # A terminal shows the note on stderr below the answer.
    answer, *evidence = ended.out.splitlines(keepends=True)
    assert ended.code == 0
    assert "".join([answer, ended.err, *evidence]) == output.lstrip("\n")


def test_long_numbers_and_whole_expressions(run_cli: RunCli) -> None:
    answers = {
        "45/55*440": "360",
        "250000*(0.04/12)/(1-1/(1+0.04/12)^36)": "7380.99625171",
        f"{10**300}-{7 * 10**150}": str(10**300 - 7 * 10**150),
        f"{3**120}*{7**100}": str(3**120 * 7**100),
    }
    ended = run_cli("calc", *answers)
    assert (ended.code, ended.out.split()) == (0, [*answers.values()])
