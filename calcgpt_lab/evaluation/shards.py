"""Scoring of many problems: in shards, by several processes, continued after an interruption.

A folder can keep the results: `scoring.json` identifies the problems and how they are scored, and
`shard-00000.jsonl` and so on hold the scored problems, one JSON object per line (`ScoredAnswer`).
"""

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from pydantic import Field, field_validator

import calcgpt
import calcgpt_lab
import datagen
from calcgpt.base.errors import DataError
from calcgpt.base.files import (
    locked,
    parse_json,
    read_json,
    read_text,
    sha256,
    text_sha256,
    write_json,
    write_text,
)
from calcgpt.checkpoint import CONFIG, Checkpoint
from calcgpt.inference.decoding import Decoder
from calcgpt.inference.engines import load_decoder
from calcgpt.inference.results import NOT_CONFIDENT, Confidence
from calcgpt.metrics import PartialModel
from calcgpt.section import build
from calcgpt_lab.data.problems import Line, split_line
from calcgpt_lab.evaluation.evaluate import Evaluation, evaluate, score
from calcgpt_lab.parallel import WorkersDiedError, make_map
from datagen.arithmetic import ProblemArray
from datagen.formats import renderer

SHARD_SIZE = 500  # problems of a shard: some seconds of work
MANIFEST = "scoring.json"
VERSION = 1  # raise it with every change of the content of a shard

Shard: TypeAlias = Sequence[Line] | ProblemArray


class ScoredAnswer(PartialModel):
    """A problem, and whether a model answered it right, with its confidence and its output.

    `completion` is the reference and `output` is what the model wrote in its place. Both are None
    if the model wrote the reference.
    """

    prompt: str = Field(max_length=300)
    right: bool
    confidence: Confidence
    completion: str | None = None
    output: str | None = None

    @field_validator("confidence")
    @classmethod
    def _are_probabilities(cls, confidence: Confidence) -> Confidence:
        if not _is_valid(confidence):
            raise ValueError("probabilities are from 0 to 1")
        return confidence


def _is_valid(confidence: Confidence) -> bool:
    return all(0 <= probability <= 1 for _, probability in confidence)


class ScoredShard(NamedTuple):
    """The scored problems of a shard, and whether they are new, not read from a folder."""

    rows: list[ScoredAnswer]
    is_new: bool


@dataclass(frozen=True)
class Scoring:
    """How to score: a function of a shard that can be sent to other processes.

    A shard of problems is rendered in `format` first; a shard of lines is scored as it is. For
    machines that do not have the folder, it can bring the loaded checkpoint along.
    """

    checkpoint: Path
    device: str = "cpu"
    engine: str = "torch"  # what decodes
    format: str = "direct"
    threads: int | None = None  # of the engine; None leaves their number as it is
    loaded: Checkpoint | None = field(default=None, compare=False, repr=False)

    def __call__(self, shard: Shard) -> list[ScoredAnswer]:
        checkpoint, _, decoder = _load(self)
        if isinstance(shard, ProblemArray):
            text = renderer(self.format)(shard).decode("ascii")
            shard = [split_line(line) for line in text.splitlines()]
        evaluation = evaluate(decoder, checkpoint.tokenizer, shard)
        return scored_answers(evaluation)

    def manifest(self, source: dict[str, Any]) -> dict[str, Any]:
        """Returns all that determines the shards, apart from how a device rounds. `source`
        identifies the problems."""
        return {
            "version": VERSION,
            "checkpoint": sha256(self.checkpoint / CONFIG),  # which has the hashes of the weights
            "engine": self.engine,
            "format": self.format,
            "shard_size": SHARD_SIZE,
            **source,
        }


@lru_cache(maxsize=2)
def _load(scoring: Scoring) -> tuple[Checkpoint, str, Decoder]:
    """Returns the checkpoint, the engine and its decoder, which are kept for the next shard."""
    checkpoint = scoring.loaded or Checkpoint.load(scoring.checkpoint)
    if scoring.engine == "torch":
        checkpoint.model.to(scoring.device)
    return checkpoint, *load_decoder(checkpoint, scoring.engine, scoring.threads)


def load_for_scoring(
    folder: Path, device: str, engine: str, threads: int | None
) -> tuple[Checkpoint, str, Decoder]:
    """Returns a checkpoint, the name of the engine, which may be given as "auto", and its decoder.
    Only the engine `torch` uses `device`: the others run on the CPU, where torch has the `threads`
    that are fastest if that is None."""
    checkpoint, name, decoder = _load(Scoring(folder, device, engine, threads=threads))
    if name == "torch" and device == "cpu" and threads is None:
        from calcgpt_lab.threads import choose_threads

        choose_threads(checkpoint.model)
    return checkpoint, name, decoder


def scored_answers(evaluation: Evaluation) -> list[ScoredAnswer]:
    """Returns the problems of an evaluation with their answers. A confidence that is not a number,
    from a model with weights that are not finite, is stored as 0."""
    columns = (evaluation.lines, evaluation.outputs, evaluation.confidences, evaluation.right)
    return [
        ScoredAnswer(
            prompt=line.prompt,
            right=right,
            confidence=confidence if _is_valid(confidence) else NOT_CONFIDENT,
            completion=None if output == line.completion else line.completion,
            output=None if output == line.completion else output,
        )
        for line, output, confidence, right in zip(*columns, strict=True)
    ]


