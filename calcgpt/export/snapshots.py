"""Export of a training run's snapshots, which the page shows as *Watch it learn*.

NAME-of-a-snapshot.safetensors   its weights, with numbers of 16 bits
learning.json                    the steps, losses and hashes of these files, and the loss curve
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from calcgpt.checkpoint import Checkpoint, check_replaceable
from calcgpt.errors import ConfigError
from calcgpt.inference.browser import weights_file
from calcgpt.metrics import read_rows
from datagen.files import new_folder, write_bytes, write_json

MARKER = "learning.json"
MOST_BYTES = 6_000_000  # of all snapshots


def export_snapshots(run: Path, out: Path, force: bool) -> str:
    """Writes the checkpoints in the folder `run`, whose `metrics.jsonl` has the losses.

    Raises ConfigError if there are fewer than two, if they are not of one shape, if their files
    have more than MOST_BYTES, or if the engine in the browser cannot run them; CheckpointError if
    one is damaged or `out` may not be replaced; DataError if the metrics cannot be read.
    """
    check_replaceable(out, MARKER, force)
    folders = sorted(path.parent for path in run.glob("[!.]*/config.json"))
    loaded = [Checkpoint.load(folder) for folder in folders]
    loaded.sort(key=lambda checkpoint: int(checkpoint.metrics["step"]))
    if len(loaded) < 2:
        raise ConfigError(f"fewer than two checkpoints in {run}")
    if len({checkpoint.recipe.model.model_dump_json() for checkpoint in loaded}) > 1:
        raise ConfigError(f"the checkpoints in {run} are of several shapes")
    rows = read_rows(run / "metrics.jsonl")
    curve = [(row.step, row.loss) for row in rows if row.loss is not None]
    files = {f"{checkpoint.name}.safetensors": weights_file(checkpoint) for checkpoint in loaded}
    if (size := sum(map(len, files.values()))) > MOST_BYTES:
        raise ConfigError(f"the snapshots have {size:,} bytes; at most {MOST_BYTES:,} are allowed")
    snapshots = []
    for checkpoint, (file, content) in zip(loaded, files.items(), strict=True):
        step = int(checkpoint.metrics["step"])
        loss = min(curve, key=lambda point: abs(point[0] - step))[1]
        digest = hashlib.sha256(content).hexdigest()
        snapshots.append({"step": step, "loss": loss, "file": file, "sha256": digest})
    last = loaded[-1]
    with new_folder(out) as staging:
        for file, content in files.items():
            write_bytes(staging / file, content)
        described = {
            "description": last.recipe.description,
            "parameters": last.metrics["parameters"],
            "snapshots": snapshots,
            "curve": curve,
        }
        write_json(staging / MARKER, described)
    return f"{len(loaded)} snapshots of a training run"
