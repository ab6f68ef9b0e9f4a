"""An ablation from its suite to its report.

OUT/suite.json       the suite as it was asked for
OUT/data/TASK/       the problems that a task is learnt from
OUT/runs/TASK/VARIANT/seed-N/    a run's folder, with score.json when it is done
OUT/report.json, report.md, plots/
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from calcgpt.ablation.job import Job, read_score
from calcgpt.ablation.pool import run_all
from calcgpt.ablation.report import write_report
from calcgpt.ablation.suite import Suite, Task
from calcgpt.data import DataFolder
from calcgpt.errors import ConfigError, TrainingError
from calcgpt.files import locked
from calcgpt.train import pick_device
from datagen.dataset import generate
from datagen.files import write_json
from datagen.records import MANIFEST


def ablate(
    suite: Suite,
    out: Path,
    *,
    data: Mapping[str, Path] | None = None,
    only: Sequence[str] = (),
    overrides: Sequence[str] = (),
    device: str = "auto",
    n_process: int | None = None,
    threads: int = 1,
    progress: bool = True,
) -> list[Path]:
    """Train and score what is missing in `out`, then write the report; returns its files.

    `data` names folders for tasks in place of their own; `only` keeps the tasks, or TASK/VARIANT
    pairs, that it names; `overrides` change every run. `n_process` jobs run at a time, by default
    one for each GPU, or as many as there are cores for `threads` each. Raises ConfigError where
    `out` holds runs with other settings, and TrainingError, after the report, where jobs failed.
    """
    folders = dict(data or {})
    if unknown := folders.keys() - suite.tasks.keys():
        raise ConfigError(f"no task {min(unknown)!r}; there are: {', '.join(suite.tasks)}")
    pairs = chosen(suite, only)
    devices = _devices(device)

    def job(task: str, variant: str, seed: int) -> Job:
        """One run; its recipe is checked here, before anything starts."""
        recipe = suite.recipe_of(task, variant, seed, overrides)
        folder = out / "runs" / task / variant / f"seed-{seed}"
        return Job(task, variant, seed, recipe, folders[task], folder, suite.score)

    for task in suite.tasks:
        folders.setdefault(task, _folder(suite.tasks[task], task, out))
    todo = [job(*pair, seed) for seed in suite.seeds for pair in pairs]
    with locked(out, "making an ablation"):
        for each in todo:
            each.claim()
        _make_data(suite, {task for task, _ in pairs}, folders, data or {}, progress)
        missing = [each for each in todo if not each.done]
        n_process = min(n_process or _room(devices, threads), max(1, len(missing)))
        failures = run_all(missing, n_process, devices, threads, progress)
        write_json(out / "suite.json", suite.model_dump())
        known = [job(*pair, seed) for pair in suite.pairs() for seed in _seeds(out, *pair)]
        scores = [read_score(each.folder) for each in known if each.claim().done]
        files = write_report(suite, scores, out)
    if failures:
        first = failures[0]
        raise TrainingError(
            f"{len(failures)} of {len(missing)} runs failed; {first.job.name}: {first.reason}"
        )
    return files


def chosen(suite: Suite, only: Sequence[str]) -> list[tuple[str, str]]:
    """The (task, variant) pairs of a suite that `only` names, as TASK or TASK/VARIANT; all where
    it names none. Raises ConfigError for what is not there."""
    pairs = suite.pairs()
    for name in only:
        if not any(name in (task, f"{task}/{variant}") for task, variant in pairs):
            valid = ", ".join([*suite.tasks, *(f"{task}/{variant}" for task, variant in pairs)])
            raise ConfigError(f"nothing is called {name!r}; valid names: {valid}")
    return [pair for pair in pairs if not only or {pair[0], "/".join(pair)} & {*only}]


def _seeds(out: Path, task: str, variant: str) -> list[int]:
    """The seeds that `out` has runs of, of this call or of earlier ones."""
    folders = (out / "runs" / task / variant).glob("seed-*")
    numbers = (folder.name.removeprefix("seed-") for folder in folders)
    return sorted(int(number) for number in numbers if number.isdecimal())


def _folder(task: Task, name: str, out: Path) -> Path:
    """Where a task's data is, or is to be made."""
    return out / "data" / name if task.text is None else Path(task.text)


def _make_data(
    suite: Suite, tasks: set[str], folders: Mapping[str, Path], given: Mapping[str, Path],
    progress: bool,
) -> None:  # fmt: skip
    """Make the problems that nobody has named a folder of; raises UserError for a text that is
    not there."""
    for name in sorted(tasks):
        task = suite.tasks[name]
        if task.problems and name not in given:
            new = progress and not (folders[name] / MANIFEST).exists()
            generate(folders[name], task.problems.plan(), progress=new)
        elif not (folders[name] / "train.txt").is_file():
            raise ConfigError(
                f"task {name!r}: there is no {folders[name] / 'train.txt'}; `calcgpt datagen text` "
                f"makes it, or --data {name}=FOLDER names another"
            )
        DataFolder.load(folders[name])


def _devices(name: str) -> list[str]:
    """The devices that jobs are spread over: every GPU, unless one is named."""
    chosen = pick_device(name)
    if chosen.type == "cuda" and chosen.index is None:
        return [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    return [str(chosen)]


def _room(devices: Sequence[str], threads: int) -> int:
    if devices[0].startswith("cuda"):
        return len(devices)
    return max(1, len(os.sched_getaffinity(0)) // threads)
