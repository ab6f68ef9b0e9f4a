"""A sweep from its space to its report.

Ray's own way to resume reads pickles, so none of it is used: a restarted sweep proposes the known
trials again, and each tells what its folder holds; see `calcgpt.sweep.trial`.
"""

from __future__ import annotations

import platform
import shutil
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ray import tune

from calcgpt import __version__
from calcgpt.data import training_data
from calcgpt.errors import ConfigError, DataError, TrainingError
from calcgpt.files import locked
from calcgpt.run_folder import RunFolder
from calcgpt.sweep.cluster import Resources, cluster
from calcgpt.sweep.folder import Status, SweepFolder, Trial
from calcgpt.sweep.progress import Progress
from calcgpt.sweep.ranking import Ranked, ranked
from calcgpt.sweep.report import write_report
from calcgpt.sweep.schedulers import SCHEDULERS
from calcgpt.sweep.search import RecordedSearch, algorithm_name, make_search
from calcgpt.sweep.space import Space
from calcgpt.sweep.trial import TrialConfig, run_trial
from calcgpt.train import Trainer

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
    SCHEDULERS[space.search.scheduler]  # raises
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
                # On this machine Ray has just as many CPUs; see `calcgpt.sweep.cluster`.
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
