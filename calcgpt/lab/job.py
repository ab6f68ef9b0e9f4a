"""One run of an ablation: trained to its last step, then scored. Each can be killed at any time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from calcgpt.checkpoint import Checkpoint
from calcgpt.config import Recipe, Section
from calcgpt.data.sources import DataFolder
from calcgpt.errors import ConfigError
from calcgpt.lab.score import score
from calcgpt.lab.suite import Scoring
from calcgpt.metrics import Scores
from calcgpt.recipe import build, differences
from calcgpt.training.run_folder import RunFolder
from calcgpt.training.trackers import Row
from calcgpt.training.train import pick_device, train
from datagen.files import read_json, write_json

SCORE, JOB = "score.json", "job.json"


@dataclass(frozen=True)
class Job:
    """One variant of one task with one seed."""

    task: str
    variant: str
    seed: int
    recipe: Recipe
    data: Path
    folder: Path
    scoring: Scoring

    @property
    def name(self) -> str:
        """As people read it."""
        return f"{self.task} {self.variant} seed {self.seed}"

    @property
    def done(self) -> bool:
        """Whether it has its score; raises DataError for one that is damaged."""
        path = self.folder / SCORE
        return path.is_file() and read_score(self.folder).scoring == self.scoring

    def claim(self) -> Job:
        """Note in its folder what it is; raises ConfigError where the folder is of another run."""
        path, ours = self.folder / JOB, self.recipe.model_dump()
        if path.is_file():
            theirs = build(Recipe, read_json(path), str(path)).model_dump()
            for field, (other, value) in differences(theirs, ours).items():
                if field != "description":
                    raise ConfigError(
                        f"{self.folder} holds a run with {field} = {other!r}, not {value!r}: "
                        "choose another --out"
                    )
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_json(path, ours)
        return self

    def steps_done(self) -> int:
        """The step of its newest checkpoint."""
        folders = RunFolder(self.folder).checkpoints()
        return int(folders[-1].name.removeprefix("step-")) if folders else 0


class Answers(Scores):
    """Scores on the test problems, decoded at one temperature."""

    temperature: float = Field(ge=0)


class ContextLoss(Section):
    """The validation loss where the model reads `block_size` tokens; null where it cannot."""

    block_size: int = Field(ge=1)
    val_loss: float | None


class Score(Section):
    """`score.json` in a run's folder: what it came to."""

    task: str
    variant: str
    seed: int
    steps: int
    tokens: int = Field(description="of training")
    seconds: float = Field(description="of training alone")
    tokens_per_s: float = Field(description="of training, beside the other jobs")
    parameters: int
    train_loss: float = Field(description="nats per token, after the last step")
    val_loss: float
    contexts: list[ContextLoss]
    answers: list[Answers] = Field(description="one entry for each temperature")
    scoring: Scoring
    data_sha256: str
    recipe: Recipe


Report = Callable[[dict[str, Any]], None]


def run(job: Job, device: str, report: Report) -> None:
    """Train and score. `report` is told `step` and `loss` meanwhile.

    What an earlier process began is continued. Raises UserError subclasses and Interrupted, as
    `train` does.
    """
    last = train(
        job.recipe, job.data, job.folder, resume=True, device=device, progress=False,
        trackers=[lambda folder, recipe: Reporter(report)],
    )  # fmt: skip
    checkpoint = Checkpoint.load(last, pick_device(device))
    data = DataFolder.load(job.data)
    counted = checkpoint.metrics
    content = {
        "task": job.task,
        "variant": job.variant,
        "seed": job.seed,
        "steps": counted["step"],
        "tokens": counted["tokens"],
        "seconds": round(counted["seconds"], 3),
        "tokens_per_s": round(counted["tokens"] / counted["seconds"], 1),
        **score(checkpoint, data, job.scoring),
        "scoring": job.scoring.model_dump(),
        "data_sha256": data.fingerprint,
        "recipe": job.recipe.model_dump(),
    }
    write_json(job.folder / SCORE, content)


def read_score(folder: Path) -> Score:
    """What `run` wrote; raises DataError, one line, for any other file."""
    path = folder / SCORE
    return build(Score, read_json(path), str(path))


class Reporter:
    """A tracker that passes on how far the training is."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def write(self, row: Row) -> None:
        if "loss" in row:
            self._report({"step": row["step"], "loss": row["loss"]})

    def close(self) -> None:
        """Nothing is held."""
