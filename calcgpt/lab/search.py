"""Search algorithms: what proposes the values of the next trial.

Schedulers: what ends trials early. All count rounds, the validations of a trial from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ray.tune import schedulers
from ray.tune.search import Searcher

from calcgpt.errors import ConfigError, look_up
from calcgpt.lab.space import Drawn, Space
from calcgpt.lab.trials import ROUND, Params, Status, SweepFolder, Trial

Domains = dict[str, Any]
Points = list[dict[str, Drawn]]


@dataclass(frozen=True)
class Task:
    """What an algorithm is made from: the points are to be proposed first, in order."""

    domains: Domains
    metric: str
    mode: str
    points: Points
    seed: int


def optuna(task: Task) -> Searcher:
    """The tree-structured Parzen estimator (Bergstra et al. 2011) of Optuna; the first ten trials
    are random."""
    from optuna.samplers import TPESampler

    return _optuna(task, TPESampler(seed=task.seed))


def random(task: Task) -> Searcher:
    """Random search (Bergstra & Bengio 2012)."""
    from optuna.samplers import RandomSampler

    return _optuna(task, RandomSampler(seed=task.seed))


def _optuna(task: Task, sampler: Any) -> Searcher:
    import optuna
    from ray.tune.search.optuna import OptunaSearch

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return OptunaSearch(
        OptunaSearch.convert_search_space(task.domains),
        metric=task.metric, mode=task.mode, points_to_evaluate=task.points, sampler=sampler,
    )  # fmt: skip


def hyperopt(task: Task) -> Searcher:
    """The tree-structured Parzen estimator of HyperOpt; the first twenty trials are random."""
    if find_spec("hyperopt") is None:
        raise ConfigError("algorithm 'hyperopt' needs the package: pip install 'calcgpt[ray]'")
    from ray.tune.search.hyperopt import HyperOptSearch

    return HyperOptSearch(
        HyperOptSearch.convert_search_space(task.domains),
        metric=task.metric, mode=task.mode, points_to_evaluate=task.points or None,
        random_state_seed=task.seed,
    )  # fmt: skip


def has_bohb() -> bool:
    """Whether what Ray's BOHB needs is installed, and still runs."""
    try:
        import_module("ConfigSpace")
        import_module("hpbandster.optimizers.config_generators.bohb")
    except Exception:  # whatever an old package may raise
        return False
    return True


def bohb(task: Task) -> Searcher:
    """The model of BOHB (Falkner et al. 2018): kernel densities over the results at the largest
    budget that has enough of them. Needs hpbandster and ConfigSpace."""
    import numpy as np
    from ray.tune.search.bohb import TuneBOHB

    np.random.seed(task.seed)  # hpbandster draws from the global generator
    return TuneBOHB(
        TuneBOHB.convert_search_space(task.domains),
        metric=task.metric, mode=task.mode, points_to_evaluate=task.points, seed=task.seed,
    )  # fmt: skip


def algorithm_name(space: Space) -> str:
    """What proposes values; raises ConfigError for an unknown name, or one that does not fit."""
    name = space.search.algorithm
    if space.search.scheduler == "bohb":
        if name is not None:
            raise ConfigError("scheduler 'bohb' has its own search: leave out the algorithm")
        return "bohb" if has_bohb() else "optuna"
    name = name or "optuna"
    look_up(ALGORITHMS, name, "search algorithm")
    return name


def make_search(space: Space, known: Sequence[Trial], seed: int) -> Searcher:
    """The space's search, which proposes the known trials first."""
    name = algorithm_name(space)
    task = Task(
        {name: axis.domain() for name, axis in space.space.items()},
        space.search.metric,
        space.search.mode,
        [dict(trial.params.drawn) for trial in known],  # copies: HyperOpt changes them
        seed,
    )
    return bohb(task) if name == "bohb" else ALGORITHMS[name](task)


