"""One run of an ablation: a job trains its recipe to the last step, then scores the model.

A job can be killed at any time; running it again continues it. Losses are means in nats per token.
They are taken after the last step, over windows that are the same for all variants and seeds of a
task. No checkpoint is chosen by them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from calcgpt.base.errors import ConfigError, DataError
from calcgpt.base.files import read_json, write_json
from calcgpt.checkpoint import Checkpoint
from calcgpt.config import ModelConfig, Recipe
from calcgpt.metrics import Scores
from calcgpt.section import Section, build
from calcgpt_lab.data.problems import read_problems
from calcgpt_lab.data.sources import DataFolder
from calcgpt_lab.evaluation.evaluate import evaluate
from calcgpt_lab.evaluation.losses import mean_loss
from calcgpt_lab.model.base import LanguageModel
from calcgpt_lab.model.decoding import Sampling
from calcgpt_lab.model.devices import full_precision, pick_device
from calcgpt_lab.model.gpt import build_model
from calcgpt_lab.recipe import differences
from calcgpt_lab.records import perplexity
from calcgpt_lab.studies.suite import Scoring
from calcgpt_lab.training.train import train
from datagen.splits import Split

SCORE, JOB = "score.json", "job.json"
SEED = 0  # of the windows and of sampling; the seed of the training would differ between runs


class Answers(Scores):
    """Scores on the test problems, decoded at one temperature."""

    temperature: float = Field(ge=0)


class ContextLoss(Section):
    """The validation loss on windows of `block_size` tokens; null if the model cannot read them."""

    block_size: int = Field(ge=1)
    val_loss: float | None


class Score(Section):
    """The content of `score.json` in a run's folder."""

    task: str
    variant: str
    seed: int
    steps: int
    tokens: int = Field(description="seen in training")
    seconds: float = Field(description="of training alone")
    tokens_per_s: float = Field(description="of training, while the other jobs ran")
    parameters: int
    train_loss: float = Field(description="nats per token, after the last step")
    val_loss: float
    contexts: list[ContextLoss]
    answers: list[Answers] = Field(description="one entry for each temperature")
    scoring: Scoring
    data_sha256: str
    recipe: Recipe

    @property
    def perplexity(self) -> float:
        """exp(val_loss)."""
        return perplexity(self.val_loss)


