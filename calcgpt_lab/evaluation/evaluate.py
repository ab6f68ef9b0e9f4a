"""What a model answers, and its character accuracy and exact match.

Accuracy looks at the answer field only: what follows the last `=`, including the closing `$`. It is
computed over all problems and by operation.

Shapes: B lines, P prompt tokens.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calcgpt.base.errors import (
    ConfigError,
    check_integer,
    check_items,
    check_types,
)
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.decoding import Decoder, Written
from calcgpt.inference.results import Confidence, confidence
from calcgpt.metrics import Accuracy, Scores
from calcgpt.tokenizer import Tokenizer
from calcgpt_lab.data.problems import Line
from calcgpt_lab.model.decoding import Model, Sampling, TokenDecoder
from datagen.operations import SIGNS

BATCH_SIZE = 500  # prompts that are decoded together


def answer(
    model: Model | Decoder,
    tokenizer: Tokenizer,
    lines: Sequence[Line],
    sampling: Sampling | None = None,
    progress: Callable[[int], Any] = lambda n: None,
    batch_size: int = BATCH_SIZE,
) -> list[Written]:
    """Returns what the model, or the decoder of another engine, writes after the prompt of every
    line, shorter prompts first.

    At a temperature above 0, each batch has its own seed, derived from `sampling.seed`. `progress`
    is called with the number of new answers. Raises DataError if the tokenizer lacks characters of
    the notation, and ConfigError for a sampled answer of an engine that has none.
    """
    decoder = model if isinstance(model, Decoder) else TokenDecoder(model, tokenizer)
    is_training = getattr(model, "training", False)
    if is_training:
        model.eval()  # type: ignore[union-attr]
    answers: dict[int, Written] = {}
    rows = sorted(range(len(lines)), key=lambda row: len(lines[row].prompt))
    for index, start in enumerate(range(0, len(rows), batch_size)):
        batch = rows[start : start + batch_size]
        prompts = [lines[row].prompt for row in batch]
        if sampling and sampling.temperature:
            if not isinstance(decoder, TokenDecoder):
                raise ConfigError("answers are sampled by the engine 'torch' alone")
            seed = np.random.SeedSequence((sampling.seed, index)).generate_state(1)[0]
            written = decoder.complete(prompts, dataclasses.replace(sampling, seed=int(seed)))
        else:
            written = decoder.complete(prompts)
        answers |= zip(batch, written, strict=True)
        progress(len(batch))
    if is_training:
        model.train()  # type: ignore[union-attr]
    return [answers[row] for row in range(len(lines))]


@dataclass(frozen=True)
class Evaluation:
    """Scores, and the outputs from which they were computed."""

    scores: Scores
    lines: list[Line]
    outputs: list[str]  # what the model wrote after each prompt
    confidences: list[Confidence]
    problems_per_second: float

    @property
    def right(self) -> list[bool]:
        """Whether each answer field is right: matches exactly, or passes the check of its task."""
        pairs = zip(self.lines, self.outputs, strict=True)
        return [line.accepts(answer_field(line, output)) for line, output in pairs]


def evaluate(
    model: Model | Decoder,
    tokenizer: Tokenizer,
    lines: Sequence[Line],
    sampling: Sampling | None = None,
    progress: Callable[[int], Any] = lambda n: None,
    batch_size: int = BATCH_SIZE,
) -> Evaluation:
    """Lets the model answer every line and scores the answers. Arguments and errors are those of
    `answer`, and there must be a line."""
    check_types(
        model=(model, Model, Decoder),
        tokenizer=(tokenizer, Tokenizer),
        sampling=(sampling, Sampling, None),
        progress=(progress, Callable),
    )
    check_items(lines=(lines, Line))
    check_integer("batch_size", batch_size, 1, 10**6)
    check_integer("the number of lines", len(lines), 1, 10**9)
    start = time.perf_counter()
    answers = answer(model, tokenizer, lines, sampling, progress, batch_size)
    seconds = time.perf_counter() - start
    outputs = [written.text for written in answers]
    confidences = [
        confidence(line.prompt, *written) for line, written in zip(lines, answers, strict=True)
    ]
    scores = score(lines, outputs)
    return Evaluation(scores, list(lines), outputs, confidences, len(lines) / seconds)


def answer_field(line: Line, output: str) -> str:
    """Returns the answer field of an output: all that follows the last `=`."""
    return (line.prompt + output).rpartition("=")[2]


def score(lines: Sequence[Line], outputs: Sequence[str]) -> Scores:
    """Returns the scores of the outputs, one after each prompt. A malformed output is wrong."""
    rows: dict[str, list[tuple[int, int, bool]]] = {}  # matching and all characters, exact match
    for line, output in zip(lines, outputs, strict=True):
        predicted = answer_field(line, output)
        matching = sum(map(str.__eq__, line.answer, predicted))
        row = (matching, len(line.answer), line.accepts(predicted))
        rows.setdefault(line.operation, []).append(row)
    all_rows = [row for group in rows.values() for row in group]
    by_operation = {op: Accuracy(**_accuracy(rows[op])) for op in SIGNS if op in rows}
    return Scores(**_accuracy(all_rows), by_operation=by_operation)


def _accuracy(rows: list[tuple[int, int, bool]]) -> dict[str, Any]:
    matching, characters, exact = (sum(column) for column in zip(*rows, strict=True))
    return {
        "n": len(rows),
        "char_accuracy": matching / characters,
        "exact_match": exact / len(rows),
    }


def predicts_text(checkpoint: Checkpoint) -> bool:
    """Whether a model was trained on plain text: its tokenizer has no notation of problems."""
    is_stream = checkpoint.recipe.train.batches == "stream"
    return is_stream and not checkpoint.tokenizer.is_notation()
