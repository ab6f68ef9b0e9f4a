"""A sweep: Ray Tune searches the hyperparameters of a space.

OUT/sweep.json          the space and the data: what must stay the same
OUT/tune/               Ray's own state, from which an interrupted sweep continues
OUT/trials/TRIAL/       the folder of a run
OUT/report.md, best.toml

The recipe of a trial is the space's recipe, overlaid with its `fixed` table and the trial's values.
A trial reports the validations that its folder holds, and continues from its last checkpoint, also
after a pause or on another machine.
"""

import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from calcgpt.base.errors import ConfigError, one_line
from calcgpt.base.extras import require
from calcgpt.base.files import locked, read_json, write_json, write_text
from calcgpt.base.processes import usable_cores
from calcgpt_lab.data.sources import training_data
from calcgpt_lab.model.devices import pick_device
from calcgpt_lab.recipe import differences, recipe_toml
from calcgpt_lab.records import TrainingError, step_lines
from calcgpt_lab.studies.estimate import say_estimate, step_seconds
from calcgpt_lab.studies.ray_cluster import connected
from calcgpt_lab.studies.ray_cluster import prepare as prepare_ray
from calcgpt_lab.studies.space import Search, Space, Values
from calcgpt_lab.tables import counted, markdown_table
from calcgpt_lab.training.run_folder import RunFolder

RAY_SETTINGS = {
    "RAY_AIR_NEW_OUTPUT": "0",  # the new output prints even if verbose is 0
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Ctrl-C ends the sweep: nothing is lost
    "TUNE_FUNCTION_THREAD_TIMEOUT_S": "60",  # for a stopped trial to close its files
    "TUNE_GLOBAL_CHECKPOINT_S": "1",  # between two states that are saved
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
}
RETRIES = 3  # of a trial whose worker or machine died
LOCK_TIMEOUT = 60.0  # seconds for a process of an earlier start to end


class Resources(NamedTuple):
    """What a trial may use, and how many trials may run at a time."""

    cpus: int = 1
    gpus: float = 0.0
    concurrent: int | None = None  # None: as many as fit


