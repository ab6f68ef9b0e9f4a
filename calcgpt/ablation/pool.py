"""Jobs in processes beside each other, with one view of them all."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

import torch
from tqdm import tqdm

from calcgpt.ablation import job as jobs
from calcgpt.ablation.job import Job
from calcgpt.errors import UserError
from calcgpt.train import Interrupted

_CONTEXT = get_context("spawn")  # a forked process would inherit torch's threads


@dataclass(frozen=True)
class Failure:
    """A job that did not end as it should."""

    job: Job
    reason: str


@dataclass
class Worker:
    """A process at its job."""

    job: Job
    slot: int
    process: SpawnProcess
    messages: Connection
    failure: str = field(default="it ended without a word (no memory?)")


def run_all(
    todo: Sequence[Job], n_process: int, devices: Sequence[str], threads: int, progress: bool
) -> list[Failure]:
    """Run every job, at most `n_process` at a time, process i on the device i modulo their number.

    Returns those that failed; the others were not stopped by it. On KeyboardInterrupt the processes
    save their state first.
    """
    waiting, running = deque(todo), list[Worker]()
    failures = []
    with View(todo, n_process, progress) as view:
        try:
            while waiting or running:
                while waiting and len(running) < n_process:
                    slot = min(set(range(n_process)) - {worker.slot for worker in running})
                    device = devices[slot % len(devices)]
                    running.append(_start(waiting.popleft(), slot, device, threads))
                for ready in wait([worker.messages for worker in running]):
                    [worker] = [w for w in running if w.messages is ready]
                    message = _receive(worker)
                    if message is not None:
                        view.update(worker, message)
                        continue
                    running.remove(worker)
                    worker.process.join()
                    view.ended(worker)
                    if worker.process.exitcode:
                        failures.append(Failure(worker.job, worker.failure))
        finally:
            _stop(running)
    return failures


def _start(job: Job, slot: int, device: str, threads: int) -> Worker:
    messages, sender = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_work, args=(job, device, threads, sender))
    process.start()
    sender.close()  # the process has its own: when it ends, so do the messages
    return Worker(job, slot, process, messages)


def _receive(worker: Worker) -> dict[str, Any] | None:
    """The next message; None at the end, and after a reason to have failed."""
    try:
        message: dict[str, Any] = worker.messages.recv()
    except EOFError:
        return None
    if "failure" in message:
        worker.failure = message["failure"]
    return message


def _stop(running: Sequence[Worker]) -> None:
    """Let the processes save their state and end."""
    for worker in running:
        worker.process.terminate()
    for worker in running:
        worker.process.join()


def _work(job: Job, device: str, threads: int, sender: Connection) -> None:
    """What a process does: one job."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(threads)

    def tell(message: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):  # nobody is left to listen: we are about to end as well
            sender.send(message)

    try:
        jobs.run(job, device, tell)
    except (Interrupted, KeyboardInterrupt):
        sys.exit(130)
    except UserError as error:
        tell({"failure": str(error)})
        sys.exit(2)
    except OSError as error:
        tell({"failure": f"{error.filename or 'file'}: {error.strerror or error}"})
        sys.exit(2)


def _end_with_parent() -> None:
    """A process whose parent was killed saves its state and ends, as if asked to."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


class View:
    """What a person sees: a bar over all steps and one for each process on a terminal, else a line
    for each job that ends."""

    def __init__(self, todo: Sequence[Job], n_process: int, progress: bool) -> None:
        self._progress = progress
        self._bars = progress and sys.stderr.isatty()
        self._left = len(todo)
        self._seen = {job.name: job.steps_done() for job in todo}
        total = sum(job.recipe.train.steps for job in todo)
        self._all = tqdm(total=total, initial=sum(self._seen.values()), unit="step", position=0,
                         disable=not self._bars, smoothing=0.02)  # fmt: skip
        self._each = [
            tqdm(position=1 + slot, disable=not self._bars, leave=False, unit="step")
            for slot in range(n_process)
        ]
        self._tell()

    def __enter__(self) -> View:
        return self

    def __exit__(self, *error: object) -> None:
        for bar in (*self._each, self._all):
            bar.close()

    def update(self, worker: Worker, message: dict[str, Any]) -> None:
        """A job is at `step`."""
        if "step" not in message:
            return
        step, job, bar = message["step"], worker.job, self._each[worker.slot]
        self._all.update(step - self._seen[job.name])
        self._seen[job.name] = step
        bar.total, bar.n = job.recipe.train.steps, step
        bar.set_description_str(job.name, refresh=False)
        done = "; scoring" if step == bar.total else ""
        bar.set_postfix_str(f"loss {message['loss']:.4f}{done}")

    def ended(self, worker: Worker) -> None:
        """A job's process is gone."""
        self._left -= 1
        self._each[worker.slot].reset()
        self._tell()
        if self._progress:
            how = worker.failure if worker.process.exitcode else "done"
            tqdm.write(f"{worker.job.name}: {how} ({self._left} left)", file=sys.stderr)

    def _tell(self) -> None:
        self._all.set_description_str(f"{self._left} runs left")
