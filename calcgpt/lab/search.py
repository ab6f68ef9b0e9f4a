"""The search of a sweep with Ray Tune: its algorithms, schedulers, trials and progress.

Importing this module imports Ray, so call `datagen.ray_cluster.prepare` first.
"""

import logging
import shutil
import warnings
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from ray import tune
from ray.tune import schedulers
from ray.tune.search.optuna import OptunaSearch

from calcgpt.errors import ConfigError
from calcgpt.lab.space import Space
from calcgpt.lab.trials import ROUND, Resources, Status, Trial, run_trial
from datagen.extras import require
from datagen.parallel import usable_cores
from datagen.progress import progress_bar
from datagen.ray_cluster import connected

RETRIES = 3  # of a trial whose worker or machine died
OBJECT_STORE = 100 * 2**20  # bytes; trials report only a few numbers


def make_search(space: Space, previous: Sequence[Trial]) -> Any:
    """Returns the space's search algorithm, which proposes the values of `previous` first.

    Its seed depends on their number, so that a resumed search does not draw the same values again.
    """
    method, values = space.search.method, [dict(trial.values) for trial in previous] or None
    seed = int(np.random.SeedSequence([space.search.seed, len(previous)]).generate_state(1)[0] >> 1)
    if method == "bohb":  # Falkner et al. 2018
        from ray.tune.search.bohb import TuneBOHB

        np.random.seed(seed)  # hpbandster draws from the global generator
        return TuneBOHB(points_to_evaluate=values, seed=seed)
    if method == "hyperopt":
        require("algorithm 'hyperopt'", "hyperopt")
        from ray.tune.search.hyperopt import HyperOptSearch

        searcher: Any = HyperOptSearch(points_to_evaluate=values, random_state_seed=seed)
    else:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = {"optuna": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}
        searcher = OptunaSearch(sampler=sampler[method](seed=seed), points_to_evaluate=values)
    searcher.on_pause = searcher.on_unpause = _ignore  # HyperBandForBOHB calls them
    return searcher


def _ignore(trial_id: str) -> None:
    """Does nothing."""


def make_scheduler(space: Space) -> Any:
    """Returns the space's scheduler."""
    name, rounds = space.search.scheduler, space.max_steps // space.search.grace_steps
    if name == "none":
        return schedulers.FIFOScheduler()  # type: ignore[no-untyped-call]
    halving: Any = {"max_t": rounds, "reduction_factor": space.search.reduction_factor}
    if name == "asha":  # Li et al. 2020
        return schedulers.ASHAScheduler(ROUND, grace_period=1, **halving)
    # HyperBand (Li et al. 2018) in the form of BOHB: the largest bracket comes first and is filled
    # before it is halved. Ray's other HyperBand halves the trials that happen to run.
    return schedulers.HyperBandForBOHB(ROUND, **halving)


def search(
    space: Space,
    out: Path,
    previous: Sequence[Trial],
    data: Path | None,
    resources: Resources,
    address: str | None,
    progress: bool,
) -> None:
    """Has Ray Tune train the trials on the cluster at `address`, or on this machine alone."""
    folder, data = out.resolve() / "trials", data.resolve() if data else None

    def trainable(values: dict[str, Any]) -> None:
        name = tune.get_context().get_trial_name()
        run_trial(folder / str(name), space.values_of(values), space, data, resources)

    for name in ("ray", "ray.tune", "ray.data"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # On this machine alone, Ray has only as many CPUs as these trials need.
    concurrent = resources.concurrent or max(1, usable_cores() // resources.cpus)
    local = {"object_store_memory": OBJECT_STORE}
    with (
        closing(Progress(space, out, previous, progress)) as reporter,
        warnings.catch_warnings(),
        connected(address, concurrent * resources.cpus, local=local) as ray,
    ):
        warnings.simplefilter("ignore")  # Optuna's, of a trial that repeats its rounds
        if not any(
            _has_room(node["Resources"], resources) for node in ray.nodes() if node["Alive"]
        ):
            raise ConfigError(f"no machine has {resources} for a trial")
        for trial in previous:
            if trial.status == "failed":
                Trial.write(trial.path, trial.values)
        shutil.rmtree(out / "ray", ignore_errors=True)
        tune.Tuner(
            tune.with_resources(trainable, {"cpu": resources.cpus, "gpu": resources.gpus}),
            param_space={name: axis.domain() for name, axis in space.space.items()},
            tune_config=tune.TuneConfig(
                metric=space.search.metric,
                mode=space.search.mode,
                search_alg=make_search(space, previous),
                scheduler=make_scheduler(space),
                num_samples=space.search.trials,
                max_concurrent_trials=resources.concurrent if address else None,
                # The process of a paused trial would lock its folder while it trains another.
                reuse_actors=space.search.scheduler in ("asha", "none"),
                trial_name_creator=_name_of,
                trial_dirname_creator=_name_of,
            ),
            run_config=tune.RunConfig(
                name="tune",
                storage_path=str(out.resolve() / "ray"),
                failure_config=tune.FailureConfig(max_failures=RETRIES),
                callbacks=[reporter],
                verbose=0,
            ),
        ).fit()
    shutil.rmtree(out / "ray", ignore_errors=True)


def _has_room(machine: dict[str, float], resources: Resources) -> bool:
    return machine.get("CPU", 0) >= resources.cpus and machine.get("GPU", 0) >= resources.gpus


def _name_of(trial: Any) -> str:
    """Returns the name of Ray's trial: its number, from 0. Its tag begins with it, from 1."""
    return f"{int(trial.experiment_tag.partition('_')[0]) - 1:04d}"


class Progress(tune.Callback):
    """Records how trials end, and shows one line of progress."""

    def __init__(self, space: Space, out: Path, previous: Sequence[Trial], show: bool) -> None:
        """`previous` are the trials of earlier runs. Ray repeats those that have ended without
        training, so they do not count for the speed."""
        self._space, self._folder = space, out / "trials"
        self._best: tuple[float, str] | None = None
        total = space.search.trials
        self._known = {trial.path.name for trial in previous[:total] if trial.has_ended}
        self.bar = progress_bar(total, show, initial=len(self._known), unit="trial")

    def close(self) -> None:
        self.bar.close()

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Shows the best result so far."""
        search = self._space.search
        pair = (float(result[search.metric]), str(trial))
        better = min if search.mode == "min" else max
        self._best = better(self._best or pair, pair, key=lambda best: best[0])
        n_running = sum(other.status == "RUNNING" for other in trials)
        best, name = self._best
        self.bar.set_postfix_str(f"{n_running} running, best {search.metric} {best:.4f} ({name})")

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Records a trial that has ended by itself or was stopped by the scheduler."""
        is_complete = trial.last_result.get("step", 0) >= self._space.max_steps
        self._end(trial, "completed" if is_complete else "stopped")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Records a trial that Ray has given up, with the last line of its traceback."""
        text = Path(trial.error_file).read_text("utf-8") if trial.error_file else ""
        self._end(trial, "failed", text.strip().rpartition("\n")[2] or "unknown")

    def _end(self, trial: Any, status: Status, reason: str = "") -> None:
        path = self._folder / str(trial)
        if not (path / "trial.json").exists() or Trial.load(path).status == "running":
            Trial.write(path, self._space.values_of(trial.config), status, reason)
        self.bar.update(str(trial) not in self._known)
