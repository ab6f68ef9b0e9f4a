"""The commands of docs/guide/, docs/VARIANTS.md and the course work as they are written."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import pytest
from commands import RunCli
from forks import RAY, TRAINING, run
from ray_cluster import RayCluster
from serving import server
from waiting import PATIENCE

GUIDE = Path(__file__).parents[2] / "docs" / "guide"
PAGES = [
    *sorted(GUIDE.glob("*.md")),
    GUIDE.parent / "VARIANTS.md",
    GUIDE.parent / "course/README.md",
]
# Fewer steps and problems than on the pages: what stands on the left is replaced. A model that has
# learned nothing writes to the end of its context.
FEW = (
    "--set train.steps=20 --set train.eval_interval=20 --set train.eval_batches=2"
    " --set train.eval_problems=5 --set train.checkpoint_interval=10"
)
SHORT = {
    "--recipe nano": f"--recipe nano {FEW}",
    "--recipe text": f"--recipe text {FEW}",
    "--recipe task": "--recipe task --set train.steps=3 --set model.n_embd=16"
    " --set model.block_size=20",
    "--recipe adder": "--recipe adder --set train.steps=3 --set train.eval_batches=1"
    " --set train.eval_problems=5 --set model.block_size=144",
    "--suite blog": f"--suite blog --only tinyshakespeare/gqa --seed 42 {FEW}",
    "--suite positions": f"--suite positions --only tinyshakespeare/shaw --seed 42 {FEW}",
    "--suite presets": f"--suite presets --only tinyshakespeare/llama --seed 42 {FEW}",
    "datagen data/blog": "datagen data/blog --train 500 --val 50 --test 50",
    "sweep blog": "sweep nano --trials 2",
    "--suite nano": "--suite nano --set train.steps=10 --set train.eval_problems=0",
    "seeds = [1, 2]": "seeds = [1]",
    "--trials 3": "--trials 2",
    "--test 4000": "--test 40",
    "--test 500": "--test 50",
    "train.steps=220": "train.steps=22",
    "--train 20000 --val 500": "--train 2000 --val 50",
}


def commands(page: Path) -> Iterator[str]:
    """The commands in the page's sh blocks, here-documents and continued lines included."""
    for block in re.findall(r"```sh\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL):
        lines = iter(block.replace("\\\n", " ").splitlines())
        for line in lines:
            if heredoc := re.search(r"<<'(\w+)'", line):
                body = iter(lines.__next__, heredoc[1])
                line = "\n".join([line, *body, heredoc[1]])
            yield line


def shortened(line: str) -> str:
    for long, short in SHORT.items():
        line = line.replace(long, short)
    return line


def arguments(line: str) -> list[str]:
    """The arguments of a command, as a shell would pass them."""
    words = []
    for word in shlex.split(line)[1:]:
        matches = sorted(str(path) for path in Path().glob(word)) if "*" in word else []
        words += matches or [word]
    return words


def run_shell(line: str) -> None:
    """Runs any other command in bash, with this environment's programs first on the path."""
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", line], capture_output=True, text=True)
    assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert "Traceback" not in done.stderr


def check_page(words: list[str]) -> None:
    """Serves the model of a `serve --checkpoint RUN`: the page is there, and offers it first."""
    _, _, run_folder = words
    with server(run_folder) as running:
        page = httpx.get(running.address, timeout=PATIENCE)
        models = httpx.get(f"{running.address}/v1/models", timeout=PATIENCE).json()["data"]
    assert "<title>CalcGPT" in page.text
    assert models[0]["id"].startswith(f"{Path(run_folder).name}-step-")


def run_on_ray(line: str, cluster: RayCluster) -> None:
    """Runs a command that would start Ray. It uses a Ray that its process is connected to."""
    program = f"""
from calcgpt.cli import cli
from calcgpt_lab.studies.ray_cluster import connected
with connected({cluster.address!r}, 2):
    cli.main(args={arguments(line)})
"""
    command = [sys.executable, "-c", program]
    done = run(command, TRAINING + RAY, env=cluster.environment)
    assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("forget")  # the plug-in of docs/VARIANTS.md
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_the_page_works(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    run_cli: RunCli,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    Path("data").mkdir()
    Path("data/tinyshakespeare.txt").write_text("To be, or not to be.\n" * 2000, "utf-8")
    lines = [shortened(line) for line in commands(page)]
    assert any(line.startswith("calcgpt ") for line in lines)
    for line in lines:
        if line.startswith("calcgpt sweep "):
            run_on_ray(line, request.getfixturevalue("ray_cluster"))
        elif line.startswith("calcgpt serve "):
            check_page(arguments(line))
        elif line.startswith("calcgpt "):
            outcome = run_cli(*arguments(line))  # in this process, which has imported torch
            wrong = outcome.err.startswith(("wrong: ", "no answer: "))
            mistaken = line.startswith("calcgpt calc ") and wrong
            assert outcome.code == int(mistaken), f"{line}\n{outcome.err}"
        else:
            run_shell(line)