class RecordedSearch(Searcher):
    """A search that keeps every proposal in the sweep's folder before its trial begins, and
    proposes those that stand there first."""

    def __init__(
        self,
        inner: Searcher,
        space: Space,
        folder: SweepFolder,
        known: Sequence[Trial],
        config_of: Callable[[Trial], dict[str, Any]],
    ) -> None:
        super().__init__(metric=space.search.metric, mode=space.search.mode)
        self._inner, self._space, self._folder = inner, space, folder
        self._trials, self._config_of = list(known), config_of
        self._index = 0
        self._by_id: dict[str, Trial] = {}
        self._last: dict[str, dict[str, Any]] = {}

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        return True  # all is known

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """The next trial's config for `run_trial`."""
        drawn = self._inner.suggest(trial_id)
        if not isinstance(drawn, dict):
            return drawn  # not now, or never again
        if self._index == len(self._trials):
            axes = self._space.space
            params = Params(
                values={name: axis.value(drawn[name]) for name, axis in axes.items()},
                drawn={name: plain(drawn[name]) for name in axes},
            )
            self._trials.append(self._folder.new_trial(self._index, params))
        trial = self._by_id[trial_id] = self._trials[self._index]
        self._index += 1
        return self._config_of(trial)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """What a trial tells again after a pause is not news."""
        if trial_id not in self._last or result[ROUND] > self._last[trial_id][ROUND]:
            self._last[trial_id] = result
            self._inner.on_trial_result(trial_id, result)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Ray has no result for a trial that it ends while it is paused: its last one counts."""
        status = self._by_id[trial_id].ending.status
        result = result if result and self.metric in result else self._last.get(trial_id)
        failed = error or not result or status in (Status.FAILED, Status.DIVERGED)
        self._inner.on_trial_complete(trial_id, None if failed else result, failed)

    def on_pause(self, trial_id: str) -> None:
        """Asked by the scheduler of `hyperband` and `bohb`, whose own search wants to know."""
        if hasattr(self._inner, "on_pause"):
            self._inner.on_pause(trial_id)

    def on_unpause(self, trial_id: str) -> None:
        """See `on_pause`."""
        if hasattr(self._inner, "on_unpause"):
            self._inner.on_unpause(trial_id)

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the folder has it all."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: the folder has it all."""


def plain(drawn: Any) -> Drawn:
    """A Python number for a NumPy one."""
    number: Drawn = drawn.item() if hasattr(drawn, "item") else drawn
    return number


@dataclass(frozen=True)
class Scheduler:
    """How to make one, and what to know of it."""

    make: Callable[[Space], Any]
    pauses: bool  # trials wait for others, while these use the machine


def _asha(space: Space) -> Any:
    """Asynchronous successive halving (Li et al. 2020)."""
    return schedulers.ASHAScheduler(
        time_attr=ROUND, metric=space.search.metric, mode=space.search.mode,
        max_t=space.rounds, grace_period=1, reduction_factor=space.search.reduction_factor,
    )  # fmt: skip


def _hyperband(space: Space) -> Any:
    """HyperBand (Li et al. 2018) as BOHB has it: the largest bracket first, which is filled before
    it is halved. Ray's other one halves what happens to run."""
    return schedulers.HyperBandForBOHB(
        time_attr=ROUND, metric=space.search.metric, mode=space.search.mode,
        max_t=space.rounds, reduction_factor=space.search.reduction_factor,
    )  # fmt: skip


def _none(space: Space) -> Any:
    """Every trial does all its steps."""
    return schedulers.FIFOScheduler()  # type: ignore[no-untyped-call]


ALGORITHMS: dict[str, Callable[[Task], Searcher]] = {
    "optuna": optuna,
    "random": random,
    "hyperopt": hyperopt,
}


SCHEDULERS: dict[str, Scheduler] = {
    "asha": Scheduler(_asha, pauses=False),
    "hyperband": Scheduler(_hyperband, pauses=True),
    "bohb": Scheduler(_hyperband, pauses=True),
    "none": Scheduler(_none, pauses=False),
}
