"""A sweep: Ray Tune searches the hyperparameters of a space.

OUT/sweep.json              the space and the data: what must stay the same
OUT/trials/0007/            the folder of a run, and in it
OUT/trials/0007/trial.json  the values of the hyperparameters
OUT/report.md, best.toml, plots/
OUT/ray/                    Ray's own files while a sweep runs; never read again

A sweep continues from the folders of its trials. (`Tuner.restore` would read pickles, and would
keep the first number of trials and the first resources.) The search first proposes the values in
the folders, in order, so that trial 7 gets folder 0007 again. There it reports the validations that
the folder holds and continues from the last checkpoint, also after a pause or on another machine.
"""

import os
from pathlib import Path

from calcgpt.base.errors import ConfigError
from calcgpt.base.extras import require
from calcgpt.base.files import locked, read_json, write_json
from calcgpt.base.processes import usable_cores
from calcgpt_lab.data.sources import training_data
from calcgpt_lab.ray_cluster import prepare as prepare_ray
from calcgpt_lab.recipe import differences
from calcgpt_lab.records import TrainingError
from calcgpt_lab.studies.estimate import say_estimate, step_seconds
from calcgpt_lab.studies.space import Resources, Space
from calcgpt_lab.studies.sweep_report import results_in, write_report
from calcgpt_lab.training.devices import pick_device

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
    require("a sweep", "ray", "optuna", "matplotlib")
    os.environ.update(RAY_SETTINGS)
    prepare_ray(address)
    from calcgpt_lab.studies.search import search  # imports Ray

    space.domains()
    recipe = space.trial_recipe({})
    source = training_data(recipe, data)
    problems = recipe.train.eval_problems and source.validation_problems(1)
    if space.search.metric != "val_loss" and not problems:
        raise ConfigError(
            f"metric {space.search.metric!r} needs problems to answer: the data has none, or "
            f"train.eval_problems is 0; 'val_loss' always works"
        )
    device = pick_device("auto" if resources.gpus else "cpu")
    seconds = space.max_steps * step_seconds(recipe, source, device, resources.cpus)
    with locked(out, "making a sweep"):
        known = results_in(out, space)
        _claim(out, space, source.fingerprint)
        if len(known) < space.search.trials or not (out / "report.md").exists():
            if progress and address is None:
                at_a_time = resources.concurrent or max(1, usable_cores() // resources.cpus)
                say_estimate("trials", space.search.trials * [seconds], at_a_time)
            (out / "report.md").unlink(missing_ok=True)
            values = [result.values for result in known]
            failures = search(space, out, values, data, resources, address, progress)
            write_report(space, results_in(out, space), failures, out)
    if not (out / "best.toml").exists():
        raise TrainingError(f"no trial has a result: see {out / 'report.md'}")
    return [out / "report.md", *sorted(out.glob("plots/*.png")), out / "best.toml"]


def _claim(out: Path, space: Space, fingerprint: str) -> None:
    """Writes `sweep.json`, what must stay the same when the sweep is resumed. Raises ConfigError if
    the folder holds another sweep."""
    identity = space.model_dump(exclude={"description": True, "search": {"trials"}})
    identity["search"]["max_steps"] = space.max_steps
    identity |= {"recipe": space.recipe_with({}).model_dump(), "data_sha256": fingerprint}
    if not (path := out / "sweep.json").exists():
        write_json(path, identity)
    for field, (value, old) in differences(identity, read_json(path)).items():
        raise ConfigError(
            f"{out} holds another sweep: {field} is {value!r}, but it was started with {old!r}"
        )
