"""Search algorithms, which propose values, and schedulers, which stop trials early.

Importing this module imports Ray, so call `calcgpt.lab.sweep.prepare` first. Schedulers count
rounds: the validations of a trial, from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from ray.tune import schedulers
from ray.tune.search import Searcher

from calcgpt.errors import ConfigError
from calcgpt.lab.space import Space
from calcgpt.lab.trials import ROUND, Trial

Domains = dict[str, Any]  # Ray Tune's, by hyperparameter


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
    if find_spec("hyperopt") is None:
        raise ConfigError("algorithm 'hyperopt' needs its package: pip install 'calcgpt[ray]'")
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
    return schedulers.ASHAScheduler(**_halving(space), grace_period=1)


def hyperband(space: Space) -> Any:
    """HyperBand (Li et al. 2018) in the form of BOHB: the largest bracket comes first and is filled
    before it is halved. Ray's other HyperBand halves the trials that happen to run."""
    return schedulers.HyperBandForBOHB(**_halving(space))


def _halving(space: Space) -> dict[str, Any]:
    search = space.search
    objective = {"time_attr": ROUND, "metric": search.metric, "mode": search.mode}
    return {**objective, "max_t": space.rounds, "reduction_factor": search.reduction_factor}


SCHEDULERS: dict[str, Callable[[Space], Any]] = {
    "asha": asha,
    "hyperband": hyperband,
    "bohb": hyperband,
    "none": lambda space: schedulers.FIFOScheduler(),  # type: ignore[no-untyped-call]
}
PAUSING = ("hyperband", "bohb")  # pause trials until others have caught up
