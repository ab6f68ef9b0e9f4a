"""Scoring of many problems by several processes, or on a Ray cluster, in shards."""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import calcgpt
import calcgpt_lab
import datagen
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.decoding import Decoder
from calcgpt.inference.engines import load_decoder
from calcgpt_lab.data.problems import Line
from calcgpt_lab.evaluation.evaluate import Evaluation, evaluate, score
from calcgpt_lab.parallel import make_map

SHARD_SIZE = 500  # problems of a shard: some seconds of work
THREADS = 1  # of an engine: a pass that writes a character has too little work for more


@dataclass(frozen=True)
class Scoring:
    """How to score: a function of a shard that can be sent to other processes.

    For machines that do not have the folder, it can bring the loaded checkpoint along.
    """

    checkpoint: Path
    device: str = "cpu"
    engine: str = "torch"  # what decodes
    loaded: Checkpoint | None = field(default=None, compare=False, repr=False)

    def __call__(self, lines: Sequence[Line]) -> Evaluation:
        checkpoint, _, decoder = _load(self)
        return evaluate(decoder, checkpoint.tokenizer, lines)


@lru_cache(maxsize=2)
def _load(scoring: Scoring) -> tuple[Checkpoint, str, Decoder]:
    """Returns the checkpoint, the engine and its decoder, which are kept for the next shard."""
    checkpoint = scoring.loaded or Checkpoint.load(scoring.checkpoint)
    if scoring.engine == "torch":
        checkpoint.model.to(scoring.device)
    return checkpoint, *load_decoder(checkpoint, scoring.engine, THREADS)


def load_for_scoring(folder: Path, device: str, engine: str) -> tuple[Checkpoint, str, Decoder]:
    """Returns a checkpoint, the name of the engine, which may be given as "auto", and its decoder.
    Only the engine `torch` uses `device`: the others run on the CPU."""
    return _load(Scoring(folder, device, engine))


def score_shards(
    scoring: Scoring,
    lines: Sequence[Line],
    workers: int | None = None,
    ray_address: str | None = None,
) -> Generator[Evaluation, None, None]:
    """Yields the evaluation of each shard, in order. Close the generator if you stop early.

    `workers` processes score the shards or, with `ray_address`, the Ray
    cluster at that address, which gets the checkpoint and this code. Raises DataError if a worker
    dies.
    """
    compute = make_map("local", workers)
    if ray_address is not None:
        scoring = replace(scoring, loaded=Checkpoint.load(scoring.checkpoint))
        compute = make_map("ray", workers, ray_address, [calcgpt, calcgpt_lab, datagen])
    shards = [lines[start : start + SHARD_SIZE] for start in range(0, len(lines), SHARD_SIZE)]
    with closing(compute(scoring, shards)) as evaluations:
        yield from evaluations


def evaluate_in_shards(
    scoring: Scoring,
    lines: Sequence[Line],
    progress: Callable[[int], Any] = lambda n: None,
    **options: Any,
) -> Evaluation:
    """Returns what `evaluate` returns for greedy answers. `options` and errors are those of
    `score_shards`."""
    start, outputs, confidences = time.perf_counter(), [], []
    for shard in score_shards(scoring, lines, **options):
        outputs += shard.outputs
        confidences += shard.confidences
        progress(len(shard.lines))
    seconds = time.perf_counter() - start
    scores = score(lines, outputs)
    return Evaluation(scores, list(lines), outputs, confidences, len(lines) / seconds)
