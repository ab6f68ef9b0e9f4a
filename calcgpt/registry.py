"""Checkpoints by name: the shipped ones, those of a folder, and the best of them."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

from calcgpt.base.errors import check_types, did_you_mean
from calcgpt.checkpoint import CONFIG, load_metrics, read_config
from calcgpt.errors import CheckpointError

# Errors from a value that was not validated: it may be missing or of another type.
MALFORMED = (AttributeError, KeyError, OverflowError, TypeError, ValueError)

ENVIRONMENT_FILE = "environment.jsonl"  # of a run; see `calcgpt_lab.training.run_folder`
log = logging.getLogger(__name__)


def resolve(reference: str | Path, root: Path | None = None) -> Path:
    """Returns the folder of a checkpoint.

    `reference` is the name of a checkpoint under `root`, which defaults to the shipped checkpoints;
    or `best`, for the best checkpoint under `root`; or a path to a checkpoint or to a folder of
    checkpoints, whose best one is returned. A name takes precedence over a path: `./NAME` is always
    a path. Raises CheckpointError if there is no such checkpoint.
    """
    check_types(reference=(reference, str, Path))
    reference = str(reference)
    root = shipped_checkpoints() if root is None else root
    if reference == "best":
        return best(root)
    if not reference:  # as a path, it would mean the current folder
        raise CheckpointError("the name of a checkpoint is empty")
    is_name = Path(reference).name == reference
    try:
        for folder in (*([root / reference] if is_name else []), Path(reference)):
            if (folder / CONFIG).is_file():
                return folder
            if any(folder.glob(f"[!.]*/{CONFIG}")):
                return best(folder)
    except OSError as error:  # for example a name that is too long
        raise CheckpointError(f"checkpoint {reference[:100]!r}: {error.strerror}") from None
    if (Path(reference) / ENVIRONMENT_FILE).is_file():
        raise CheckpointError(f"{reference}: this run has saved no checkpoint yet")
    if Path(reference).is_dir():
        raise CheckpointError(_why_none_in(Path(reference), reference))
    names = _names_under(root)
    listed, hint = ", ".join(names) or "none", did_you_mean(reference, names)
    raise CheckpointError(f"no checkpoint {reference!r}; under {root} there are: {listed}{hint}")


def _why_none_in(folder: Path, reference: str) -> str:
    """Returns why a folder, which has no checkpoint, does not stand for one."""
    runs = sorted(file.parent for file in folder.glob(f"[!.]*/{ENVIRONMENT_FILE}"))
    if runs:
        return f"{reference!r} is a folder of runs: name one of them, such as {runs[0]}"
    return f"{reference!r} is a folder, but holds no checkpoint and no run"


def best(root: Path) -> Path:
    """Returns the folder under `root` of the model that was right in every case of the rules, with
    the largest margin. If there is none, returns that with the highest exact match on validation.

    Scores on different data cannot be compared: only scores on the most common validation file
    count. Of checkpoints with equal scores, the one with fewer parameters is better, or else a
    lower validation loss. A folder whose config or metrics cannot be read is skipped with a
    warning. Raises CheckpointError if no checkpoint is left.
    """
    ranked, data_hashes = [], {}
    for folder in sorted(file.parent for file in root.glob(f"[!.]*/{CONFIG}")):
        try:
            metrics = load_metrics(folder)
            ranked.append((_rank(folder, metrics), folder))
            if "validation" in metrics:
                data_hashes[folder] = metrics["validation"].get("file_sha256")
        except (CheckpointError, *MALFORMED) as error:
            log.warning("skipped %s: %s", folder, error)
    if not ranked:
        raise CheckpointError(f"no checkpoint in {root}")
    # `max` and `min` return the first of equals. The folders are sorted, so the choice is
    # deterministic.
    certain = [entry for entry in ranked if entry[0][0] < 0]
    if certain:
        return min(certain, key=lambda entry: entry[0])[1]
    common = max(data_hashes.values(), key=[*data_hashes.values()].count, default=None)
    comparable = [entry for entry in ranked if data_hashes.get(entry[1], common) == common]
    return min(comparable, key=lambda entry: entry[0])[1]


def _rank(folder: Path, metrics: dict[str, Any]) -> tuple[float, float, int, float]:
    """Returns the sort key of a checkpoint; the best one has the lowest. It begins with less than 0
    if the model was right in every case. Raises CheckpointError or one of MALFORMED if the config
    or the metrics lack a value or have a wrong one."""
    data = read_config(folder)[0].get("data") or {}
    has_all_operations = all(weight > 0 for weight in data.get("operations", {}).values())
    exact_match, least_margin = -1.0, 0.0  # saved on a signal, before any validation: ranked last
    if "validation" in metrics:
        exact_match = float(metrics["validation"]["exact_match"])
    cases = metrics.get("cases")
    if cases and cases["wrong"] == 0 and has_all_operations and not cases.get("held_out"):
        least_margin = max(0.0, float(cases["least_margin"]))
    loss = float(metrics.get("val_loss", math.inf))
    if math.isnan(loss) or math.isnan(least_margin):
        raise ValueError("validation loss or margin is not a number")
    return -least_margin, -exact_match, int(metrics["parameters"]), loss


def shipped_checkpoints() -> Path:
    """Returns the folder of the shipped checkpoints: in an installed package, or beside it."""
    package = Path(__file__).resolve().parent
    folders = [package / "checkpoints", package.parent / "checkpoints"]
    return next((folder for folder in folders if folder.is_dir()), folders[-1])


def shipped_names() -> list[str]:
    """Returns the names of the shipped checkpoints."""
    return _names_under(shipped_checkpoints())


def _names_under(root: Path) -> list[str]:
    return sorted(file.parent.name for file in root.glob(f"[!.]*/{CONFIG}"))
