"""Training in processes that Ray Train starts, on this machine or on a cluster.

The processes call the same function as the processes of torchrun. They read the data and write the
run's folder, which must be on storage that all processes share.
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
from typing import TYPE_CHECKING, Any

from calcgpt.config import Recipe
from calcgpt.errors import ConfigError, UserError
from calcgpt.tables import counted
from calcgpt.training.run_folder import RunFolder
from calcgpt.training.trackers import CallbackTracker, TrackerFactory
from datagen.extras import install_line
from datagen.progress import progress_bar
from datagen.ray_cluster import connected, prepare
from datagen.workers import usable_cores

if TYPE_CHECKING:
    from ray.train.torch import TorchTrainer

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
    """Calls `train` in `workers` processes of Ray with `threads` CPU threads each. Returns the
    folder of the last checkpoint.

    `address` is that of a running cluster. Without it, Ray runs on this machine and ends with the
    run. Raises what `train` raises, and ConfigError if Ray is not installed or cannot be reached.
    A signal raises KeyboardInterrupt and ends the run without saving: the steps after the last
    checkpoint are lost.
    """
    os.environ["RAY_TRAIN_V2_ENABLED"] = "1"
    prepare(address)
    try:
        from ray import train as ray_train
        from ray.train.torch import TorchTrainer
    except ImportError:  # Ray is installed without Ray Train
        raise ConfigError(f"--engine ray needs Ray Train: {install_line('ray')}") from None
    folder = out.absolute()  # workers have another working directory
    folder.parent.mkdir(parents=True, exist_ok=True)
    arguments = {"resume": resume, "force": force, "device": device}
    if resume and not RunFolder(out).checkpoints():
        RunFolder(out).log_new_run()  # the log of a worker is not shown
    with ExitStack() as stack:
        n_cpu = max(workers * (threads or 1), usable_cores())
        stack.enter_context(connected(address, n_cpu))
        per_worker = _resources(workers, device, threads or 1, local=address is None)
        rows = stack.enter_context(_progress_bar(recipe.train.steps, progress))
        # Ray Train needs a folder that all workers share; it stays empty.
        storage = stack.enter_context(
            TemporaryDirectory(prefix=f".{folder.name}.ray-", dir=folder.parent)
        )
        trainer = TorchTrainer(
            partial(
                _work, recipe, data and data.absolute(), folder, rows, threads, trackers, arguments
            ),
            scaling_config=ray_train.ScalingConfig(
                num_workers=workers,
                use_gpu="GPU" in per_worker,
                resources_per_worker=per_worker,
            ),
            run_config=ray_train.RunConfig(name="run", storage_path=storage),
        )
        _fit(trainer)
    return RunFolder(out).checkpoints()[-1]


def _fit(trainer: TorchTrainer) -> None:
    """Trains. Raises the error of the first worker that failed."""
    from ray.train import WorkerGroupError

    # Ray's handler of Ctrl-C would end this process without a word.
    trainer._register_sigint_handler = lambda controller: None  # type: ignore[attr-defined]
    try:
        trainer.fit()
    except WorkerGroupError as error:
        failure = error.worker_failures[min(error.worker_failures)]
        if isinstance(failure, UserError | OSError):
            raise failure from None
        raise


def _work(
    recipe: Recipe,
    data: Path | None,
    out: Path,
    rows: Any,
    threads: int | None,
    trackers: Sequence[TrackerFactory],
    arguments: dict[str, Any],
) -> None:
    """Trains in one worker, in the process group of Ray Train."""
    import torch

    from calcgpt.training.train import train

    if threads:
        torch.set_num_threads(threads)
    all_trackers = [lambda run, recipe: CallbackTracker(rows.put), *trackers]
    train(recipe, data, out, **arguments, progress=False, trackers=all_trackers)


def _resources(workers: int, device: str, threads: int, local: bool) -> dict[str, float]:
    """Returns the resources of one worker. Raises ConfigError if this machine has too few."""
    import ray

    available = ray.cluster_resources()  # type: ignore[no-untyped-call]
    needed = {"CPU": float(threads)}
    if device.startswith("cuda") or (device == "auto" and available.get("GPU")):
        needed["GPU"] = 1.0
    for name, amount in needed.items():
        if available.get(name, 0) < workers * amount:
            message = (
                f"{counted(workers, 'worker')} together need {counted(workers * amount, name)}, "
                f"Ray has {available.get(name, 0):g}"
            )
            if local:
                raise ConfigError(message)
            log.warning("%s: waiting for more", message)  # a cluster may grow
    return needed


@contextmanager
def _progress_bar(steps: int, progress: bool) -> Iterator[Any]:
    """Yields a queue for rows of metrics, which a progress bar in this process shows."""
    from ray.util.queue import Queue

    rows = Queue(actor_options={"num_cpus": 0})
    bar = progress_bar(steps, progress, unit="step")

    def show() -> None:
        while row := rows.get():
            bar.update(row["step"] - bar.n)
            if "loss" in row:
                bar.set_postfix_str(f"loss {row['loss']:.4f}, {row['tokens_per_s']:,.0f} tok/s")

    thread = Thread(target=show, daemon=True)
    thread.start()
    try:
        yield rows
    finally:
        rows.put({})  # ends the thread
        thread.join()
        bar.close()
        rows.shutdown(force=True)
