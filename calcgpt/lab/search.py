"""The search with Ray Tune, from the trials in the sweep's folder to those that are missing.

Importing this module imports Ray, so call `calcgpt.lab.sweep.prepare` first.

Ray's own way to resume reads pickles and is not used. A resumed search first proposes the trials in
the sweep's folder again, and each of them reports what its folder holds: see `calcgpt.lab.trials`.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from ray import tune
from ray.tune import Callback
from ray.tune.search import Searcher

from calcgpt.errors import ConfigError
from calcgpt.lab.space import Space
from calcgpt.lab.trials import (
    ROUND,
    Params,
    Resources,
    Status,
    SweepFolder,
    Trial,
    TrialConfig,
    run_trial,
)
from datagen.progress import progress_bar
from datagen.ray_cluster import connected
from datagen.workers import usable_cores

OBJECT_STORE = 100 * 2**20  # bytes; trials report only a few numbers
RETRIES = 3  # of a trial whose worker or machine died
PAUSING = ("hyperband", "bohb")  # pause trials until others have caught up


class RecordedSearch(Searcher):
    """A search that writes each proposal to the sweep's folder before its trial starts, and
    proposes the trials in the folder first."""

    def __init__(
        self,
        inner: Searcher,
        space: Space,
        folder: SweepFolder,
        previous: Sequence[Trial],
        config_of: Callable[[Trial], dict[str, Any]],
    ) -> None:
        super().__init__(metric=space.search.metric, mode=space.search.mode)
        self._inner, self._space, self._folder = inner, space, folder
        self._trials, self._config_of = list(previous), config_of
        self._n_proposed = 0
        self._by_id: dict[str, Trial] = {}
        self._last_result: dict[str, dict[str, Any]] = {}

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        return True  # __init__ has set them

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        """Returns the next trial's config for `run_trial`."""
        drawn = self._inner.suggest(trial_id)
        if not isinstance(drawn, dict):
            return drawn  # nothing yet, or nothing any more
        if self._n_proposed == len(self._trials):
            axes = self._space.space
            params = Params(
                values={name: axis.value(drawn[name]) for name, axis in axes.items()},
                drawn={name: np.asarray(drawn[name]).item() for name in axes},
            )
            self._trials.append(self._folder.new_trial(self._n_proposed, params))
        trial = self._by_id[trial_id] = self._trials[self._n_proposed]
        self._n_proposed += 1
        return self._config_of(trial)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Passes on a result, unless the trial repeats it after a pause."""
        last = self._last_result.get(trial_id)
        if last is None or result[ROUND] > last[ROUND]:
            self._last_result[trial_id] = result
            self._inner.on_trial_result(trial_id, result)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Passes on the end of a trial, with its last result if Ray gives none, as for a paused
        trial."""
        status = self._by_id[trial_id].ending.status
        result = result if result and self.metric in result else self._last_result.get(trial_id)
        failed = error or not result or status in (Status.FAILED, Status.DIVERGED)
        self._inner.on_trial_complete(trial_id, None if failed else result, failed)

    def on_pause(self, trial_id: str) -> None:
        """Called by the scheduler of `hyperband` and `bohb`; the model of BOHB uses it."""
        if hasattr(self._inner, "on_pause"):
            self._inner.on_pause(trial_id)

    def on_unpause(self, trial_id: str) -> None:
        """See `on_pause`."""
        if hasattr(self._inner, "on_unpause"):
            self._inner.on_unpause(trial_id)

    def save(self, checkpoint_path: str) -> None:
        """Saves nothing: the sweep's folder holds the state."""

    def restore(self, checkpoint_path: str) -> None:
        """Restores nothing: the sweep's folder holds the state."""


