"""How long many runs will take, said before the first one begins."""

import sys
import time
from collections.abc import Iterable
from pathlib import Path

import torch

from calcgpt.config import Recipe
from calcgpt_lab.data.sources import TrainingData
from calcgpt_lab.model.devices import synchronize_device
from calcgpt_lab.tables import duration
from calcgpt_lab.training.run_folder import RunFolder
from calcgpt_lab.training.train import Trainer

STEPS = 3  # that are measured, after one that is not


def step_seconds(recipe: Recipe, data: TrainingData, device: torch.device, threads: int) -> float:
    """Returns how long a training step takes. Writes nothing."""
    torch.set_num_threads(threads)
    trainer = Trainer(recipe, data, RunFolder(Path()), device)
    trainer.train_step()
    synchronize_device(device)
    start = time.perf_counter()
    for _ in range(STEPS):
        trainer.train_step()
    synchronize_device(device)
    return (time.perf_counter() - start) / STEPS


def say_estimate(noun: str, seconds: Iterable[float], at_a_time: int) -> None:
    """Says how long runs will take, each of which takes some seconds."""
    runs = list(seconds)
    n = min(at_a_time, len(runs))
    time_needed = (
        f"about {duration(sum(runs) / n)} if all are trained to the end, without validation"
    )
    print(f"{len(runs):,} {noun}, {n} at a time: {time_needed}", file=sys.stderr)
