"""Processes that prepare batches, while this one trains: they draw problems and render them as
text, or compute the coordinates of text that a model needs.

A worker is this module, run as a program. It reads requests from its standard input, as lines of
JSON, and writes the answer to each as its length and its bytes. It ends when its input is closed,
so also when its parent ends. It does not import the parent's main module, as multiprocessing would,
nor torch.

A worker that fails writes nothing. The parent then does the same work, and so gets the same error.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Hashable
from functools import lru_cache
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any, NamedTuple

import numpy as np

from calcgpt.config import DataConfig
from calcgpt.data.problems import FreshProblems
from datagen.arithmetic import ProblemArray
from datagen.coordinates import Codes, Coordinates, batch_coordinates

log = logging.getLogger(__name__)
_PER_WORKER = 2  # requests that wait for each worker or are answered by it
_LENGTH = 8  # bytes of the length of an answer


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
    """Up to `count` processes, each started when it is first needed. A request has a key, by which
    its answer is received."""

    def __init__(self, first_line: dict[str, object], count: int) -> None:
        self.first_line = first_line
        self.capacity = count * _PER_WORKER  # requests ahead
        self._n_unstarted = count
        self._workers: deque[_Worker] = deque()  # the worker for the next request comes first
        self._requested: dict[Hashable, _Worker] = {}

    def request(self, key: Hashable, content: object) -> None:
        """Sends a request. Does nothing if the key is in use or `capacity` requests are open."""
        if key in self._requested or len(self._requested) >= self.capacity:
            return
        if self._n_unstarted:
            self._n_unstarted -= 1
            try:
                self._workers.appendleft(_Worker(self.first_line))
            except OSError as error:  # too little memory, or too many processes
                log.warning("a process that prepares batches does not start: %s", error.strerror)
                self._n_unstarted = 0
        if self._workers:
            self._requested[key] = self._workers[0]
            self._workers[0].request(key, content)
            self._workers.rotate(-1)

    def receive(self, key: Hashable) -> bytes | None:
        """Waits for an answer. Returns None if there is no such request or its worker has ended."""
        worker = self._requested.pop(key, None)
        if worker is None:
            return None
        try:
            answer = worker.receive(key)
        except (OSError, EOFError):
            log.warning("a process that prepares batches has ended: training goes on without it")
            self._requested = {k: w for k, w in self._requested.items() if w is not worker}
            self._workers.remove(worker)
            worker.close()
            return None
        return answer

    def close(self) -> None:
        """Ends the workers."""
        while self._workers:
            self._workers.pop().close()
        self._requested.clear()


def renderers(problems: FreshProblems, count: int) -> Workers:
    """Returns workers that render chunks. The content of a request is a Chunk."""
    return Workers({"data": problems.config.model_dump(), "seed": problems.seed}, count)


class CoordinateWorkers:
    """Workers that compute the coordinates of text (`datagen.coordinates`)."""

    def __init__(self, count: int) -> None:
        self._workers = Workers({}, count)

    def request(self, key: Hashable, codes_BT: Codes) -> None:
        """Asks a worker for the coordinates of a batch; `codes_BT` is (B, T)."""
        self._workers.request(key, [row.tobytes().decode("latin-1") for row in codes_BT])

    def receive(self, key: Hashable, codes_BT: Codes) -> Coordinates:
        """Returns the coordinates, (B, T, 6), from a worker or else from this process."""
        answer = self._workers.receive(key)
        if answer is None:
            return batch_coordinates(codes_BT)
        return np.frombuffer(answer, np.int16).reshape(*codes_BT.shape, -1)

    def close(self) -> None:
        """Ends the workers."""
        self._workers.close()


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
        self.requested: deque[Hashable] = deque()
        self.ready: dict[Hashable, bytes] = {}
        self._write(first_line)

    def request(self, key: Hashable, content: object) -> None:
        self.requested.append(key)
        self._write(content)

    def receive(self, key: Hashable) -> bytes:
        """Returns the answer to a request, once. Raises EOFError if the worker has ended."""
        while key not in self.ready:
            length = int.from_bytes(_read(self.output, _LENGTH))
            self.ready[self.requested.popleft()] = _read(self.output, length)
        return self.ready.pop(key)

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


def _renderer(settings: dict[str, Any]) -> Callable[[Any], bytes]:
    problems = FreshProblems(DataConfig.model_validate(settings["data"]), settings["seed"])
    return lambda chunk: render_chunk(problems, Chunk(*chunk))


def _reader(_: dict[str, Any]) -> Callable[[Any], bytes]:
    def read(rows: list[str]) -> bytes:
        codes_BT = [np.frombuffer(row.encode("latin-1"), np.uint8) for row in rows]
        return batch_coordinates(np.stack(codes_BT)).tobytes()

    return read


def main() -> None:
    """The worker: answers until its input ends."""
    lines: SimpleQueue[bytes | None] = SimpleQueue()
    answers = sys.stdout.buffer
    # In a thread, so that the parent can always write: it may read answers only after that.
    Thread(target=_read_lines, args=(lines,), daemon=True).start()
    settings = json.loads(lines.get() or "{}")
    answer_to = (_renderer if "data" in settings else _reader)(settings)
    for line in iter(lines.get, None):
        answer = answer_to(json.loads(line))
        answers.write(len(answer).to_bytes(_LENGTH) + answer)
        answers.flush()


def _read_lines(lines: SimpleQueue[bytes | None]) -> None:
    for line in sys.stdin.buffer:
        lines.put(line)
    lines.put(None)


if __name__ == "__main__":
    main()
