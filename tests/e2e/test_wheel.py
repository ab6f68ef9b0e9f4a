"""The wheel, installed into an environment without torch and used in another folder."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from collections.abc import Callable
from importlib.metadata import Distribution, distribution
from pathlib import Path

import httpx2 as httpx
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from waiting import PATIENCE as LIMIT

from calcgpt import __version__
from calcgpt.base.extras import EXTRAS
from calcgpt_lab.data.dataset import DatasetPlan, generate

pytest.importorskip("hatchling", reason="hatchling builds the wheel")

ROOT = Path(__file__).resolve().parents[2]
Start = Callable[..., "subprocess.Popen[str]"]


def core() -> list[Distribution]:
    """Returns the distributions that `pip install calcgpt` installs beside it: its dependencies,
    their dependencies, and so on."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    pending = [("", line) for line in project["dependencies"]]  # an extra and a requirement
    distributions: dict[str, Distribution] = {}
    seen = set()
    while pending:
        extra, line = pending.pop()
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        distributions[name] = distribution(name)
        for new_extra in {"", *requirement.extras} - {e for n, e in seen if n == name}:
            seen.add((name, new_extra))
            pending += [(new_extra, line) for line in distributions[name].requires or ()]
    return list(distributions.values())


def copied_into_the_image() -> set[str]:
    """Returns the files and folders from which deploy/Dockerfile builds the wheel."""
    dockerfile, context = (
        (ROOT / name).read_text("utf-8") for name in ("deploy/Dockerfile", ".dockerignore")
    )
    copied = " ".join(re.findall(r"^COPY (?!--)(.+) \S+$", dockerfile, flags=re.MULTILINE)).split()
    return {*copied} & {*re.findall(r"^!([^/\n]+)$", context, flags=re.MULTILINE)}


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Start:
    """Starts `calcgpt` of a new environment, which has nothing but what the package needs."""
    folder = tmp_path_factory.mktemp("wheel")
    (folder / "src").mkdir()
    for name in copied_into_the_image():
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / "src" / name)
    build = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", folder)
    subprocess.run(build, cwd=folder / "src", check=True, capture_output=True, timeout=LIMIT)
    (wheel,) = folder.glob("calcgpt-*.whl")
    venv.create(folder / "env")
    base = {"base": str(folder / "env"), "platbase": str(folder / "env")}
    site = Path(sysconfig.get_path("purelib", "venv", base))
    for installed in core():
        for top in {file.parts[0] for file in installed.files or ()} - {".."}:
            if not (site / top).exists():
                (site / top).symlink_to(installed.locate_file(top))
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


def test_all_that_it_needs_takes_less_than_200_mb() -> None:
    files = {Path(file.locate()) for installed in core() for file in installed.files or ()}
    sizes = {str(file): file.stat().st_size for file in files if file.exists()}
    assert sum(sizes.values()) < 200e6, sorted(sizes, key=sizes.__getitem__)[-10:]
    assert not {installed.name for installed in core()} & {"ray", "torch", "transformers"}


def test_it_calculates_and_scores(start: Start, tmp_path: Path) -> None:
    calc = start("calc", "12.5*3")
    assert calc.communicate(timeout=LIMIT) == ("37.5\n", "")
    generate(tmp_path, DatasetPlan(train=1, val=1, test=5, seed=0), progress=False)
    score = start("eval", "calculator", "--data", tmp_path / "test.txt", "--quiet")
    output, errors = score.communicate(timeout=LIMIT)
    assert (score.returncode, errors) == (0, "")
    assert "1.0000" in output


def test_it_describes_a_model_without_formulas(start: Start) -> None:
    info = start("info", "direct")
    output, errors = info.communicate(timeout=LIMIT)
    assert (info.returncode, errors) == (0, "")
    assert re.search(r"^all .* 1,189,248$", output, re.MULTILINE)
    assert "The formulas need sympy: uv pip install" in output


@pytest.mark.parametrize(
    ("target", "what"),
    [("web", "a page that calculates by itself"), ("example", "which the page plays")],
)
def test_it_makes_a_page(start: Start, target: str, what: str) -> None:
    export = start("export", "calculator", target, "--to", target)  # a relative path
    output, errors = export.communicate(timeout=LIMIT)
    assert (export.returncode, errors) == (0, "")
    assert what in output


def test_it_serves(start: Start) -> None:
    server = start("serve", "--port", "0", "--no-others")
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


@pytest.mark.parametrize(
    ("arguments", "what", "libraries"),
    [
        (("train", "--recipe", "nano", "--out", "run", "--wandb"), "training", ("torch", "wandb")),
        (("mcp",), "`calcgpt mcp`", ("mcp",)),
    ],
)
def test_what_needs_more_says_the_line_that_installs_it(
    start: Start, arguments: tuple[str, ...], what: str, libraries: tuple[str, ...]
) -> None:
    command = start(*arguments)
    output, errors = command.communicate(timeout=LIMIT)
    extras = ",".join(sorted(EXTRAS[library] for library in libraries))
    python = Path(command.args[0]).parent / "python"  # type: ignore[index, arg-type]
    [constraints] = python.parents[1].glob("lib/python*/site-packages/calcgpt/constraints.txt")
    options = f"--python {python} -c {constraints}"
    line = f"uv pip install {options} 'calcgpt[{extras}]'"  # it was made without pip
    assert (command.returncode, output) == (2, "")
    assert errors == f"error: {what} needs {' and '.join(libraries)}: {line}\n"


def test_the_version_and_the_addresses_stand_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\n## {__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    hosts = {address.split("/")[2] for address in project["urls"].values()}
    texts = ("md", "toml", "cff", "yml", "json", "txt")
    files = [file for suffix in texts for file in ROOT.glob(f"*.{suffix}")]
    files += [*ROOT.glob("docs/**/*.md"), *ROOT.glob("calcgpt*/**/*.py")]
    for file in files:
        text = file.read_text("utf-8")
        assert file.name == "pyproject.toml" or not any(host in text for host in hosts), file


def test_each_library_is_in_the_extra_that_is_named() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {
        extra: {canonicalize_name(Requirement(line).name) for line in lines}
        for extra, lines in project["optional-dependencies"].items()
    }
    assert all(name in names[EXTRAS[name]] for name in EXTRAS)
