"""The search of a sweep with Ray Tune, and a trial on one of its workers.

Importing this module imports Ray, so call `calcgpt_lab.ray_cluster.prepare` first.
"""

import logging
import math
import shutil
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from ray import tune
from ray.tune import schedulers
from ray.tune.search.optuna import OptunaSearch

from calcgpt.base.errors import ConfigError, one_line
from calcgpt.base.extras import require
from calcgpt.base.files import locked, read_json, write_json
from calcgpt.base.processes import usable_cores
from calcgpt.base.progress import progress_bar
from calcgpt_lab.ray_cluster import connected
from calcgpt_lab.records import TrainingError
from calcgpt_lab.studies.space import Resources, Space, Values
from calcgpt_lab.studies.sweep_report import VALUES, validations

RETRIES = 3  # of a trial whose worker or machine died
OBJECT_STORE = 100 * 2**20  # bytes; trials report only a few numbers
LOCK_TIMEOUT = 60.0  # seconds for a process of an earlier start to end


def make_search(space: Space, known: list[Values]) -> Any:
    """Returns the search algorithm, which proposes the `known` trials first. Its seed depends on
    their number, so that a resumed search does not draw the same values again."""
    method, first = space.search.method, known or None
    seed = int(np.random.SeedSequence([space.search.seed, len(known)]).generate_state(1)[0] >> 1)
    if method == "bohb":  # Falkner et al. 2018
        from ray.tune.search.bohb import TuneBOHB

        np.random.seed(seed)  # hpbandster draws from the global generator
        return TuneBOHB(points_to_evaluate=first, seed=seed)
    if method == "hyperopt":
        require("algorithm 'hyperopt'", "hyperopt")
        from ray.tune.search.hyperopt import HyperOptSearch

        searcher: Any = HyperOptSearch(points_to_evaluate=first, random_state_seed=seed)
    else:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = {"optuna": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}
        searcher = OptunaSearch(sampler=sampler[method](seed=seed), points_to_evaluate=first)
    searcher.on_pause = searcher.on_unpause = _ignore  # HyperBandForBOHB calls them
    return searcher


def _ignore(trial_id: str) -> None:
    """Does nothing."""


def make_scheduler(space: Space) -> Any:
    """Returns the scheduler. It counts rounds: the validations of a trial, from 1."""
    rounds = space.max_steps // space.search.grace_steps
    halving: Any = {"max_t": rounds, "reduction_factor": space.search.reduction_factor}
    if space.search.scheduler == "none":
        return schedulers.FIFOScheduler()  # type: ignore[no-untyped-call]
    if space.search.scheduler == "asha":  # Li et al. 2020
        return schedulers.ASHAScheduler("round", grace_period=1, **halving)
    # HyperBand (Li et al. 2018) in the form of BOHB: the largest bracket comes first and is filled
    # before it is halved. Ray's other HyperBand halves the trials that happen to run.
    return schedulers.HyperBandForBOHB("round", **halving)


def search(
    space: Space,
    out: Path,
    known: list[Values],
    data: Path | None,
    resources: Resources,
    address: str | None,
    progress: bool,
) -> dict[str, str]:
    """Has Ray Tune train the trials on the cluster at `address`, or on this machine alone. Returns
    the trials that have failed, and why."""
    folder, data = out.resolve(), data.resolve() if data else None

    def trainable(values: Values) -> None:
        name = str(tune.get_context().get_trial_name())
        run_trial(folder / "trials" / name, space.values_of(values), space, data, resources)

    for name in ("ray", "ray.tune", "ray.data"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # On this machine alone, Ray has only as many CPUs as these trials need.
    cpus = resources.cpus * (resources.concurrent or max(1, usable_cores() // resources.cpus))
    with (
        closing(progress_bar(space.search.trials, progress, unit="trial")) as bar,
        warnings.catch_warnings(),
        connected(address, cpus, local={"object_store_memory": OBJECT_STORE}) as ray,
    ):
        warnings.simplefilter("ignore")  # Optuna's, of a trial that repeats its rounds
        needed = {"CPU": resources.cpus, "GPU": resources.gpus}
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(all(m.get(key, 0) >= n for key, n in needed.items()) for m in machines):
            raise ConfigError(f"no machine has {resources} for a trial")
        shutil.rmtree(folder / "ray", ignore_errors=True)
        results = tune.Tuner(
            tune.with_resources(trainable, {"cpu": resources.cpus, "gpu": resources.gpus}),
            param_space=space.domains(),
            tune_config=tune.TuneConfig(
                metric=space.search.metric,
                mode=space.search.mode,
                search_alg=make_search(space, known),
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
                storage_path=str(folder / "ray"),
                failure_config=tune.FailureConfig(max_failures=RETRIES),
                callbacks=[Progress(bar)],
                verbose=0,
            ),
        ).fit()
    shutil.rmtree(folder / "ray", ignore_errors=True)
    trials = [results[index] for index in range(len(results))]
    return {Path(t.path).name: one_line(t.error)[:500] for t in trials if t.error}


def _name_of(trial: Any) -> str:
    """Returns the name of Ray's trial: its number, from 0. Its tag begins with it, from 1."""
    return f"{int(trial.experiment_tag.partition('_')[0]) - 1:04d}"


class Progress(tune.Callback):
    """Counts the trials that have ended."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._bar.update()

    on_trial_error = on_trial_complete


def run_trial(
    path: Path, values: Values, space: Space, data: Path | None, resources: Resources
) -> None:
    """Reports the validations that a trial's folder holds, then trains the rest, on a worker of
    Ray."""
    import torch

    from calcgpt_lab.training.train import train

    torch.set_num_threads(resources.cpus)
    is_known = (path / VALUES).exists() and read_json(path / VALUES) == values
    rounds = Rounds(space)
    for row in validations(path, space.search.metric) if is_known else []:
        rounds.report(row)
    with locked(path, "training", timeout=LOCK_TIMEOUT):  # a process of an earlier start may end
        write_json(path / VALUES, values)
    if rounds.step < space.max_steps:
        train(
            space.trial_recipe(values),
            data,
            path,
            resume=is_known,
            force=not is_known,
            device="auto" if resources.gpus else "cpu",
            progress=False,
            trackers=[lambda run, recipe: rounds],
        )


class Rounds:
    """A tracker that reports each round to Ray Tune once.

    Reporting blocks: this is where a scheduler pauses or stops a trial. A validation is reported
    with the next row, after the checkpoint of its step. Otherwise each pause would lose the
    training since the previous checkpoint.
    """

    def __init__(self, space: Space) -> None:
        self._metric, self._grace_steps = space.search.metric, space.search.grace_steps
        self._pending: list[dict[str, Any]] = []
        self.step = 0  # of the last round

    def write(self, row: dict[str, Any]) -> None:
        """Takes one row; raises TrainingError if the metric is not finite."""
        self.close()
        if self._metric in row:
            if not math.isfinite(row[self._metric]):
                raise TrainingError(f"{self._metric} is {row[self._metric]} at step {row['step']}")
            self._pending.append(row)

    def close(self) -> None:
        """Reports the pending validation."""
        while self._pending:
            self.report(self._pending.pop())

    def report(self, row: dict[str, Any]) -> None:
        """Reports a validation now, unless it was reported or lies between two rounds."""
        number, remainder = divmod(row["step"], self._grace_steps)
        if not remainder and row["step"] > self.step:
            self.step = row["step"]
            tune.report({"round": number, self._metric: row[self._metric]})
