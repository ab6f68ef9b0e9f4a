"""Ray, on this machine or on a cluster, for as long as a sweep runs.

What a person sees of a sweep that runs: one line. And what is kept of how trials ended.

A sweep from its space to its report.

Ray's own way to resume reads pickles, so none of it is used: a restarted sweep proposes the known
trials again, and each tells what its folder holds; see `calcgpt.lab.trials`.
"""

from __future__ import annotations

import logging
import os
import platform
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

import numpy as np
import torch
from ray import tune
from ray.tune import Callback
from tqdm import tqdm

from calcgpt import __version__
from calcgpt.data.sources import training_data
from calcgpt.errors import ConfigError, DataError, TrainingError, UserError, look_up
from calcgpt.lab.search import SCHEDULERS, RecordedSearch, algorithm_name, make_search
from calcgpt.lab.space import Space
from calcgpt.lab.sweep_report import write_report
from calcgpt.lab.trials import Ranked, Status, SweepFolder, Trial, TrialConfig, ranked, run_trial
from calcgpt.training.environment import usable_cores
from calcgpt.training.run_folder import RunFolder
from calcgpt.training.train import Trainer
from datagen.files import locked
from datagen.ray_cluster import connected
from datagen.ray_cluster import prepare as prepare_ray

OBJECT_STORE = 100 * 2**20  # bytes; what trials tell is small
QUIET = {
    "RAY_AIR_NEW_OUTPUT": "0",  # the newer one prints even where it is told to be silent
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # a run's folder has its metrics
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Ctrl-C ends the sweep: nothing is lost
    "TUNE_FUNCTION_THREAD_TIMEOUT_S": "60",  # for a stopped trial to close its files
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
}


@dataclass(frozen=True)
class Resources:
    """What a trial may use, and how many there may be at a time."""

    cpus: int = 1
    gpus: float = 0.0
    concurrent: int | None = None  # None: as many as there is room for

    def __str__(self) -> str:
        return f"{self.cpus} CPUs and {self.gpus:g} GPUs"


def prepare(address: str | None) -> None:
    """Set what Ray reads when it is imported, and import it; raises UserError where a package is
    missing, or no Ray at the address."""
    for package in ("optuna", "matplotlib"):
        if find_spec(package) is None:
            raise UserError(f"a sweep needs {package}: pip install 'calcgpt[ray,lab]'")
    os.environ.update(QUIET)
    prepare_ray(address)


