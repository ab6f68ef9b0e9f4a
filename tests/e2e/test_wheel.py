"""The wheel, installed into an environment of its own and used in another folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import httpx2 as httpx
import pytest

from datagen.dataset import DatasetPlan, generate

pytest.importorskip("hatchling", reason="hatchling builds the wheel")

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 120  # seconds; no command needs as many
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Start:
    """Starts `calcgpt` of the new environment. The dependencies are those of the tests."""
    folder = tmp_path_factory.mktemp("wheel")
    build = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder)
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=LIMIT)
    (wheel,) = folder.glob("calcgpt-*.whl")
    venv.create(folder / "env")
    site = sysconfig.get_path(
        "purelib", "venv", {"base": str(folder / "env"), "platbase": str(folder / "env")}
    )
    Path(site, "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "env/bin/python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index")
    subprocess.run((*pip, wheel), check=True, capture_output=True, timeout=LIMIT)
    elsewhere = folder / "elsewhere"
    (elsewhere / "checkpoints").mkdir(parents=True)  # hides nothing
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }

    def start(*arguments: str | Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            (folder / "env/bin/calcgpt", *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=elsewhere,
            env=environment,
        )

    return start


def test_it_calculates_and_scores(start: Start, tmp_path: Path) -> None:
    calc = start("calc", "12.5*3")
    assert calc.communicate(timeout=LIMIT) == ("37.5\n", "")
    generate(tmp_path, DatasetPlan(train=1, val=1, test=5, seed=0), progress=False)
    score = start("eval", "steps", "--data", tmp_path / "test.txt", "--quiet")
    output, errors = score.communicate(timeout=LIMIT)
    assert (score.returncode, errors) == (0, "")
    assert "1.0000" in output


def test_it_serves(start: Start) -> None:
    server = start("serve", "--port", "0", "--no-others", "--engine", "torch")
    try:
        assert server.stderr
        lines = iter(server.stderr.readline, "")
        address = next(m[0] for line in lines if (m := re.search(r"http://[\d.]+:\d+", line)))
        body = {"expression": "12.5*3"}
        answer = httpx.post(f"{address}/v1/calculate", json=body, timeout=LIMIT).json()
        assert (answer["result"], answer["verified"]) == ("37.5", True)
        assert "CalcGPT" in httpx.get(address, timeout=LIMIT).text
    finally:
        server.terminate()
        server.communicate(timeout=LIMIT)
    assert server.returncode == 0
