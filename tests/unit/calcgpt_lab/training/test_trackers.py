"""Each tracker gets every row once, and is closed whatever happens."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import pytest
import torch
from small_runs import recipe, rows

from calcgpt.base.errors import ConfigError
from calcgpt.config import Recipe
from calcgpt_lab.records import TrainingError
from calcgpt_lab.training.environment import record_start
from calcgpt_lab.training.run_folder import RunFolder
from calcgpt_lab.training.trackers import MetricsRow, trackers_of, wandb_tracker
from calcgpt_lab.training.train import train

RECIPE = recipe(
    "train.eval_batches=1",
    "train.eval_problems=10",
    "train.checkpoint_interval=10",
    "train.log_interval=2",
    "data.format=direct",
    "data.mixture.blog=1",
)


class Memory:
    """A tracker that keeps its rows, and raises at the row of step `until`."""

    def __init__(self, until: int | None = None, closing: Exception | None = None) -> None:
        self.rows: list[MetricsRow] = []
        self.closed = 0
        self.until, self.closing = until, closing

    def __call__(self, run: RunFolder, recipe: Recipe) -> Self:
        return self

    def write(self, row: MetricsRow) -> None:
        if row["step"] == self.until:
            raise RuntimeError("killed")
        self.rows.append(row)

    def close(self) -> None:
        self.closed += 1
        if self.closing:
            raise self.closing


def test_every_tracker_gets_the_rows_of_the_file(tmp_path: Path) -> None:
    memory = Memory()
    train(RECIPE, None, tmp_path, progress=False, trackers=[memory])
    assert memory.rows == rows(tmp_path)
    assert memory.closed == 1


def test_a_row_is_in_the_file_before_the_next_one(tmp_path: Path) -> None:
    with trackers_of(RunFolder(tmp_path), RECIPE) as write:
        for step in (5, 10, 15):
            write({"step": step, "loss": 1.0})
            assert rows(tmp_path)[-1]["step"] == step


def test_all_trackers_are_closed_if_one_fails(tmp_path: Path) -> None:
    dying, other = Memory(until=5, closing=OSError("full")), Memory()
    with (
        pytest.raises(OSError, match="full"),
        trackers_of(RunFolder(tmp_path), RECIPE, [other, dying]) as write,
    ):
        write({"step": 5, "loss": 1.0})
    assert (other.closed, dying.closed) == (1, 1)
    assert rows(tmp_path) == other.rows == [{"step": 5, "loss": 1.0}]


def test_opened_trackers_are_closed_if_another_cannot_be_opened(tmp_path: Path) -> None:
    def refuse(run: RunFolder, recipe: Recipe) -> Memory:
        raise ConfigError("no")

    opened = Memory()
    with pytest.raises(ConfigError), trackers_of(RunFolder(tmp_path), RECIPE, [opened, refuse]):
        raise AssertionError("not reached")
    assert opened.closed == 1


class FakeWandb(ModuleType):
    """The parts of the package that we use; tests/e2e/test_wandb.py uses the real package."""

    class Error(Exception):
        pass

    class Settings:
        def __init__(self, **settings: Any) -> None:
            if "/" in settings.get("project", ""):
                raise FakeWandb.Error("Invalid project name")
            self.mode = "online"

        @property
        def settings(self) -> "FakeWandb.Settings":
            return self

    def __init__(self) -> None:
        super().__init__("wandb")
        self.begun: list[dict[str, Any]] = []
        self.rows: list[MetricsRow] = []
        self.finished = 0
        self.answer: bool | Exception = True

    def setup(self, settings: Settings) -> Settings:
        return settings

    def login(self, prompt: bool) -> bool:
        assert not prompt
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def init(self, **options: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        self.begun.append(options)
        return self

    def log(self, values: dict[str, Any], step: int) -> None:
        self.rows.append({"step": step, **values})

    def finish(self) -> None:
        self.finished += 1


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> FakeWandb:
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    return fake


@pytest.mark.parametrize(
    ("answer", "project", "reason"),
    [
        (False, "mine", "WANDB_API_KEY"),
        (FakeWandb.Error("Failed to\nauthenticate"), "mine", r"--wandb: Failed to authenticate$"),
        (True, "a/b", "Invalid project name"),
    ],
)
def test_settings_that_wandb_refuses_are_reported_before_a_run_begins(
    wandb: FakeWandb, answer: bool | Exception, project: str, reason: str
) -> None:
    wandb.answer = answer
    with pytest.raises(ConfigError, match=reason):
        wandb_tracker(project)


def test_wandb_gets_every_row_and_is_finished(wandb: FakeWandb, tmp_path: Path) -> None:
    train(RECIPE, None, tmp_path, progress=False, trackers=[wandb_tracker("project")])
    assert wandb.rows == rows(tmp_path)
    assert wandb.finished == 1


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """The folder of a run that was started."""
    folder = RunFolder(tmp_path / "mine")
    folder.path.mkdir()
    start(folder, 0)
    return folder


def start(run: RunFolder, step: int) -> None:
    record_start(run, RECIPE, "abc", torch.device("cpu"), step)


def test_a_resumed_run_goes_on_as_the_same_run_of_wandb(wandb: FakeWandb, run: RunFolder) -> None:
    make = wandb_tracker("project")
    make(run, RECIPE)
    for step in (10, 10, 0):  # resumed twice, begun anew
        start(run, step)
        make(run, RECIPE)
    first, second, third, anew = (options["id"] for options in wandb.begun)
    assert first == second == third != anew
    assert [options["name"] for options in wandb.begun] == ["mine", None, None, "mine"]
    assert wandb.begun[0]["config"]["train"]["lr"] == RECIPE.train.lr
    assert wandb.begun[0]["dir"] == str(run.path)


def test_a_server_that_does_not_answer_ends_the_run_in_one_line(
    wandb: FakeWandb, run: RunFolder
) -> None:
    make = wandb_tracker("project")
    wandb.answer = FakeWandb.Error("Timed out\nConsider this and that")
    with pytest.raises(TrainingError, match=r"refuses the run: Timed out$"):
        make(run, RECIPE)
