"""A model that calcgpt trained answers without calcgpt: with onnxruntime and NumPy."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from commands import RunCli
from forks import PATIENCE

from calcgpt.checkpoint import Checkpoint
from calcgpt.data.problems import read_problems
from calcgpt.inference.generate import generate

pytestmark = pytest.mark.usefixtures("quick_exporter")

ANSWER_STDIN = """
import sys
prompts = json.load(sys.stdin)
assert not {"torch", "calcgpt"} & sys.modules.keys()
print(json.dumps(complete(prompts)))
"""


def export_and_compare(run_cli: RunCli, folder: Path, out: Path, prompts: list[str]) -> None:
    """Exports by the command line, then answers with the code of the export's README."""
    exported = run_cli("export", folder, out, "--to", "onnx")
    checkpoint = Checkpoint.load(folder)
    assert (exported.code, exported.err) == (0, "")
    assert exported.out == f"{out}: {checkpoint.name} as an ONNX graph with a key/value cache\n"

    code = (out / "README.md").read_text().split("```python\n")[1].split("```")[0]
    ended = subprocess.run(
        [sys.executable, "-c", code + ANSWER_STDIN],
        cwd=out,
        input=json.dumps(prompts),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    example, answers = ended.stdout.splitlines()

    def expected(prompts: list[str]) -> list[str]:
        tokenizer = checkpoint.tokenizer
        tokens_BP = torch.tensor([tokenizer.encode(prompt).tolist() for prompt in prompts])
        completions = generate(checkpoint.model, tokens_BP, int(tokenizer.encode("$")[0]))
        return [tokenizer.decode(completion.ids) for completion in completions]

    assert json.loads(answers) == (completions := expected(prompts))
    assert len(set(completions)) > 1  # the model looks at the prompt
    assert example == str(expected(["$(00000012.5*0000000003)="]))


def test_its_readme_answers_as_the_model_does(
    run_cli: RunCli, tiny_folder: Path, data_folder: Path, tmp_path: Path
) -> None:
    prompts = [line.prompt for line in read_problems(data_folder / "test.txt")]
    export_and_compare(run_cli, tiny_folder, tmp_path / "out", prompts)
