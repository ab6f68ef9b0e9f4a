"""Scoring of many problems by several processes, in shards."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from calcgpt.base.errors import UserError
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.decoding import Decoder
from calcgpt.inference.engines import AUTO, load_decoder
from calcgpt_lab.data.problems import Line
from calcgpt_lab.evaluation.evaluate import Evaluation, evaluate, score
from calcgpt_lab.parallel import parallel_map

SHARD_SIZE = 500  # problems of a shard: some seconds of work
THREADS = 1  # of an engine: a pass that writes a character has too little work for more


@dataclass(frozen=True)
class Scoring:
    """How to score: a function of a shard that can be sent to other processes."""

    checkpoint: Path
    device: str = "cpu"
    engine: str = "torch"  # what decodes

    def __call__(self, lines: Sequence[Line]) -> Evaluation:
        checkpoint, _, decoder = load_for_scoring(self.checkpoint, self.device, self.engine)
        return evaluate(decoder, checkpoint.tokenizer, lines)


@lru_cache(maxsize=2)  # for the next shard
def load_for_scoring(folder: Path, device: str, engine: str) -> tuple[Checkpoint, str, Decoder]:
    """Returns a checkpoint, the name of the engine, which may be given as AUTO, and its decoder.

    Only the engine `torch` runs on other devices than the CPU. Raises UserError if another one is
    to use one, and what `pick_device` and `load_decoder` raise.
    """
    if device not in ("auto", "cpu"):
        if engine not in (AUTO, "torch"):
            raise UserError(f"--device {device} is for --engine torch")
        engine = "torch"
    checkpoint = Checkpoint.load(folder)
    engine, decoder = load_decoder(checkpoint, engine, THREADS)
    if engine == "torch":
        from calcgpt_lab.model.devices import pick_device

        checkpoint.model.to(pick_device(device))
    return checkpoint, engine, decoder


def evaluate_in_shards(
    scoring: Scoring,
    lines: Sequence[Line],
    progress: Callable[[int], Any] = lambda n: None,
    workers: int = 1,
) -> Evaluation:
    """Returns what `evaluate` returns for greedy answers. `workers` processes score the shards.
    Raises DataError if one of them dies."""
    start, outputs, confidences = time.perf_counter(), [], []
    shards = [lines[first : first + SHARD_SIZE] for first in range(0, len(lines), SHARD_SIZE)]
    with closing(parallel_map(scoring, shards, workers)) as evaluations:
        for shard in evaluations:
            outputs += shard.outputs
            confidences += shard.confidences
            progress(len(shard.lines))
    seconds = time.perf_counter() - start
    return Evaluation(
        score(lines, outputs), list(lines), outputs, confidences, len(lines) / seconds
    )
