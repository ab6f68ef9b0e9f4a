"""A sweep: Ray Tune searches the hyperparameters of a space.

OUT/sweep.json              the space and the data: what must stay the same
OUT/trials/0007/            the folder of a run, and in it
OUT/trials/0007/trial.json  the values of the hyperparameters and, at last, how the trial ended
OUT/report.json, report.md, best.toml, plots/
OUT/ray/                    Ray's own files while a sweep runs; never read again

Search algorithms propose values, schedulers stop trials early. Schedulers count rounds: the
validations of a trial, from 1.

A sweep continues from the folders of its trials. (`Tuner.restore` would read pickles, and would
keep the first number of trials and the first resources.) The search first proposes the values in
the folders, in order, so that trial 7 gets folder 0007 again. There it reports the validations that
the folder holds and continues from the last checkpoint, also after a pause or on another machine.
"""

import os
from pathlib import Path
from typing import Any

from calcgpt.data.sources import training_data
from calcgpt.errors import ConfigError, DataError, TrainingError
from calcgpt.lab.estimate import say_estimate, step_seconds
from calcgpt.lab.space import Space
from calcgpt.lab.sweep_report import Result, write_report
from calcgpt.lab.trials import Resources, trials_in
from calcgpt.recipe import differences
from calcgpt.training.devices import pick_device
from calcgpt.training.run_folder import RunFolder
from datagen.extras import require
from datagen.files import locked, read_json, write_json
from datagen.parallel import usable_cores
from datagen.ray_cluster import prepare as prepare_ray

RAY_SETTINGS = {
    "RAY_AIR_NEW_OUTPUT": "0",  # the new output prints even if verbose is 0
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # a run's folder has its metrics
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Ctrl-C ends the sweep: nothing is lost
    "TUNE_FUNCTION_THREAD_TIMEOUT_S": "60",  # for a stopped trial to close its files
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
}


def sweep(
    space: Space,
    out: Path,
    data: Path | None,
    resources: Resources,
    *,
    address: str | None = None,
    progress: bool = True,
) -> tuple[list[Result], list[Path]]:
    """Trains the trials of a space that are missing in `out`, then writes the report. Returns
    the results of the trials, the best first, and the files.

    Raises ConfigError if `out` holds another sweep, UserError for anything that is wrong before a
    trial starts, KeyboardInterrupt on SIGTERM as well as SIGINT, and TrainingError, after the
    report, if no trial has a result.
    """
    if address is None and resources.cpus > usable_cores():
        raise ConfigError(
            f"a trial needs {resources.cpus} CPUs, and this machine has {usable_cores()}"
        )
    require("a sweep", "ray", "optuna", "matplotlib")
    os.environ.update(RAY_SETTINGS)
    prepare_ray(address)
    from calcgpt.lab.search import search  # imports Ray

    identity = _identity(space, data)
    with locked(out, "making a sweep"):
        trials = trials_in(out)
        for trial in trials:
            if trial.values.keys() != space.space.keys():
                raise DataError(f"{trial.path / 'trial.json'} does not belong to this sweep")
        _claim(out, identity)
        n_left = space.search.trials - sum(t.has_ended for t in trials[: space.search.trials])
        if n_left:
            if progress and address is None:
                _say_estimate(space, data, n_left, resources)
            search(space, out, trials, data, resources, address, progress)
        results, files = write_report(space, trials_in(out), out)
    if not results or results[0]["best"] is None:
        reason = results[0]["reason"] if results else ""
        raise TrainingError(f"no trial has a result; the first: {reason or 'it was stopped'}")
    return results, files


def _say_estimate(space: Space, data: Path | None, n_trials: int, resources: Resources) -> None:
    """Says how long the trials will take on this machine."""
    recipe = space.trial_recipe({})
    device = pick_device("auto" if resources.gpus else "cpu")
    seconds = step_seconds(recipe, training_data(recipe, data), device, resources.cpus)
    at_a_time = resources.concurrent or max(1, usable_cores() // resources.cpus)
    say_estimate("trials", n_trials * [seconds * space.max_steps], at_a_time)


def _identity(space: Space, data: Path | None) -> dict[str, Any]:
    """Returns what must stay the same when the sweep is resumed, as JSON.

    Raises UserError if the data is missing, does not fit the recipe, or does not have the metric.
    """
    import torch

    from calcgpt.training.train import Trainer

    recipe = space.trial_recipe({})
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


def _claim(out: Path, identity: dict[str, Any]) -> None:
    """Writes `sweep.json`. Raises ConfigError if the folder holds another sweep."""
    path = out / "sweep.json"
    if not path.exists():
        write_json(path, identity)
        return
    for field, (value, old) in differences(identity, read_json(path)).items():
        raise ConfigError(
            f"{out} holds another sweep: {field} is {value!r}, but it was started with {old!r}"
        )