def run_search(
    space: Space,
    folder: SweepFolder,
    previous: Sequence[Trial],
    data: Path | None,
    resources: Resources,
    algorithm: Searcher,
    scheduler: Any,
    *,
    address: str | None,
    progress: bool,
) -> None:
    """Has Ray Tune train the trials on the cluster at `address`, or on this machine alone.

    Raises ConfigError if no machine has the resources for a trial, UserError if there is no
    cluster, and KeyboardInterrupt on SIGTERM as well as SIGINT.
    """

    def config_of(trial: Trial) -> dict[str, Any]:
        return {
            **TrialConfig(
                folder=str(trial.path.resolve()),
                recipe=space.trial_recipe(trial.params.values).model_dump(),
                data=str(data.resolve()) if data else None,
                metric=space.search.metric,
                grace_steps=space.search.grace_steps,
                threads=resources.cpus,
                device="auto" if resources.gpus else "cpu",
            )
        }

    with cluster(resources, address), closing(Progress(space, previous, progress)) as reporter:
        for trial in previous:
            if trial.ending.status is Status.FAILED:
                trial.reopen()
        shutil.rmtree(folder.ray, ignore_errors=True)
        tune.Tuner(
            tune.with_resources(run_trial, {"cpu": resources.cpus, "gpu": resources.gpus}),
            tune_config=tune.TuneConfig(
                search_alg=RecordedSearch(algorithm, space, folder, previous, config_of),
                scheduler=scheduler,
                num_samples=space.search.trials,
                # On this machine alone, Ray has only as many CPUs as these trials need.
                max_concurrent_trials=resources.concurrent if address else None,
                # The process of a paused trial would lock its folder while it trains another.
                reuse_actors=space.search.scheduler not in PAUSING,
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
    shutil.rmtree(folder.ray, ignore_errors=True)


@contextmanager
def cluster(resources: Resources, address: str | None) -> Iterator[None]:
    """Connects to the cluster at `address`, or starts one on this machine that has room for
    `resources.concurrent` trials and that others cannot reach. Errors as `run_search`."""
    for name in ("ray", "ray.tune", "ray.data"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    concurrent = resources.concurrent or max(1, usable_cores() // resources.cpus)
    local = {"object_store_memory": OBJECT_STORE}
    with connected(address, concurrent * resources.cpus, local=local) as ray:
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(
            machine.get("CPU", 0) >= resources.cpus and machine.get("GPU", 0) >= resources.gpus
            for machine in machines
        ):
            raise ConfigError(f"no machine has {resources} for a trial")
        yield


class Progress(Callback):
    """Records how trials end, and shows one line of progress.

    Ray Tune calls it in the command's process.
    """

    def __init__(self, space: Space, previous: Sequence[Trial], show: bool) -> None:
        """`previous` are the trials of earlier runs. Ray repeats those that have ended without
        training, so they do not count for the speed."""
        self._space = space
        self._best: tuple[float, str] | None = None
        requested = previous[: space.search.trials]
        self._known = {trial.name for trial in requested if trial.ending.status.final}
        total, initial = space.search.trials, len(self._known)
        self.bar = progress_bar(total, show, initial=initial, unit="trial")

    def close(self) -> None:
        self.bar.close()

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        """Shows the best result so far."""
        search = self._space.search
        value = float(result[search.metric])
        better = min if search.mode == "min" else max
        if self._best is None or better(value, self._best[0]) != self._best[0]:
            self._best = (value, _trial(trial).name)
        n_running = sum(other.status == "RUNNING" for other in trials)
        best, name = self._best
        self.bar.set_postfix_str(f"{n_running} running, best {search.metric} {best:.4f} ({name})")

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Records a trial that has ended by itself or was stopped by the scheduler."""
        ended = _trial(trial)
        if ended.ending.status is Status.RUNNING:
            completed = ended.last_step() >= self._space.max_steps
            ended.end(Status.COMPLETED if completed else Status.STOPPED)
        self.bar.update(ended.name not in self._known)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Records a trial that Ray has given up."""
        failed = _trial(trial)
        if not failed.ending.status.final:
            failed.end(Status.FAILED, _last_line(trial.error_file))
        self.bar.update(failed.name not in self._known)


def _trial(ray_trial: Any) -> Trial:
    return Trial.load(Path(ray_trial.config["folder"]))


def _last_line(file: str | None) -> str:
    """Returns the last line of Ray's file about an error."""
    try:
        text = Path(file or "").read_text("utf-8", errors="replace")
    except OSError:
        text = ""
    return text.strip().rpartition("\n")[2] or "unknown"