def shards_of(problems: Sequence[Line] | ProblemArray) -> list[Shard]:
    """Returns the problems in shards, in their order."""
    return [problems[start : start + SHARD_SIZE] for start in range(0, len(problems), SHARD_SIZE)]


def score_shards(
    scoring: Scoring,
    shards: Sequence[Shard],
    source: dict[str, Any],
    *,
    workers: int | None = None,
    ray_address: str | None = None,
    folder: Path | None = None,
    progress: Callable[[int], Any] = lambda n: None,
) -> Generator[ScoredShard, None, None]:
    """Yields the scored problems of each shard, in order. Close the generator if you stop early.

    By default, this process scores the shards. With `workers`, that many processes with one thread
    each do; with `ray_address`, the Ray cluster at that address, which gets the checkpoint and this
    code. Shards that `folder` has are read from it, and new shards are written to it. `progress` is
    called with the number of problems in each shard. Raises DataError if the folder holds other
    shards or damaged ones, or if a worker dies; the next call continues.
    """
    with locked(folder, "scoring", DataError) if folder else nullcontext():
        if folder:
            check_manifest(folder, scoring.manifest(source))
        paths = [folder and folder / f"shard-{index:05}.jsonl" for index in range(len(shards))]
        kept = [path if path and path.exists() else None for path in paths]
        missing = [shard for shard, path in zip(shards, kept, strict=True) if path is None]
        try:
            with closing(_compute(scoring, missing, workers, ray_address)) as computed:
                for shard, path, old in zip(shards, paths, kept, strict=True):
                    rows = _read_shard(old, len(shard)) if old else next(computed)
                    if path and not old:
                        write_text(path, to_jsonl(rows))
                    progress(len(rows))
                    yield ScoredShard(rows, not old)
        except WorkersDiedError as error:
            if folder:
                raise DataError(f"{error}: the same command continues") from error
            raise


def evaluate_in_shards(
    scoring: Scoring,
    lines: Sequence[Line],
    progress: Callable[[int], Any] = lambda n: None,
    **options: Any,
) -> Evaluation:
    """Returns what `evaluate` returns for greedy answers. `options` and errors are those of
    `score_shards`."""
    start = time.perf_counter()
    text = "".join(f"{line.prompt}{line.completion}\n" for line in lines)
    source = {"lines_sha256": text_sha256(text)}
    shards = list(score_shards(scoring, shards_of(lines), source, progress=progress, **options))
    seconds = time.perf_counter() - start
    rows = [row for shard in shards for row in shard.rows]
    n_new = sum(len(shard.rows) for shard in shards if shard.is_new)
    outputs = [
        line.completion if row.output is None else row.output
        for line, row in zip(lines, rows, strict=True)
    ]
    confidences = [row.confidence for row in rows]
    scores = score(lines, outputs)
    return Evaluation(scores, list(lines), outputs, confidences, n_new / seconds)


def _compute(
    scoring: Scoring, shards: Sequence[Shard], workers: int | None, ray_address: str | None
) -> Generator[list[ScoredAnswer], None, None]:
    if not shards:
        return
    if ray_address is not None:
        scoring = replace(scoring, loaded=Checkpoint.load(scoring.checkpoint))
        yield from make_map("ray", workers, ray_address, [calcgpt, calcgpt_lab, datagen])(
            scoring, shards
        )
    elif workers is not None:
        yield from make_map("local", workers)(scoring, shards)
    else:
        yield from map(scoring, shards)


def check_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Writes the manifest to a new folder. Raises DataError if the folder has a different one."""
    path = folder / MANIFEST
    if path.exists():
        stored = read_json(path)
        keys = manifest.keys() | stored
        different = sorted(key for key in keys if manifest.get(key) != stored.get(key))
        if different:
            names = ", ".join(different)
            raise DataError(f"{folder} has scores that differ in {names}: choose another folder")
    elif any(folder.glob("shard-*")):
        raise DataError(f"{folder} has shards but no {MANIFEST}: choose another folder")
    else:
        write_json(path, manifest)


def to_jsonl(rows: Iterable[ScoredAnswer]) -> str:
    """Returns one JSON object per line."""
    return "".join(f"{row.model_dump_json(exclude_none=True)}\n" for row in rows)


def read_scored(path: Path) -> Iterator[ScoredAnswer]:
    """Yields the problems of a file of scored problems. Raises DataError or ConfigError, which
    names the first bad line."""
    for number, line in enumerate(read_text(path).removesuffix("\n").split("\n"), start=1):
        source = f"{path}, line {number}"
        content = parse_json(line, source)
        yield build(ScoredAnswer, content, f"{source} is not a scored problem", "a JSON object")


def _read_shard(path: Path, n: int) -> list[ScoredAnswer]:
    rows = list(read_scored(path))
    if len(rows) != n:
        raise DataError(f"{path} is damaged: remove it, and the same command continues")
    return rows
