"""Search algorithms: what they propose, and what they learn from the sweep's folder."""

import math
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray.tune", reason="Ray is not installed: the extra `ray` installs it")
pytest.importorskip("optuna")
from ray.tune.search import Searcher
from sweeps import new_trial, validation

from calcgpt.errors import ConfigError
from calcgpt.lab.search import Progress, RecordedSearch
from calcgpt.lab.space import Space
from calcgpt.lab.sweep import (
    ALGORITHMS,
    algorithm_name,
    has_bohb,
    make_search,
    search_seed,
)
from calcgpt.lab.trials import Params, Status, SweepFolder, Trial


def with_search(space: Space, **changes: Any) -> Space:
    search = space.search.model_copy(update=changes)
    return space.model_copy(update={"search": search})


def propose(
    space: Space, out: Path, count: int, algorithm: str = "optuna", seed: int = 0
) -> list[Params]:
    """Returns the parameters of `count` trials that a sweep in `out` proposes; each gets a
    result."""
    space = with_search(space, algorithm=algorithm)
    folder = SweepFolder(out)
    previous = folder.trials()
    inner = make_search(space, previous, search_seed(seed, len(previous)))
    search = RecordedSearch(inner, space, folder, previous, lambda t: {"folder": str(t.path)})
    proposals = []
    for number in range(count):
        name = f"ray{number}"
        config = search.suggest(name)
        assert config
        trial = Trial.load(Path(config["folder"]))
        proposals.append(trial.params)
        loss = -math.log(float(trial.params.values["train.lr"]))
        result = {"round": 1, "training_iteration": 1, "val_loss": loss}
        search.on_trial_result(name, result)
        search.on_trial_complete(name, result)
    return proposals


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_resumed_search_proposes_the_known_trials_and_then_new_ones(
    space: Space, tmp_path: Path, algorithm: str
) -> None:
    first = propose(space, tmp_path, 4, algorithm)
    again = propose(space, tmp_path, 8, algorithm)
    assert again[:4] == first
    rates = [params.values["train.lr"] for params in again]
    assert len(set(rates)) == 8  # the first draws of the seed are not repeated


@pytest.mark.parametrize("show", [True, False])
def test_the_remaining_time_is_that_of_new_trials(show: bool, space: Space, tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path)
    trials = [folder.new_trial(n, Params(values={}, drawn={})) for n in range(5)]
    for trial, status in zip(trials, ("completed", "stopped", "diverged", "failed"), strict=False):
        trial.end(Status(status))
    with closing(Progress(with_search(space, trials=5), trials, show)) as reporter:
        trials[3].reopen()
        for trial in trials:
            reporter.on_trial_complete(1, [], SimpleNamespace(config={"folder": str(trial.path)}))
        if show:
            assert (reporter.bar.initial, reporter.bar.n) == (3, 5)
    assert {trial.ending.status for trial in trials[3:]} == {Status.STOPPED}


def test_the_progress_has_the_best_result_and_a_trial_of_all_steps_is_complete(
    space: Space, tmp_path: Path
) -> None:
    whole, short = (
        new_trial(tmp_path, index, validation(step, 1.0)) for index, step in enumerate((40, 20))
    )
    with closing(Progress(space, [], True)) as reporter:
        for trial, loss in ((whole, 0.5), (short, 0.25), (whole, 0.75)):
            running = SimpleNamespace(config={"folder": str(trial.path)}, status="RUNNING")
            reporter.on_trial_result(1, [running], running, {"val_loss": loss})
            reporter.on_trial_complete(1, [], running)
        assert "best val_loss 0.2500 (0001)" in str(reporter.bar)
    assert [trial.ending.status for trial in (whole, short)] == ["completed", "stopped"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_seed_determines_the_search(space: Space, tmp_path: Path, algorithm: str) -> None:
    one, same, other = (
        propose(space, tmp_path / name, 4, algorithm, seed)
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    )
    assert one == same != other


def test_known_results_lead_the_search(space: Space, tmp_path: Path) -> None:
    propose(space, tmp_path, 12)  # optuna's first ten are random
    later = propose(space, tmp_path, 30)[12:]
    # Large rates are good here: half of uniform draws would be above the middle, 1e-3.
    assert sum(params.values["train.lr"] > 1e-3 for params in later) >= 15


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_search_continues_after_trials_without_a_result(
    space: Space, tmp_path: Path, algorithm: str
) -> None:
    space, folder = with_search(space, algorithm=algorithm), SweepFolder(tmp_path)
    search = RecordedSearch(make_search(space, [], 0), space, folder, [], lambda trial: {})
    search.suggest("a")
    search.on_trial_complete("a", {"done": True})
    search.suggest("b")
    search.on_trial_complete("b", error=True)
    assert search.suggest("c") is not None
    assert len(folder.trials()) == 3


class Told(Searcher):
    """A search that proposes the same values always, and keeps what it is told."""

    def __init__(self) -> None:
        super().__init__(metric="val_loss", mode="min")
        self.told: list[tuple[str, Any]] = []

    def suggest(self, trial_id: str) -> dict[str, Any]:
        return {"train.lr": 1e-3, "train.schedule": 0}

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self.told.append((trial_id, result["round"]))

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        self.told.append((trial_id, None if error else result["val_loss"]))


def test_a_search_is_told_each_round_once_and_no_result_of_a_trial_that_diverged(
    space: Space, tmp_path: Path
) -> None:
    inner, folder = Told(), SweepFolder(tmp_path)
    search = RecordedSearch(inner, space, folder, [], lambda trial: {})
    rounds = [{"round": number, "val_loss": 1.0 / number} for number in (1, 2)]
    for name in ("paused", "diverged"):
        search.suggest(name)
        for result in (rounds[0], rounds[0], rounds[1]):  # a paused trial begins anew
            search.on_trial_result(name, result)
    folder.trials()[1].end(Status.DIVERGED, "the loss is nan")
    for name in ("paused", "diverged"):
        search.on_trial_complete(name, rounds[1])
    each = [("paused", 1), ("paused", 2), ("diverged", 1), ("diverged", 2)]
    assert inner.told == [*each, ("paused", 0.5), ("diverged", None)]


def test_the_scheduler_bohb_brings_its_own_algorithm(space: Space) -> None:
    assert algorithm_name(space) == "optuna"
    name = algorithm_name(with_search(space, scheduler="bohb"))
    assert name == ("bohb" if has_bohb() else "optuna")
    with pytest.raises(ConfigError, match="leave out the algorithm"):
        algorithm_name(with_search(space, scheduler="bohb", algorithm="optuna"))