def sweep(
    space: Space,
    out: Path,
    data: Path | None,
    resources: Resources,
    *,
    address: str | None = None,
    progress: bool = True,
) -> list[Path]:
    """Trains the trials of a space that are missing in `out`, and writes a report. Returns its
    files.

    Raises ConfigError if `out` holds another sweep, UserError for anything that is wrong before a
    trial starts, KeyboardInterrupt on SIGTERM as well as SIGINT, and TrainingError, after the
    report, if no trial has a result.
    """
    if address is None and resources.cpus > usable_cores():
        raise ConfigError(
            f"a trial needs {resources.cpus} CPUs, and this machine has {usable_cores()}"
        )
    require("a sweep", "ray", "optuna")
    os.environ.update(RAY_SETTINGS)
    prepare_ray(address)
    space.domains()
    recipe, metric = space.trial_recipe({}), space.search.metric
    source = training_data(recipe, data)
    if metric != "val_loss" and not (recipe.train.eval_problems and source.validation_problems(1)):
        raise ConfigError(
            f"metric {metric!r} needs problems to answer: the data has none, or "
            f"train.eval_problems is 0; 'val_loss' always works"
        )
    identity = space.model_dump(exclude={"description"})
    identity |= {"recipe": space.recipe_with({}).model_dump(), "data_sha256": source.fingerprint}
    with locked(out, "making a sweep"):
        if not (path := out / "sweep.json").exists():
            write_json(path, identity)
        for field, (value, old) in differences(identity, read_json(path)).items():
            raise ConfigError(
                f"{out} holds another sweep: {field} is {value!r}, but it was started with {old!r}"
            )
        if not (out / "report.md").exists():
            if progress and address is None:
                device = pick_device("auto" if resources.gpus else "cpu")
                seconds = step_seconds(recipe, source, device, resources.cpus) * space.max_steps
                at_a_time = resources.concurrent or max(1, usable_cores() // resources.cpus)
                say_estimate("trials", space.search.trials * [seconds], at_a_time)
            write_report(space, run_trials(space, out, data, resources, address, progress), out)
    if not (out / "best.toml").exists():
        raise TrainingError(f"no trial has a result: see {out / 'report.md'}")
    return [out / "report.md", out / "best.toml"]


def run_trials(
    space: Space,
    out: Path,
    data: Path | None,
    resources: Resources,
    address: str | None,
    progress: bool,
) -> Any:
    """Has Ray Tune train the trials on the cluster at `address`, or on this machine alone. Returns
    its ResultGrid."""
    from ray import tune

    folder, data = out.resolve(), data.resolve() if data else None

    def run(values: Values) -> None:
        trial = str(tune.get_context().get_trial_id())
        run_trial(folder / "trials" / trial, values, space, data, resources)

    class Progress(tune.Callback):
        def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
            rounds = trial.last_result.get("round", 0)
            print(f"trial {trial.trial_id}: {rounds} rounds", file=sys.stderr)

    for name in ("ray", "ray.tune", "ray.data"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # On this machine alone, Ray has only as many CPUs as these trials need.
    cpus = resources.cpus * (resources.concurrent or max(1, usable_cores() // resources.cpus))
    with warnings.catch_warnings(), connected(address, cpus) as ray:
        warnings.simplefilter("ignore")  # Optuna's, of a trial that repeats its rounds
        needed = {"CPU": resources.cpus, "GPU": resources.gpus}
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(all(m.get(key, 0) >= n for key, n in needed.items()) for m in machines):
            raise ConfigError(f"no machine has {needed} for a trial")
        trainable = tune.with_resources(run, {"cpu": resources.cpus, "gpu": resources.gpus})
        if tune.Tuner.can_restore(folder / "tune"):
            return tune.Tuner.restore(str(folder / "tune"), trainable, resume_errored=True).fit()
        return tune.Tuner(
            trainable,
            param_space=space.domains(),
            tune_config=tune.TuneConfig(
                metric=space.search.metric,
                mode=space.search.mode,
                search_alg=make_search(space.search),
                scheduler=make_scheduler(space),
                num_samples=space.search.trials,
                max_concurrent_trials=resources.concurrent if address else None,
                # The process of a paused trial would lock its folder while it trains another.
                reuse_actors=space.search.scheduler != "bohb",
            ),
            run_config=tune.RunConfig(
                name="tune",
                storage_path=str(folder),
                failure_config=tune.FailureConfig(max_failures=RETRIES),
                callbacks=[Progress()] if progress else [],
                verbose=0,
            ),
        ).fit()


def make_search(search: Search) -> Any:
    """Returns the search algorithm."""
    import optuna
    from ray.tune.search.optuna import OptunaSearch

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler: Any = optuna.samplers.RandomSampler(seed=search.seed)
    if search.algorithm == "optuna":
        # The model of BOHB (Falkner et al. 2018, section 3.2) is multivariate. Its authors' package
        # is not maintained.
        is_bohb = search.scheduler == "bohb"
        sampler = optuna.samplers.TPESampler(multivariate=is_bohb, seed=search.seed)
    searcher: Any = OptunaSearch(sampler=sampler)
    searcher.on_pause = searcher.on_unpause = _ignore  # HyperBandForBOHB calls them
    return searcher


def _ignore(trial_id: str) -> None:
    """Does nothing."""


def make_scheduler(space: Space) -> Any:
    """Returns the scheduler. It counts rounds: the validations of a trial, from 1."""
    from ray.tune import schedulers

    rounds = space.max_steps // space.search.grace_steps
    halving: Any = {"max_t": rounds, "reduction_factor": space.search.reduction_factor}
    if space.search.scheduler == "none":
        return schedulers.FIFOScheduler()  # type: ignore[no-untyped-call]
    if space.search.scheduler == "asha":  # Li et al. 2020
        return schedulers.ASHAScheduler("round", grace_period=1, **halving)
    return schedulers.HyperBandForBOHB("round", **halving)


def run_trial(
    path: Path, values: Values, space: Space, data: Path | None, resources: Resources
) -> None:
    """Reports the validations that a trial's folder holds, then trains the rest, on a worker of
    Ray."""
    import torch

    from calcgpt_lab.training.train import train

    torch.set_num_threads(resources.cpus)
    recipe, rounds = space.trial_recipe(values), Rounds(space.search)
    for _, row in step_lines(RunFolder(path).metrics_path):
        rounds.report(row)
    with locked(path, "training", timeout=LOCK_TIMEOUT):  # a process of an earlier start may end
        pass
    device = "auto" if resources.gpus else "cpu"
    trackers = [lambda run, recipe: rounds]
    train(recipe, data, path, resume=True, device=device, progress=False, trackers=trackers)


class Rounds:
    """A tracker that reports each round to Ray Tune once.

    Reporting blocks: this is where a scheduler pauses or stops a trial. A validation is reported
    with the next row, after the checkpoint of its step. Otherwise each pause would lose the
    training since the previous checkpoint.
    """

    def __init__(self, search: Search) -> None:
        self._metric, self._grace_steps = search.metric, search.grace_steps
        self._pending: list[dict[str, Any]] = []
        self._step = 0  # of the last round

    def write(self, row: dict[str, Any]) -> None:
        """Takes one row."""
        self.close()
        self._pending.append(row)

    def close(self) -> None:
        """Reports the pending row."""
        while self._pending:
            self.report(self._pending.pop())

    def report(self, row: dict[str, Any]) -> None:
        """Reports a row now, if it is the validation of a round that was not reported."""
        from ray import tune

        number, remainder = divmod(row["step"], self._grace_steps)
        if not remainder and row["step"] > self._step and type(row.get(self._metric)) is float:
            self._step = row["step"]
            tune.report({"round": number, self._metric: row[self._metric]})


def write_report(space: Space, results: Any, out: Path) -> None:
    """Writes report.md, the trials of a ResultGrid with the best first and, if a trial has a
    result, best.toml."""
    metric, grace, values = space.search.metric, space.search.grace_steps, [*space.space]
    best, last = results.get_dataframe(metric, space.search.mode), results.get_dataframe()
    how = f"proposed by {space.search.algorithm}, stopped early by {space.search.scheduler}"
    page = [f"# Hyperparameter search\n\n{space.description}".strip()]
    page.append(f"{counted(len(results), 'trial')}, {how}.")
    if not best.empty:
        steps = {row["trial_id"]: row["round"] * grace for row in last.to_dict("records")}
        rows = best.sort_values(metric, ascending=space.search.mode == "min").to_dict("records")
        header = ["trial", metric, "at step", "of", *values]
        cells = [
            [
                *(row["trial_id"], f"{row[metric]:.4f}", str(row["round"] * grace)),
                *(str(steps[row["trial_id"]]), *(_shown(row[f"config/{name}"]) for name in values)),
            ]
            for row in rows
        ]
        page.append(markdown_table(header, cells))
        recipe = space.recipe_with({name: rows[0][f"config/{name}"] for name in values})
        found = f"From a sweep: trial {cells[0][0]}, {metric} {cells[0][1]}"
        recipe = recipe.model_copy(update={"description": f"{recipe.description} {found}".strip()})
        write_text(out / "best.toml", recipe_toml(recipe))
        page.append("The best values as a recipe: `calcgpt train --recipe best.toml --out RUN`.")
    page += [f"A trial failed: {one_line(error)[:500]}" for error in results.errors]
    write_text(out / "report.md", "\n\n".join(page) + "\n")


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
