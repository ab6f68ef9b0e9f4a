"""An ablation, from its suite to its report: many jobs, several of them at a time.

OUT/suite.json                       the suite of the last call
OUT/data/TASK/                       the problems generated for a task
OUT/runs/TASK/VARIANT/seed-N/        the folder of a run, with score.json once it is done
OUT/report.json, report.md, plots/   the report; see `calcgpt_lab.studies.ablation_report`
"""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from threading import RLock

import torch
from tqdm import tqdm

from calcgpt.base.errors import ConfigError, UserError, file_error
from calcgpt.base.files import locked, write_json
from calcgpt.base.plugins import look_up
from calcgpt.base.processes import end_with_parent, usable_cores
from calcgpt.base.progress import progress_bar
from calcgpt.variants import load_plugin, loaded_plugins
from calcgpt_lab.data.dataset import MANIFEST, generate
from calcgpt_lab.data.sources import DataFolder
from calcgpt_lab.model.devices import pick_device
from calcgpt_lab.plots import check_matplotlib
from calcgpt_lab.records import TrainingError
from calcgpt_lab.studies.ablation_report import write_report
from calcgpt_lab.studies.estimate import say_estimate, step_seconds
from calcgpt_lab.studies.job import Job
from calcgpt_lab.studies.suite import Suite
from calcgpt_lab.training.stopping import Interrupted

