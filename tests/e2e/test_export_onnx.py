"""A model that calcgpt trained answers without calcgpt: with onnxruntime and NumPy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from calcgpt.checkpoint import Checkpoint, resolve
from calcgpt.data.problems import read_problems
from calcgpt.inference.generate import generate
from datagen.dataset import DatasetPlan
from datagen.dataset import generate as generate_data

SHIPPED = Path(__file__).parents[2] / "checkpoints"
ALSO = """
import sys
prompts = json.load(sys.stdin)
assert not {"torch", "calcgpt"} & sys.modules.keys()
print(json.dumps(complete(prompts)))
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "data"
    generate_data(folder, DatasetPlan(train=500, val=20, test=100, seed=0), progress=False)
    return folder


def process(*command: str | Path, cwd: Path, stdin: str = "") -> str:
    """What a Python process prints, which says nothing on stderr."""
    ended = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=cwd, input=stdin, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def export_and_compare(folder: Path, data: Path, tmp_path: Path) -> None:
    """Export by the command line, then answer 100 problems with the code of the export's README."""
    said = process("-m", "calcgpt", "export", folder, "out", "--to", "onnx", cwd=tmp_path)
    checkpoint = Checkpoint.load(folder)
    assert said == f"out: {checkpoint.name} as an ONNX graph with a key/value cache\n"
    assert [file.name for file in tmp_path.iterdir()] == ["out"]

    prompts = [line.prompt for line in read_problems(data / "test.txt")]
    out, tokenizer = tmp_path / "out", checkpoint.tokenizer
    code = (out / "README.md").read_text().split("```python\n")[1].split("```")[0]
    shown, answers = process("-c", code + ALSO, cwd=out, stdin=json.dumps(prompts)).splitlines()

    def ours(prompts: list[str]) -> list[str]:
        tokens_BP = torch.tensor([tokenizer.encode(prompt).tolist() for prompt in prompts])
        written = generate(checkpoint.model, tokens_BP, int(tokenizer.encode("$")[0]))
        return [tokenizer.decode(completion.ids) for completion in written]

    assert json.loads(answers) == ours(prompts)
    assert len(set(ours(prompts))) > 1  # so that the prompt was looked at
    assert shown == str(ours(["$(00000012.5*0000000003)="]))


def test_a_model_that_was_just_trained(data: Path, tmp_path: Path) -> None:
    work, run = tmp_path / "work", tmp_path / "run"
    work.mkdir()
    train = ["train", "--recipe", "nano", "--data", str(data), "--out", str(run), "--quiet"]
    process("-m", "calcgpt", *train, "--set", "train.steps=60", cwd=tmp_path)
    export_and_compare(resolve(str(run)), data, work)


def test_the_model_that_works_in_steps(data: Path, tmp_path: Path) -> None:
    export_and_compare(SHIPPED / "steps", data, tmp_path)
