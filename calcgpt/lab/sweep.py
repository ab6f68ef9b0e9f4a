"""A sweep: trains the missing trials of a space, then writes the report.

Search algorithms propose values, schedulers stop trials early. Schedulers count rounds: the
validations of a trial, from 1.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from calcgpt import __version__
from calcgpt.data.sources import training_data
from calcgpt.errors import ConfigError, DataError, TrainingError
from calcgpt.lab.space import Space
from calcgpt.lab.sweep_report import write_report
from calcgpt.lab.trials import ROUND, Resources, SweepFolder, Trial, TrialResult, rank_trials
from calcgpt.training.run_folder import RunFolder
from calcgpt.training.train import Trainer
from datagen.extras import require
from datagen.files import locked
from datagen.ray_cluster import prepare as prepare_ray
from datagen.workers import usable_cores

if TYPE_CHECKING:
    from ray.tune.search import Searcher

Domains = dict[str, Any]  # Ray Tune's, by hyperparameter
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

    trials: list[TrialResult]  # best first
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
    if address is None and resources.cpus > usable_cores():
        raise ConfigError(
            f"a trial needs {resources.cpus} CPUs, and this machine has {usable_cores()}"
        )
    prepare(address)
    from calcgpt.lab.search import run_search  # imports Ray

    algorithm = algorithm_name(space)
    identity = _identity(space, data)
    folder = SweepFolder(out)
    with locked(out, "making a sweep"):
        previous = folder.trials()
        for trial in previous:
            values, drawn = trial.params.values, trial.params.drawn
            if not values.keys() == drawn.keys() == space.space.keys():
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
                make_search(space, previous, seed),
                SCHEDULERS[space.search.scheduler](space),
                address=address,
                progress=progress,
            )
        trials = rank_trials(folder.trials(), space)
        files = write_report(space, trials, out, algorithm)
    if not trials or trials[0].best is None:
        reason = trials[0].reason if trials else ""
        raise TrainingError(f"no trial has a result; the first: {reason or 'it was stopped'}")
    return Outcome(trials, algorithm, files)


def prepare(address: str | None) -> None:
    """Sets the environment variables that Ray reads when it is imported, and imports it.

    Raises UserError if a package is missing, or if there is no Ray at the address.
    """
    require("a sweep", "ray", "optuna", "matplotlib")
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


# Search algorithms. `task` is the metric, its mode, and `points_to_evaluate`, which are proposed
# first.


def optuna(domains: Domains, seed: int, **task: Any) -> Searcher:
    """The tree-structured Parzen estimator (Bergstra et al. 2011) of Optuna.

    The first ten trials are random.
    """
    from optuna.samplers import TPESampler

    return _optuna_search(domains, TPESampler(seed=seed), **task)


def random(domains: Domains, seed: int, **task: Any) -> Searcher:
    """Random search (Bergstra & Bengio 2012)."""
    from optuna.samplers import RandomSampler

    return _optuna_search(domains, RandomSampler(seed=seed), **task)


def _optuna_search(domains: Domains, sampler: Any, **task: Any) -> Searcher:
    import optuna
    from ray.tune.search.optuna import OptunaSearch

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return OptunaSearch(OptunaSearch.convert_search_space(domains), sampler=sampler, **task)


def hyperopt(domains: Domains, seed: int, *, points_to_evaluate: Any, **task: Any) -> Searcher:
    """The tree-structured Parzen estimator of HyperOpt; the first twenty trials are random."""
    require("algorithm 'hyperopt'", "hyperopt")
    from ray.tune.search.hyperopt import HyperOptSearch

    return HyperOptSearch(
        HyperOptSearch.convert_search_space(domains),
        points_to_evaluate=points_to_evaluate or None,
        random_state_seed=seed,
        **task,
    )


def bohb(domains: Domains, seed: int, **task: Any) -> Searcher:
    """The model of BOHB (Falkner et al. 2018): kernel densities over the results at the largest
    budget that has enough of them. Needs hpbandster and ConfigSpace."""
    from ray.tune.search.bohb import TuneBOHB

    np.random.seed(seed)  # hpbandster draws from the global generator
    return TuneBOHB(TuneBOHB.convert_search_space(domains), seed=seed, **task)


ALGORITHMS: dict[str, Callable[..., Searcher]] = {
    "optuna": optuna,
    "random": random,
    "hyperopt": hyperopt,
}


def has_bohb() -> bool:
    """Returns whether the packages that Ray's BOHB needs are installed and work."""
    try:
        import_module("ConfigSpace")
        import_module("hpbandster.optimizers.config_generators.bohb")
    except Exception:  # an old package can raise anything
        return False
    return True


def algorithm_name(space: Space) -> str:
    """Returns the name of the algorithm that proposes values.

    Raises ConfigError if the algorithm and the scheduler do not fit together.
    """
    algorithm = space.search.algorithm
    if space.search.scheduler == "bohb":
        if algorithm is not None:
            raise ConfigError("scheduler 'bohb' has its own search: leave out the algorithm")
        return "bohb" if has_bohb() else "optuna"
    return algorithm or "optuna"


def make_search(space: Space, previous: Sequence[Trial], seed: int) -> Searcher:
    """Returns the space's search algorithm, which proposes the previous trials first, in order."""
    name = algorithm_name(space)
    return (bohb if name == "bohb" else ALGORITHMS[name])(
        {name: axis.domain() for name, axis in space.space.items()},
        seed,
        metric=space.search.metric,
        mode=space.search.mode,
        points_to_evaluate=[dict(trial.params.drawn) for trial in previous],  # may be changed
    )


def search_seed(seed: int, n_previous: int) -> int:
    """Returns the seed of a search that starts with `n_previous` trials.

    It depends on their number, so that a resumed search does not draw the same values again.
    """
    return int(np.random.SeedSequence([seed, n_previous]).generate_state(1)[0] >> 1)


# Schedulers.


def asha(space: Space) -> Any:
    """Asynchronous successive halving (Li et al. 2020)."""
    from ray.tune.schedulers import ASHAScheduler

    return ASHAScheduler(**_halving(space), grace_period=1)


def hyperband(space: Space) -> Any:
    """HyperBand (Li et al. 2018) in the form of BOHB: the largest bracket comes first and is filled
    before it is halved. Ray's other HyperBand halves the trials that happen to run."""
    from ray.tune.schedulers import HyperBandForBOHB

    return HyperBandForBOHB(**_halving(space))


def no_scheduler(space: Space) -> Any:
    """Trains every trial to its end."""
    from ray.tune.schedulers import FIFOScheduler

    return FIFOScheduler()  # type: ignore[no-untyped-call]


def _halving(space: Space) -> dict[str, Any]:
    search = space.search
    objective = {"time_attr": ROUND, "metric": search.metric, "mode": search.mode}
    return {**objective, "max_t": space.rounds, "reduction_factor": search.reduction_factor}


SCHEDULERS: dict[str, Callable[[Space], Any]] = {
    "asha": asha,
    "hyperband": hyperband,
    "bohb": hyperband,
    "none": no_scheduler,
}