# How a job ends, if not with an error.
DONE, INTERRUPTED = "done", "interrupted"
DIED = "its process died (out of memory?)"
# The processes of the jobs are forked from a server that has imported what they need, which saves
# seconds for each. Forked from this process, they would inherit torch's threads.
_SERVER = get_context("forkserver")
_SERVER.set_forkserver_preload(["calcgpt_lab.studies.job"])


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
    """Trains and scores the runs that are missing in `out`, writes the report, returns its files.

    `data` maps tasks to folders that replace their own data. `only` selects tasks or TASK/VARIANT
    pairs. `overrides` change every run. `n_process` jobs run at a time; the default is one for each
    GPU or, on the CPU, one for each `threads` cores.
    Raises UserError if matplotlib is missing, and ConfigError if `out` holds runs with other
    settings or on other data, both before any run. Raises TrainingError if jobs failed, after the
    other jobs are trained and reported.
    """
    check_matplotlib()
    folders = dict(data or {})
    for name in folders:
        look_up(suite.tasks, name, "task")
    for name, task in suite.tasks.items():
        folders.setdefault(name, out / "data" / name if task.text is None else Path(task.text))
    pairs, devices = suite.pairs(only), _devices(device)

    def new_job(task: str, variant: str, seed: int) -> Job:
        recipe = suite.recipe_of(task, variant, seed, overrides)
        folder = out / "runs" / task / variant / f"seed-{seed}"
        return Job(task, variant, seed, recipe, folders[task], folder, suite.score)

    def jobs_in_out() -> list[Job]:  # also of earlier calls
        return [new_job(*pair, seed) for pair in suite.pairs() for seed in _seeds(out, *pair)]

    jobs = [new_job(*pair, seed) for seed in suite.seeds for pair in pairs]
    with locked(out, "making an ablation"):
        for job in [*jobs_in_out(), *jobs]:
            job.check_recipe()
        # Tasks whose data must exist already come first.
        names = sorted({task for task, _ in pairs})
        for name in sorted(names, key=lambda name: suite.tasks[name].problems is not None):
            loaded = _prepare_data(suite, name, folders[name], name not in (data or {}), progress)
            for job in jobs_in_out():
                if job.task == name:
                    job.check_data(loaded)
        missing = [job for job in jobs if job.score() is None]
        if n_process is None and devices[0].startswith("cuda"):
            n_process = len(devices)
        at_a_time = n_process or max(1, usable_cores() // threads)
        failures = run_jobs(missing, at_a_time, devices, threads, progress)
        write_json(out / "suite.json", suite.model_dump())
        scores = [score for job in jobs_in_out() if (score := job.score())]
        files = write_report(suite, scores, out)
    if failures:
        name, reason = next(iter(failures.items()))
        raise TrainingError(f"{len(failures)} of {len(missing)} runs failed; {name}: {reason}")
    return files


def _say_estimate(jobs: Sequence[Job], n_process: int, device: torch.device, threads: int) -> None:
    """Says how long the jobs will take, by the first steps of the first job of each task. Says
    nothing if one of these cannot be trained: that is an error of its job."""
    firsts = {job.task: job for job in reversed(jobs)}
    with suppress(UserError):
        seconds = {
            task: step_seconds(job.recipe, DataFolder.load(job.data), device, threads)
            for task, job in firsts.items()
        }
        say_estimate(
            "runs", [seconds[job.task] * job.recipe.train.steps for job in jobs], n_process
        )


def _seeds(out: Path, task: str, variant: str) -> list[int]:
    """Returns the seeds of a variant's runs in `out`."""
    folders = (out / "runs" / task / variant).glob("seed-*")
    numbers = (folder.name.removeprefix("seed-") for folder in folders)
    return sorted(int(number) for number in numbers if number.isdecimal())


def _prepare_data(
    suite: Suite, name: str, folder: Path, is_default: bool, progress: bool
) -> DataFolder:
    """Returns the data of a task, after generating its own problems. Raises UserError."""
    problems = suite.tasks[name].problems
    if problems and is_default:
        is_new = not (folder / MANIFEST).exists()
        generate(folder, problems, progress=progress and is_new)
    elif not folder.exists():
        raise ConfigError(f"task {name!r}: there is no {folder}; --data {name}=PATH names another")
    return DataFolder.load(folder)


def _devices(name: str) -> list[str]:
    """Returns the devices to spread the jobs over: every GPU unless `name` is one device."""
    device = pick_device(name)
    if device.type == "cuda" and device.index is None:
        return [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    return [str(device)]


def run_jobs(
    jobs: Sequence[Job], n_process: int, devices: Sequence[str], threads: int, progress: bool
) -> dict[str, str]:
    """Runs the jobs, each in a process of its own, `n_process` at a time; returns the names of
    those that failed, with reasons.

    If a job fails or is killed, the others continue. On KeyboardInterrupt, the running jobs save
    their state first. Process i uses device i, modulo the number of devices.
    """
    if progress and jobs:
        _say_estimate(jobs, n_process, torch.device(devices[0]), threads)
    outcomes: dict[str, str] = {}
    waiting, slots = list(reversed(jobs)), list(reversed(range(n_process)))
    running: dict[Connection, tuple[Job, int, ForkServerProcess]] = {}
    with progress_bar(len(jobs), progress and sys.stderr.isatty(), unit="run") as bar:
        try:
            while waiting or running:
                while waiting and slots:
                    job, slot = waiting.pop(), slots.pop()
                    receiver, sender = _SERVER.Pipe(duplex=False)
                    arguments = (
                        job,
                        devices[slot % len(devices)],
                        threads,
                        sender,
                        loaded_plugins(),
                    )
                    process = _SERVER.Process(target=_run_in_process, args=arguments)
                    running[receiver] = job, slot, process
                    process.start()
                    sender.close()  # the process has its own
                ended = wait(list(running))
                for receiver in [receiver for receiver in running if receiver in ended]:
                    job, slot, process = running[receiver]
                    outcomes[job.name] = DIED
                    with receiver, suppress(EOFError, OSError):
                        outcomes[job.name] = receiver.recv()
                    process.join()
                    del running[receiver]
                    slots.append(slot)
                    bar.update()
                    if progress:
                        n_left = f"({len(jobs) - len(outcomes)} left)"
                        tqdm.write(f"{job.name}: {outcomes[job.name]} {n_left}", file=sys.stderr)
        except BaseException:
            started = [process for *_, process in running.values() if process.pid]
            for process in started:
                process.terminate()
            for process in started:
                process.join()
            raise
    return {name: outcome for name, outcome in outcomes.items() if outcome != DONE}


def _run_in_process(
    job: Job, device: str, threads: int, sender: Connection, plugins: Sequence[Path]
) -> None:
    """Runs a job in this process, and sends how it ends."""
    end_with_parent()
    tqdm.set_lock(RLock())  # its default is a semaphore, which a killed process would leak
    torch.set_num_threads(threads)
    try:
        for path in plugins:
            load_plugin(path)
        job.run(device)
        outcome = DONE
    except (Interrupted, KeyboardInterrupt):
        outcome = INTERRUPTED
    except UserError as error:
        outcome = str(error)
    except OSError as error:
        outcome = file_error(error)
    with suppress(BrokenPipeError):  # the parent was killed
        sender.send(outcome)
