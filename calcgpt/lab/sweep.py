"""A sweep: trains the missing trials of a space, then writes the report."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from calcgpt import __version__
from calcgpt.data.sources import training_data
from calcgpt.errors import ConfigError, DataError, TrainingError, UserError
from calcgpt.lab.space import Space
from calcgpt.lab.sweep_report import write_report
from calcgpt.lab.trials import Ranked, Resources, SweepFolder, ranked
from calcgpt.training.run_folder import RunFolder
from calcgpt.training.train import Trainer
from datagen.files import locked
from datagen.ray_cluster import prepare as prepare_ray

RAY_SETTINGS = {
    "RAY_AIR_NEW_OUTPUT": "0",  # the new output prints even if verbose is 0
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # a run's folder has its metrics
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Ctrl-C ends the sweep: nothing is lost
    "TUNE_FUNCTION_THREAD_TIMEOUT_S": "60",  # for a stopped trial to close its files
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
}
PACKAGES = ("torch", "ray", "optuna", "hyperopt", "hpbandster", "ConfigSpace")


@dataclass(frozen=True)
class Outcome:
    """The result of a sweep."""

    trials: list[Ranked]  # best first
    algorithm: str  # that proposed them
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
    """Trains the trials of a space that are missing in `out`, then writes the report.

    Raises ConfigError if `out` holds another sweep, UserError for anything that is wrong before a
    trial starts, and TrainingError, after the report, if no trial has a result.
    """
    prepare(address)
    from calcgpt.lab.search import algorithm_name, search_seed  # imports Ray
    from calcgpt.lab.tune import run_search

    algorithm = algorithm_name(space)
    identity = _identity(space, data)
    folder = SweepFolder(out)
    with locked(out, "making a sweep"):
        previous = folder.trials()
        for trial in previous:
            if trial.params.drawn.keys() != space.space.keys():
                raise DataError(f"{trial.path / 'params.json'} does not belong to this sweep")
        seed = search_seed(space.search.seed, len(previous))
        start = {
            "known_trials": len(previous),
            "search": algorithm,
            "search_seed": seed,
            "versions": _versions(),
        }
        folder.begin(identity, start)
        requested = previous[: space.search.trials]
        finished = all(trial.ending.status.final for trial in requested)
        if len(requested) < space.search.trials or not finished:
            run_search(
                space,
                folder,
                previous,
                data,
                resources,
                address=address,
                seed=seed,
                progress=progress,
            )
        trials = ranked(folder.trials(), space)
        files = write_report(space, trials, out, algorithm)
    if not trials or trials[0].best is None:
        reason = trials[0].reason if trials else ""
        raise TrainingError(f"no trial has a result; the first: {reason or 'it was stopped'}")
    return Outcome(trials, algorithm, files)


def prepare(address: str | None) -> None:
    """Sets the environment variables that Ray reads when it is imported, and imports it.

    Raises UserError if a package is missing, or if there is no Ray at the address.
    """
    for package in ("optuna", "matplotlib"):
        if find_spec(package) is None:
            raise UserError(f"a sweep needs {package}: pip install 'calcgpt[ray,lab]'")
    os.environ.update(RAY_SETTINGS)
    prepare_ray(address)


def _identity(space: Space, data: Path | None) -> dict[str, Any]:
    """Returns what must stay the same when the sweep is resumed, as JSON.

    Raises UserError if the data is missing, does not fit the recipe, or does not have the metric.
    """
    recipe = space.trial_recipe({name: axis.examples()[0] for name, axis in space.space.items()})
    source = training_data(recipe, data)
    problems = recipe.train.eval_problems and source.validation_problems(1)
    if space.search.metric != "val_loss" and not problems:
        raise ConfigError(
            f"metric {space.search.metric!r} needs problems to answer: the data has none, or "
            f"train.eval_problems is 0; 'val_loss' always works"
        )
    Trainer(recipe, source, RunFolder(Path()), torch.device("cpu"))  # checks; writes nothing
    identity = space.model_dump(exclude={"description": True, "search": {"trials"}})
    identity["search"]["max_steps"] = space.max_steps
    identity["recipe"] = space.base_recipe().model_dump()
    return {**identity, "data_sha256": source.fingerprint}


def _versions() -> dict[str, str]:
    versions = {"calcgpt": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
