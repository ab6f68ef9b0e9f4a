"""Training by processes that Ray Train starts: on this machine, or on a cluster.

They are processes like those of torchrun, and call the same function. Everything they read and
write is files: the data, and the run's folder, must be where they can see them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from tqdm import tqdm

from calcgpt.config import Recipe
from calcgpt.errors import ConfigError, UserError
from calcgpt.training.environment import usable_cores
from calcgpt.training.run_folder import RunFolder
from calcgpt.training.trackers import Row, TrackerFactory
from datagen.ray_cluster import connected, prepare

log = logging.getLogger(__name__)


def train_on_ray(
    recipe: Recipe,
    data: Path | None,
    out: Path,
    *,
    workers: int,
    address: str | None = None,
    threads: int | None = None,
    resume: bool = False,
    force: bool = False,
    device: str = "auto",
    progress: bool = True,
    trackers: Sequence[TrackerFactory] = (),
) -> Path:
    """`train` in `workers` processes of Ray, of `threads` CPU threads each; returns
    the folder of the last checkpoint.

    `address` is that of a running cluster; without it, Ray runs on this machine and ends with the
    run. Raises what `train` raises, and ConfigError where Ray is missing or not to be reached. A
    signal ends the run without saving: what is lost is what came after the last checkpoint.
    """
    os.environ["RAY_TRAIN_V2_ENABLED"] = "1"  # the trainer that this is written for
    prepare(address)
    try:
        from ray import train as ray_train
        from ray.train.torch import TorchTrainer
    except ImportError:
        raise ConfigError("--engine ray needs Ray Train: pip install 'calcgpt[ray]'") from None
    out = out.absolute()
    out.parent.mkdir(parents=True, exist_ok=True)
    arguments = {"resume": resume, "force": force, "device": device}
    with ExitStack() as held:
        n_cpu = max(workers * (threads or 1), usable_cores())
        held.enter_context(connected(address, n_cpu))
        per_worker = _resources(workers, device, threads or 1, local=address is None)
        rows = held.enter_context(_rows_shown(recipe.train.steps, progress))
        # Ray Train wants a folder that all workers see, though nothing is left in it.
        storage = held.enter_context(TemporaryDirectory(prefix=f".{out.name}.ray-", dir=out.parent))
        trainer = TorchTrainer(
            partial(
                _work, recipe, data and data.absolute(), out, rows, threads, trackers, arguments
            ),
            scaling_config=ray_train.ScalingConfig(
                num_workers=workers,
                use_gpu="GPU" in per_worker,
                resources_per_worker=per_worker,
            ),
            run_config=ray_train.RunConfig(name="run", storage_path=storage),
        )
        try:
            trainer.fit()
        except ray_train.WorkerGroupError as failed:
            first = failed.worker_failures[min(failed.worker_failures)]
            if isinstance(first, UserError | OSError):
                raise first from None
            raise
    return RunFolder(out).checkpoints()[-1]


def _work(
    recipe: Recipe,
    data: Path | None,
    out: Path,
    rows: Any,
    threads: int | None,
    trackers: Sequence[TrackerFactory],
    arguments: dict[str, Any],
) -> None:
    """What each worker does, in the process group that Ray Train has made."""
    import torch

    from calcgpt.training.train import train

    if threads:
        torch.set_num_threads(threads)
    train(
        recipe, data, out, **arguments, progress=False,
        trackers=[lambda run, recipe: _Sender(rows), *trackers],
    )  # fmt: skip


class _Sender:
    """A tracker that sends the rows to the process that started the run."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows

    def write(self, row: Row) -> None:
        self._rows.put(row)

    def close(self) -> None:
        pass


def _resources(workers: int, device: str, threads: int, local: bool) -> dict[str, float]:
    """What each worker is to have for itself; raises ConfigError where there will never be it."""
    import ray

    there = ray.cluster_resources()  # type: ignore[no-untyped-call]
    needed = {"CPU": float(threads)}
    if device.startswith("cuda") or (device == "auto" and there.get("GPU")):
        needed["GPU"] = 1.0
    for name, each in needed.items():
        if there.get(name, 0) < workers * each:
            message = f"{workers} workers need {workers * each:g} {name}s, Ray has "
            message += f"{there.get(name, 0):g}"
            if local:
                raise ConfigError(message)
            log.warning("%s: waiting for more", message)  # a cluster may grow
    return needed


@contextmanager
def _rows_shown(steps: int, progress: bool) -> Iterator[Any]:
    """A queue for rows of metrics, which are shown here as they arrive."""
    from ray.util.queue import Queue

    rows = Queue(actor_options={"num_cpus": 0})
    bar = tqdm(total=steps, unit="step", disable=not progress)

    def show() -> None:
        while row := rows.get():
            bar.update(row["step"] - bar.n)
            if "loss" in row:
                bar.set_postfix_str(f"loss {row['loss']:.4f}, {row['tokens_per_s']:,.0f} tok/s")

    shown = Thread(target=show, daemon=True)
    shown.start()
    try:
        yield rows
    finally:
        rows.put({})  # the last
        shown.join()
        bar.close()
        rows.shutdown(force=True)
