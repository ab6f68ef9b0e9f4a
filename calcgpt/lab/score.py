"""What a trained run is scored by.

Losses are means in nats per token, over windows that are the same for every variant and seed of a
task. Nothing is chosen by them: every run is scored after its last step.
"""

from __future__ import annotations

from typing import Any

from calcgpt.checkpoint import Checkpoint
from calcgpt.config import ModelConfig
from calcgpt.data.batches import BatchSource
from calcgpt.data.problems import read_problems
from calcgpt.data.sources import DataFolder
from calcgpt.errors import DataError
from calcgpt.evaluation.evaluate import evaluate, mean_loss
from calcgpt.inference.generate import Sampling
from calcgpt.lab.suite import Scoring
from calcgpt.model.gpt import LanguageModel, build_model
from datagen.splits import Split

SEED = 0  # of the windows, and of the sampling: the training's own would not be the same for all


def score(checkpoint: Checkpoint, data: DataFolder, scoring: Scoring) -> dict[str, Any]:
    """The losses on training and validation, those at longer contexts, and the answers.

    `contexts` has one entry for each multiple of the training context, with `val_loss` null where
    the model cannot read as much. `answers` has the scores on the first test problems, at each
    temperature; it is empty where the data holds no problems.
    """
    model, context = checkpoint.model, checkpoint.recipe.model.block_size
    losses = {
        split: mean_loss(model, _windows(checkpoint, data, split, context), scoring.batches,
                         checkpoint.recipe.train.batch_size)
        for split in (Split.TRAIN, Split.VAL)
    }  # fmt: skip
    return {
        "parameters": model.n_parameters(),
        "train_loss": losses[Split.TRAIN],
        "val_loss": losses[Split.VAL],
        "contexts": [
            {"block_size": context * multiple,
             "val_loss": losses[Split.VAL] if multiple == 1
             else _longer(checkpoint, data, scoring, multiple)}
            for multiple in scoring.contexts
        ],
        "answers": _answers(checkpoint, data, scoring),
    }  # fmt: skip


def lengthened(model: LanguageModel, block_size: int) -> LanguageModel | None:
    """The same weights in a model that reads `block_size` tokens; None where they do not fit it,
    as with a vector for each position."""
    config = model.config.model_copy(update={"block_size": block_size})
    longer = build_model(ModelConfig.model_validate(config.model_dump()), model.vocab_size)
    weights = model.state_dict()
    if any(weights[name].shape != value.shape for name, value in longer.state_dict().items()):
        return None
    longer.load_state_dict(weights)
    return longer.to(next(model.parameters()).device)


def _longer(
    checkpoint: Checkpoint, data: DataFolder, scoring: Scoring, multiple: int
) -> float | None:
    """The validation loss at a longer context, over about as many tokens; None where the model, or
    the data, has no such windows."""
    if checkpoint.recipe.train.batches != "stream":  # a problem is as long as it is
        return None
    block_size = checkpoint.recipe.model.block_size * multiple
    model = lengthened(checkpoint.model, block_size)
    if model is None:
        return None
    try:
        windows = _windows(checkpoint, data, Split.VAL, block_size)
    except DataError:  # the text is shorter
        return None
    size = max(1, checkpoint.recipe.train.batch_size // multiple)
    return mean_loss(model, windows, scoring.batches, size)


def _windows(
    checkpoint: Checkpoint, data: DataFolder, split: Split, block_size: int
) -> BatchSource:
    config = checkpoint.recipe.train.model_copy(update={"seed": SEED})
    return data.batches(split, checkpoint.tokenizer, config, block_size)


def _answers(checkpoint: Checkpoint, data: DataFolder, scoring: Scoring) -> list[dict[str, Any]]:
    if not (data.holds_problems and scoring.problems):
        return []
    lines = read_problems(data.path / "test.txt", scoring.problems)
    samplings = [Sampling(t, seed=SEED) for t in scoring.temperatures]
    return [
        {"temperature": sampling.temperature,
         **evaluate(checkpoint.model, checkpoint.tokenizer, lines, sampling).scores.model_dump()}
        for sampling in samplings
    ]  # fmt: skip
