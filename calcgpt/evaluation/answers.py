"""What a model writes after prompts.

Greedy answers are read from one forward pass over the lines where that shows them
(`calcgpt.inference.drafts`). Only the others are decoded.

Shapes: B lines, P prompt tokens.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from calcgpt.data.problems import Line
from calcgpt.data.tokenizer import CharTokenizer, Tokenizer
from calcgpt.inference.drafts import confirm, device_of, torch_model
from calcgpt.inference.generate import Decoder, Sampling, generate, in_numpy

BATCH_SIZE = 500  # prompts that are decoded together
# After this many lines, the passes stop if most lines had to be decoded anyway.
N_TRIED = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model wrote after a prompt, and the probability of each of its characters."""

    output: str
    probabilities: list[float]


def answer(
    model: Decoder,
    tokenizer: Tokenizer,
    lines: Sequence[Line],
    sampling: Sampling | None = None,
    progress: Callable[[int], Any] = lambda n: None,
    batch_size: int = BATCH_SIZE,
    plain: bool = False,
) -> list[Answer]:
    """Lets the model, or the decoder of another engine, answer every line.

    Greedy answers are read from one pass where that is possible, unless `plain` is set. The others
    are decoded. At a temperature above 0, each batch has its own seed, derived from
    `sampling.seed`. `progress` is called with numbers of answers. Raises DataError if the tokenizer
    lacks characters of the notation.
    """
    characters = tokenizer.require_characters()
    sampling = sampling or Sampling()
    module = torch_model(model)
    was_training = module is not None and module.training
    if module:
        module.eval()
    answers: dict[int, Answer] = {}
    if sampling.temperature == 0 and not plain:
        for batch in _by_one_pass(model, characters, lines):
            answers |= batch
            progress(len(batch))
    others = [row for row in range(len(lines)) if row not in answers]
    for batch in _by_decoding(model, characters, lines, others, sampling, batch_size):
        answers |= batch
        progress(len(batch))
    if module:
        module.train(was_training)
    return [answers[row] for row in range(len(lines))]


def _by_one_pass(
    decoder: Decoder, tokenizer: CharTokenizer, lines: Sequence[Line]
) -> Iterator[dict[int, Answer]]:
    """Yields the answers, by row, that one pass shows to be what greedy decoding writes."""
    n_tried = n_confirmed = 0
    prompts, completions = [line.prompt for line in lines], [line.completion for line in lines]
    for drafts in confirm(decoder, tokenizer, prompts, completions):
        confirmed = {
            draft.row: Answer(completions[draft.row], draft.probabilities)
            for draft in drafts
            if draft.is_whole
        }
        n_tried, n_confirmed = n_tried + len(drafts), n_confirmed + len(confirmed)
        if confirmed:
            yield confirmed
        if n_tried >= N_TRIED and n_confirmed < n_tried / 2:
            return


def _by_decoding(
    decoder: Decoder,
    tokenizer: CharTokenizer,
    lines: Sequence[Line],
    rows: Sequence[int],
    sampling: Sampling,
    batch_size: int,
) -> Iterator[dict[int, Answer]]:
    """Yields the answers to these rows, batch by batch. The prompts of a batch have one length."""
    module = torch_model(decoder)
    stop = int(tokenizer.encode("$")[0])
    for index, batch in enumerate(_of_one_length(lines, rows, batch_size)):
        prompts = [tokenizer.encode(lines[row].prompt) for row in batch]
        seed = np.random.SeedSequence((sampling.seed, index)).generate_state(1)[0]
        seeded = dataclasses.replace(sampling, seed=int(seed))
        prompts_BP = np.array(prompts, np.int64)
        device = None if module is None else device_of(module)
        completions = generate(in_numpy(decoder, device), prompts_BP, stop, sampling=seeded)
        yield {
            row: Answer(tokenizer.decode(completion.ids), completion.probabilities)
            for row, completion in zip(batch, completions, strict=True)
        }


def _of_one_length(
    lines: Sequence[Line], rows: Sequence[int], batch_size: int
) -> Iterator[Sequence[int]]:
    def prompt_length(row: int) -> int:
        return len(lines[row].prompt)

    for _, group in groupby(sorted(rows, key=prompt_length), key=prompt_length):
        alike = list(group)
        for start in range(0, len(alike), batch_size):
            yield alike[start : start + batch_size]
