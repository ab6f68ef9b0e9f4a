"""The command `calcgpt sweep` before Ray starts."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forks import PATIENCE
from sweeps import SPACE, new_trial

from datagen.extras import install_line
from datagen.workers import usable_cores


@pytest.mark.parametrize("modules", [("ray",), ("optuna",), ("torch", "ray", "matplotlib")])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    run_cli: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    modules: tuple[str, ...],
) -> None:
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)  # importing it raises
    names = " and ".join(modules).replace(" and ", ", ", len(modules) - 2)
    message = f"a sweep needs {names}: {install_line(*modules)}"
    outcome = run_cli("sweep", "nano", "--out", tmp_path / "out")
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"error: {message}\n")
    assert not (tmp_path / "out").exists()


def test_ray_is_not_imported_before_its_settings_are_made() -> None:
    code = "import sys, calcgpt.lab.sweep; assert 'ray' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


needs_ray = pytest.mark.usefixtures("ray_and_optuna")


@pytest.fixture
def ray_and_optuna() -> None:
    pytest.importorskip("ray.tune", reason="Ray is not installed: the extra `ray` installs it")
    pytest.importorskip("optuna")


@needs_ray
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "--data names a folder to train on"),
        (["--data", "nowhere"], "cannot read nowhere/train.txt"),
        (  # a trial may use all cores
            ["--data", "nowhere", "--cpus-per-trial", str(usable_cores())],
            "cannot read nowhere/train.txt",
        ),
        (["--cpus-per-trial", "4096"], "a trial needs 4096 CPUs, and this machine has"),
    ],
)
def test_what_is_missing_is_reported_in_one_line(
    run_cli: Callable[..., Any], tmp_path: Path, flags: list[str], message: str
) -> None:
    outcome = run_cli("sweep", "nano", "--out", tmp_path / "out", *flags)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@needs_ray
def test_a_score_needs_problems(
    run_cli: Callable[..., Any], recipe_file: Callable[[str], str], tmp_path: Path
) -> None:
    for name in ("train.txt", "val.txt"):
        (tmp_path / name).write_text("To be, or not to be, that is the question. " * 20)
    text = SPACE.replace("trials", 'metric = "val_exact_match"\ntrials')
    text = text.replace(
        "[search]", '[fixed]\ntokenizer = "chars"\n[fixed.train]\nbatches = "stream"\n[search]'
    )
    outcome = run_cli("sweep", recipe_file(text), "--out", tmp_path / "out", "--data", tmp_path)
    assert outcome.code == 2
    assert "'val_exact_match' needs problems" in outcome.err


@needs_ray
def test_a_trial_without_its_values_is_refused(
    run_cli: Callable[..., Any],
    recipe_file: Callable[[str], str],
    data_folder: Path,
    tmp_path: Path,
) -> None:
    file = new_trial(tmp_path, 0).path / "params.json"
    file.write_text('{"values": {}, "drawn": {"train.lr": 1e-3, "train.schedule": 0}}')
    flags = ("--out", tmp_path, "--data", data_folder)
    outcome = run_cli("sweep", recipe_file(SPACE), *flags)
    assert outcome.code == 2
    assert outcome.err == f"error: {file} does not belong to this sweep\n"


@needs_ray
def test_a_sweep_may_go_on_with_more_trials_and_with_nothing_else_changed(
    run_cli: Callable[..., Any],
    recipe_file: Callable[[str], str],
    data_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("calcgpt.lab.search.run_search", lambda *args, **options: None)
    flags = ("--out", tmp_path / "out", "--data", data_folder)
    for text, message in {
        SPACE: "no trial has a result",
        SPACE.replace("trials = 3", "trials = 5"): "no trial has a result",
        SPACE.replace("max_steps = 40", "max_steps = 80"): "holds another sweep",
    }.items():
        assert message in run_cli("sweep", recipe_file(text), *flags).err