@dataclass(frozen=True)
class Job:
    """One variant of one task, trained with one seed."""

    task: str
    variant: str
    seed: int
    recipe: Recipe
    data: Path
    folder: Path
    scoring: Scoring

    @property
    def name(self) -> str:
        """The job's name in messages."""
        return f"{self.task} {self.variant} seed {self.seed}"

    def check_recipe(self) -> None:
        """Raises ConfigError if the job's folder holds a run of another recipe."""
        if not (path := self.folder / JOB).is_file():
            return
        existing = build(Recipe, read_json(path), str(path)).model_dump()
        for field, (old, new) in differences(existing, self.recipe.model_dump()).items():
            if field != "description":
                raise ConfigError(
                    f"{self.folder} holds a run with {field} = {old!r}, not {new!r}: choose "
                    "another --out"
                )

    def check_data(self, data: DataFolder) -> None:
        """Raises ConfigError if the job was scored on other data. Training checks it as well."""
        score = self.score()
        if score and score.data_sha256 != data.fingerprint:
            raise ConfigError(
                f"{self.folder} holds a run on other data than {data.path}: choose another --out"
            )

    def score(self) -> Score | None:
        """Returns the score, None if the job is not done or was scored in another way. Raises
        DataError or ConfigError, one line, if the file is damaged."""
        path = self.folder / SCORE
        if not path.is_file():
            return None
        score = build(Score, read_json(path), str(path))
        return score if score.scoring == self.scoring else None

    def run(self, device: str) -> None:
        """Trains the model, or continues its training, and writes its score. Raises UserError or
        Interrupted, as `train` does."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / JOB, self.recipe.model_dump())
        folder = train(
            self.recipe, self.data, self.folder, resume=True, device=device, progress=False
        )
        checkpoint = Checkpoint.load(folder)
        checkpoint.model.to(pick_device(device))
        data = DataFolder.load(self.data)
        tokens, seconds = checkpoint.metrics["tokens"], checkpoint.metrics["seconds"]
        score = Score(
            task=self.task,
            variant=self.variant,
            seed=self.seed,
            steps=checkpoint.metrics["step"],
            tokens=tokens,
            seconds=round(seconds, 3),
            tokens_per_s=round(tokens / seconds, 1),
            **score_model(checkpoint, data, self.scoring),
            scoring=self.scoring,
            data_sha256=data.fingerprint,
            recipe=self.recipe,
        )
        write_json(self.folder / SCORE, score.model_dump())


def score_model(checkpoint: Checkpoint, data: DataFolder, scoring: Scoring) -> dict[str, Any]:
    """Returns `parameters`, `train_loss`, `val_loss`, `contexts` and `answers` of a Score.

    `answers` is empty if the data holds no problems.
    """
    block_size = checkpoint.recipe.model.block_size
    contexts = [
        ContextLoss(
            block_size=block_size * multiple,
            val_loss=_loss(checkpoint, data, Split.VAL, scoring.batches, multiple),
        )
        for multiple in scoring.contexts
    ]
    return {
        "parameters": checkpoint.model.n_parameters(),
        "train_loss": _loss(checkpoint, data, Split.TRAIN, scoring.batches),
        "val_loss": contexts[0].val_loss,  # the training context is the shortest
        "contexts": contexts,
        "answers": _answers(checkpoint, data, scoring),
    }


def _loss(
    checkpoint: Checkpoint, data: DataFolder, split: Split, n_batches: int, multiple: int = 1
) -> float | None:
    """Returns the mean loss on windows of `multiple` training contexts.

    The batches get smaller as the windows get longer, so that they hold about as many tokens.
    Returns None if the model or the data has no windows of that length.
    """
    train_config = checkpoint.recipe.train.model_copy(update={"seed": SEED})
    block_size = checkpoint.recipe.model.block_size * multiple
    model: LanguageModel | None = checkpoint.model
    if multiple > 1:  # a problem has its own length
        is_stream = train_config.batches == "stream"
        model = with_block_size(checkpoint.model, block_size) if is_stream else None
    if model is None:
        return None
    try:
        windows = data.batches(split, checkpoint.tokenizer, train_config, block_size)
    except DataError:  # the text is shorter than a window
        if multiple == 1:
            raise
        return None
    return mean_loss(model, windows, n_batches, max(1, train_config.batch_size // multiple))


def with_block_size(model: LanguageModel, block_size: int) -> LanguageModel | None:
    """Returns a model with the same weights that reads `block_size` tokens.

    Returns None if the weights depend on the context, as with one vector for each position, or if
    no config has so long a context.
    """
    config = model.config.model_copy(update={"block_size": block_size})
    try:
        longer = build_model(build(ModelConfig, config.model_dump(), "longer"), model.vocab_size)
    except ConfigError:
        return None
    weights = model.state_dict()
    if any(weights[name].shape != value.shape for name, value in longer.state_dict().items()):
        return None
    longer.load_state_dict(weights)
    return longer.to(model.device)


def _answers(checkpoint: Checkpoint, data: DataFolder, scoring: Scoring) -> list[Answers]:
    """Returns the scores on the first test problems, at each temperature."""
    if not (data.holds_problems and scoring.problems):
        return []
    lines = read_problems(data.path / "test.txt", scoring.problems)
    answers = []
    for temperature in scoring.temperatures:
        sampling = Sampling(temperature, seed=SEED)
        with full_precision():
            scores = evaluate(checkpoint.model, checkpoint.tokenizer, lines, sampling).scores
        answers.append(Answers(temperature=temperature, **scores.model_dump()))
    return answers
