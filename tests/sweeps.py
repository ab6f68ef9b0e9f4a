"""A small space of a sweep, and trials with metrics that no training wrote."""

import json
from pathlib import Path

from calcgpt.lab.trials import Status, Trial

SPACE = """
recipe = "nano"
[search]
trials = 3
max_steps = 40
grace_steps = 10
[space."train.lr"]
type = "loguniform"
low = 1e-4
high = 1e-2
[space."train.schedule"]
type = "choice"
values = ["linear", "cosine"]
"""


def validation(step: int, loss: float, **scores: float) -> str:
    """Returns a line of `metrics.jsonl`."""
    return json.dumps({"step": step, "val_loss": loss, **scores}) + "\n"


def new_trial(
    out: Path,
    index: int,
    metrics: str = "",
    lr: float = 1e-3,
    status: Status = "running",
    reason: str = "",
) -> Trial:
    """Creates a trial of SPACE with these metrics in the sweep's folder `out`."""
    values = {"train.lr": lr, "train.schedule": "linear"}
    trial = Trial.write(out / "trials" / f"{index:04d}", values, status, reason)
    if metrics:  # training refuses metrics without a checkpoint
        (trial.path / "metrics.jsonl").write_text(metrics)
    return trial