@contextmanager
def cluster(resources: Resources, address: str | None) -> Iterator[None]:
    """Ray is there meanwhile: the cluster at `address`, or one of this machine alone that others
    cannot reach, with room for `resources.concurrent` trials.

    `prepare` comes before. Raises ConfigError where no trial would ever find room, and UserError
    where there is no cluster; and, within, KeyboardInterrupt for SIGTERM too.
    """
    for name in ("ray", "ray.tune", "ray.data"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    room = resources.concurrent or max(1, usable_cores() // resources.cpus)
    small = {"object_store_memory": OBJECT_STORE}
    with connected(address, room * resources.cpus, local=small) as ray, _interruptible():
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(
            machine.get("CPU", 0) >= resources.cpus and machine.get("GPU", 0) >= resources.gpus
            for machine in machines
        ):
            raise ConfigError(f"no machine has {resources} for a trial")
        yield


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt, as SIGINT does; its number is the argument."""
    received: list[int] = []

    def interrupt(signum: int, frame: FrameType | None) -> NoReturn:
        received.append(signum)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)  # Ray's own way would end in an abort
    try:
        yield
    except KeyboardInterrupt:  # Ray raises it anew, without what it held
        raise KeyboardInterrupt(*received) from None


class Progress(Callback):
    """Told by Ray Tune, on the machine of the command, what happens to trials."""

    def __init__(self, space: Space, folder: SweepFolder, show: bool) -> None:
        self._space, self._folder = space, folder
        self._best: tuple[float, str] | None = None
        self._bar = tqdm(total=space.search.trials, unit="trial", disable=not show)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._bar.close()

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Show the best so far."""
        search = self._space.search
        value = float(result[search.metric])
        better = min if search.mode == "min" else max
        if self._best is None or better(value, self._best[0]) != self._best[0]:
            self._best = (value, _trial(trial).name)
        running = sum(other.status == "RUNNING" for other in trials)
        best, name = self._best
        self._bar.set_postfix_str(f"{running} running, best {search.metric} {best:.4f} ({name})")

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Ray is done with a trial: it ended by itself, or the scheduler ended it."""
        ours = _trial(trial)
        if ours.ending.status is Status.RUNNING:
            steps = max((row["step"] for row in ours.validations()), default=0)
            whole = steps >= self._space.max_steps
            ours.end(Status.COMPLETED if whole else Status.STOPPED)
        self._bar.update()

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Ray has given up on a trial."""
        ours = _trial(trial)
        if not ours.ending.status.final:
            ours.end(Status.FAILED, _last_line(trial.error_file))
        self._bar.update()


def _trial(trial: Any) -> Trial:
    """Ours for Ray's."""
    return Trial.load(Path(trial.config["folder"]))


def _last_line(file: str | None) -> str:
    """Of what Ray wrote about an error."""
    try:
        lines = Path(file or "").read_text("utf-8", errors="replace").split("\n")
    except OSError:
        return "unknown"
    return next((line for line in reversed(lines) if line.strip()), "unknown")


RETRIES = 3  # of a trial whose worker or machine died
PACKAGES = ("torch", "ray", "optuna", "hyperopt", "hpbandster", "ConfigSpace")


@dataclass(frozen=True)
class Outcome:
    """What a sweep came to."""

    trials: list[Ranked]  # best first
    algorithm: str  # what proposed them
    files: list[Path]


def sweep(
    space: Space,
    out: Path,
    data: Path | None,
    resources: Resources,
    *,
    address: str | None = None,
    progress: bool = True,
) -> Outcome:
    """Train the trials of a space that are missing in `out`, then write the report.

    Raises ConfigError where `out` holds another sweep, UserError for what is wrong before anything
    runs, and TrainingError, after the report, where no trial came to a result.
    """
    folder = SweepFolder(out)
    search = algorithm_name(space)
    look_up(SCHEDULERS, space.search.scheduler, "scheduler")
    what = _checked(space, data)
    with locked(out, "making a sweep"):
        known = folder.trials()
        _check_known(known, space)
        seed = _seed(space.search.seed, len(known))
        start = {"known_trials": len(known), "search": search, "search_seed": seed,
                 "versions": _versions()}  # fmt: skip
        folder.begin(what, start)
        wanted = known[: space.search.trials]
        if len(wanted) < space.search.trials or not all(t.ending.status.final for t in wanted):
            with cluster(resources, address):
                _fit(space, folder, known, data, resources, seed, address is None, progress)
            shutil.rmtree(folder.ray, ignore_errors=True)
        trials = ranked(folder.trials(), space)
        files = write_report(space, trials, out, search)
    if not trials or trials[0].best is None:
        reason = trials[0].reason if trials else ""
        raise TrainingError(f"no trial came to a result; the first: {reason or 'it was stopped'}")
    return Outcome(trials, search, files)


def _fit(
    space: Space, folder: SweepFolder, known: list[Trial], data: Path | None,
    resources: Resources, seed: int, here: bool, progress: bool,
) -> None:  # fmt: skip
    """Have Ray Tune train the trials."""
    search, scheduler = space.search, SCHEDULERS[space.search.scheduler]
    for trial in known:
        if trial.ending.status is Status.FAILED:
            trial.reopen()

    def config_of(trial: Trial) -> dict[str, Any]:
        return {
            **TrialConfig(
                folder=str(trial.path.resolve()),
                recipe=space.trial_recipe(trial.params.values).model_dump(),
                data=str(data.resolve()) if data else None,
                metric=search.metric,
                grace_steps=search.grace_steps,
                threads=resources.cpus,
                device="auto" if resources.gpus else "cpu",
            )
        }

    shutil.rmtree(folder.ray, ignore_errors=True)
    with Progress(space, folder, show=progress) as reporter:
        tune.Tuner(
            tune.with_resources(run_trial, {"cpu": resources.cpus, "gpu": resources.gpus}),
            tune_config=tune.TuneConfig(
                search_alg=RecordedSearch(
                    make_search(space, known, seed), space, folder, known, config_of
                ),
                scheduler=scheduler.make(space),
                num_samples=search.trials,
                # On this machine Ray has just as many CPUs; see `calcgpt.lab.sweep`.
                max_concurrent_trials=None if here else resources.concurrent,
                # The process of a paused trial would hold its folder while it does another.
                reuse_actors=not scheduler.pauses,
                trial_name_creator=lambda trial: str(trial.trial_id),
                trial_dirname_creator=lambda trial: str(trial.trial_id),
            ),
            run_config=tune.RunConfig(
                name="tune",
                storage_path=str(folder.ray.resolve()),
                failure_config=tune.FailureConfig(max_failures=RETRIES),
                callbacks=[reporter],
                verbose=0,
            ),
        ).fit()


def _seed(seed: int, known: int) -> int:
    """Of a search that begins with `known` trials. It must not draw again what an earlier one drew
    from the same seed."""
    return int(np.random.SeedSequence([seed, known]).generate_state(1)[0] >> 1)


def _checked(space: Space, data: Path | None) -> dict[str, Any]:
    """What the folder is to hold on to, as JSON. Raises UserError where the data is not there, or
    no trial could be trained on it, or it does not have the metric."""
    recipe = space.trial_recipe({name: axis.examples()[0] for name, axis in space.space.items()})
    source = training_data(recipe, data)
    problems = recipe.train.eval_problems and source.validation_problems(1)
    if space.search.metric != "val_loss" and not problems:
        raise ConfigError(
            f"metric {space.search.metric!r} needs problems to be answered: the data holds none, "
            f"or train.eval_problems is 0; 'val_loss' always works"
        )
    Trainer(recipe, source, RunFolder(Path()), torch.device("cpu"))  # raises; writes nothing
    dumped = space.model_dump()
    for may_change in ("description", "recipe"):
        del dumped[may_change]
    dumped["search"]["max_steps"] = space.max_steps
    del dumped["search"]["trials"]
    return {**dumped, "recipe": space.base().model_dump(), "data_sha256": source.fingerprint}


def _check_known(known: list[Trial], space: Space) -> None:
    for trial in known:
        if trial.params.drawn.keys() != space.space.keys():
            raise DataError(f"{trial.path / 'params.json'} is not of this sweep")


def _versions() -> dict[str, str]:
    versions = {"calcgpt": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
