"""Jobs in processes beside each other, with one view of them all.

An ablation from its suite to its report.

OUT/suite.json       the suite as it was asked for
OUT/data/TASK/       the problems that a task is learnt from
OUT/runs/TASK/VARIANT/seed-N/    a run's folder, with score.json when it is done
OUT/report.json, report.md, plots/
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from calcgpt.data.sources import DataFolder
from calcgpt.errors import ConfigError, TrainingError, UserError
from calcgpt.lab import job as jobs
from calcgpt.lab.ablation_report import write_report
from calcgpt.lab.job import Job, read_score
from calcgpt.lab.suite import Suite, Task
from calcgpt.training.distributed import Interrupted
from calcgpt.training.train import pick_device
from datagen.dataset import generate
from datagen.files import locked, write_json
from datagen.manifest import MANIFEST

_CONTEXT = get_context("spawn")  # a forked process would inherit torch's threads


@dataclass(frozen=True)
class Failure:
    """A job that did not end as it should."""

    job: Job
    reason: str


@dataclass
class Worker:
    """A process at its job."""

    job: Job
    slot: int
    process: SpawnProcess
    messages: Connection
    failure: str = field(default="it ended without a word (no memory?)")


def run_all(
    todo: Sequence[Job], n_process: int, devices: Sequence[str], threads: int, progress: bool
) -> list[Failure]:
    """Run every job, at most `n_process` at a time, process i on the device i modulo their number.

    Returns those that failed; the others were not stopped by it. On KeyboardInterrupt the processes
    save their state first.
    """
    waiting, running = deque(todo), list[Worker]()
    failures = []
    with View(todo, n_process, progress) as view:
        try:
            while waiting or running:
                while waiting and len(running) < n_process:
                    slot = min(set(range(n_process)) - {worker.slot for worker in running})
                    device = devices[slot % len(devices)]
                    running.append(_start(waiting.popleft(), slot, device, threads))
                for ready in wait([worker.messages for worker in running]):
                    [worker] = [w for w in running if w.messages is ready]
                    message = _receive(worker)
                    if message is not None:
                        view.update(worker, message)
                        continue
                    running.remove(worker)
                    worker.process.join()
                    view.ended(worker)
                    if worker.process.exitcode:
                        failures.append(Failure(worker.job, worker.failure))
        finally:
            _stop(running)
    return failures


def _start(job: Job, slot: int, device: str, threads: int) -> Worker:
    messages, sender = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_work, args=(job, device, threads, sender))
    process.start()
    sender.close()  # the process has its own: when it ends, so do the messages
    return Worker(job, slot, process, messages)


def _receive(worker: Worker) -> dict[str, Any] | None:
    """The next message; None at the end, and after a reason to have failed."""
    try:
        message: dict[str, Any] = worker.messages.recv()
    except EOFError:
        return None
    if "failure" in message:
        worker.failure = message["failure"]
    return message


def _stop(running: Sequence[Worker]) -> None:
    """Let the processes save their state and end."""
    for worker in running:
        worker.process.terminate()
    for worker in running:
        worker.process.join()


def _work(job: Job, device: str, threads: int, sender: Connection) -> None:
    """What a process does: one job."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)

    def tell(message: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):  # nobody is left to listen: we are about to end as well
            sender.send(message)

    try:
        jobs.run(job, device, tell)
    except (Interrupted, KeyboardInterrupt):
        sys.exit(130)
    except UserError as error:
        tell({"failure": str(error)})
        sys.exit(2)
    except OSError as error:
        tell({"failure": f"{error.filename or 'file'}: {error.strerror or error}"})
        sys.exit(2)


def _end_with_parent() -> None:
    """A process whose parent was killed saves its state and ends, as if asked to."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


class View:
    """What a person sees: a bar over all steps and one for each process on a terminal, else a line
    for each job that ends."""

    def __init__(self, todo: Sequence[Job], n_process: int, progress: bool) -> None:
        self._progress = progress
        self._bars = progress and sys.stderr.isatty()
        self._left = len(todo)
        self._seen = {job.name: job.steps_done() for job in todo}
        total = sum(job.recipe.train.steps for job in todo)
        self._all = tqdm(total=total, initial=sum(self._seen.values()), unit="step", position=0,
                         disable=not self._bars, smoothing=0.02)  # fmt: skip
        self._each = [
            tqdm(position=1 + slot, disable=not self._bars, leave=False, unit="step")
            for slot in range(n_process)
        ]
        self._tell()

    def __enter__(self) -> View:
        return self

    def __exit__(self, *error: object) -> None:
        for bar in (*self._each, self._all):
            bar.close()

    def update(self, worker: Worker, message: dict[str, Any]) -> None:
        """A job is at `step`."""
        if "step" not in message:
            return
        step, job, bar = message["step"], worker.job, self._each[worker.slot]
        self._all.update(step - self._seen[job.name])
        self._seen[job.name] = step
        bar.total, bar.n = job.recipe.train.steps, step
        bar.set_description_str(job.name, refresh=False)
        done = "; scoring" if step == bar.total else ""
        bar.set_postfix_str(f"loss {message['loss']:.4f}{done}")

    def ended(self, worker: Worker) -> None:
        """A job's process is gone."""
        self._left -= 1
        self._each[worker.slot].reset()
        self._tell()
        if self._progress:
            how = worker.failure if worker.process.exitcode else "done"
            tqdm.write(f"{worker.job.name}: {how} ({self._left} left)", file=sys.stderr)

    def _tell(self) -> None:
        self._all.set_description_str(f"{self._left} runs left")


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
