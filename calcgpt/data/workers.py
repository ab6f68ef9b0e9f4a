"""Processes that draw problems and render them as text, while this one trains.

A worker is this module, run as a program. It reads the chunks that are wanted from its standard
input, as lines of JSON, and writes each as its length and its bytes. It ends with its input, and so
with its parent. It does not import the parent's main module, as multiprocessing would, nor torch.

A worker that fails writes nothing. The parent then renders the chunk itself, and raises the error.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections import deque
from functools import lru_cache
from typing import IO, NamedTuple

import numpy as np

from calcgpt.config import DataConfig
from calcgpt.data.problems import FreshProblems
from datagen.arithmetic import ProblemArray

log = logging.getLogger(__name__)
_PER_WORKER = 2  # chunks that wait for each worker or are made by it
_LENGTH = 8  # bytes of the length of a chunk


class Chunk(NamedTuple):
    """Problems of a block: the number and size of the block, and the range of rows."""

    block: int
    size: int
    start: int
    stop: int


def render_chunk(problems: FreshProblems, chunk: Chunk) -> bytes:
    """Returns the lines of a chunk. Raises what drawing it raises."""
    block = _block(problems, chunk.block, chunk.size)
    return problems.render(block.take(np.arange(chunk.start, chunk.stop)))


@lru_cache(maxsize=2)
def _block(problems: FreshProblems, index: int, size: int) -> ProblemArray:
    """Draws a block once for all its chunks."""
    return problems.block(index, size)


class Workers:
    """Up to `count` processes, each started when it is first needed."""

    def __init__(self, problems: FreshProblems, count: int) -> None:
        self.first_line = {"data": problems.config.model_dump(), "seed": problems.seed}
        self.capacity = count * _PER_WORKER  # chunks ahead
        self._n_unstarted = count
        self._workers: deque[_Worker] = deque()  # the worker for the next request comes first
        self._requested: dict[Chunk, _Worker] = {}

    def request(self, chunk: Chunk) -> None:
        """Has a worker render the chunk, unless one does already."""
        if chunk in self._requested or len(self._requested) >= self.capacity:
            return
        if self._n_unstarted:
            self._n_unstarted -= 1
            try:
                self._workers.appendleft(_Worker(self.first_line))
            except OSError as error:  # too little memory, or too many processes
                log.warning("a process that draws problems does not start: %s", error.strerror)
                self._n_unstarted = 0
        if self._workers:
            self._requested[chunk] = self._workers[0]
            self._workers[0].request(chunk)
            self._workers.rotate(-1)

    def receive(self, chunk: Chunk) -> bytes | None:
        """Waits for the text of a chunk and returns it. Returns None if the chunk was not requested
        or its worker has ended."""
        worker = self._requested.pop(chunk, None)
        if worker is None:
            return None
        try:
            text = worker.receive(chunk)
        except (OSError, EOFError):
            log.warning("a process that draws problems has ended: training goes on without it")
            self._requested = {c: w for c, w in self._requested.items() if w is not worker}
            self._workers.remove(worker)
            worker.close()
            return None
        return text

    def close(self) -> None:
        """Ends the workers."""
        while self._workers:
            self._workers.pop().close()
        self._requested.clear()


class _Worker:
    """One process."""

    def __init__(self, first_line: dict[str, object]) -> None:
        self.process = subprocess.Popen(  # nosec B603  # this Python, a module of ours
            [sys.executable, "-P", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # The parent's import path, and one thread for NumPy.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is for the parent
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input, self.output = self.process.stdin, self.process.stdout
        self.requested: deque[Chunk] = deque()
        self.ready: dict[Chunk, bytes] = {}
        self._write(first_line)

    def request(self, chunk: Chunk) -> None:
        self.requested.append(chunk)
        self._write(chunk)

    def receive(self, chunk: Chunk) -> bytes:
        """Returns the text of a requested chunk, once. Raises EOFError if the worker has
        ended."""
        while chunk not in self.ready:
            length = int.from_bytes(_read(self.output, _LENGTH))
            self.ready[self.requested.popleft()] = _read(self.output, length)
        return self.ready.pop(chunk)

    def close(self) -> None:
        self.process.kill()  # safe at any time: a worker writes no files
        self.process.communicate()

    def _write(self, content: object) -> None:
        try:
            self.input.write(json.dumps(content).encode() + b"\n")
            self.input.flush()
        except BrokenPipeError:
            pass  # `receive` notices that the worker has ended


def _read(stream: IO[bytes], length: int) -> bytes:
    content = stream.read(length)
    if len(content) < length:
        raise EOFError
    return content


def main() -> None:
    """The worker: answers until its input ends."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    settings = json.loads(requests.readline())
    problems = FreshProblems(DataConfig.model_validate(settings["data"]), settings["seed"])
    for line in requests:
        text = render_chunk(problems, Chunk(*json.loads(line)))
        answers.write(len(text).to_bytes(_LENGTH) + text)
        answers.flush()


if __name__ == "__main__":
    main()
