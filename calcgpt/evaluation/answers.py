"""What a model writes after prompts.

One forward pass over a line shows what greedy decoding writes at each place, as long as it has
written that line so far. If every place agrees, decoding writes exactly this line, and the pass has
the probabilities of its characters, too. Only the other lines are decoded. They need not be wrong:
work with other quotient digits may be right.

Shapes: B lines, T tokens, N characters that the model writes, V vocabulary.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcgpt.data.batches import NO_LOSS, ProblemLines
from calcgpt.data.problems import Line
from calcgpt.data.tokenizer import CharTokenizer, Tokenizer
from calcgpt.inference.generate import (
    Decoder,
    Floats,
    Ints,
    Sampling,
    generate,
    in_numpy,
    log_softmax,
)

if TYPE_CHECKING:  # other engines need no torch
    import torch

    from calcgpt.model.gpt import LanguageModel

BATCH_SIZE = 500  # prompts that are decoded together
# Tokens of a pass, padding included. On a CPU, what a layer computes of them fits in the cache.
TOKENS, TOKENS_OF_CPU, TOKENS_OF_ENGINE = 2**17, 2**12, 2**10
# Passes end if, after so many lines, most had to be decoded all the same.
N_TRIED = 200
# A place agrees only if its logit is that much above all others. Decoding and one pass add numbers
# in another order, so that logits differ by about 1e-5. Lines with a closer place are decoded.
MARGIN = 1e-3


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
    module = _torch_model(model)
    was_training = module is not None and module.training
    if module:
        module.eval()
    answers: dict[int, Answer] = {}
    if sampling.temperature == 0 and not plain:
        for found in _by_one_pass(model, characters, lines):
            answers |= found
            progress(len(found))
    others = [row for row in range(len(lines)) if row not in answers]
    for found in _by_decoding(model, characters, lines, others, sampling, batch_size):
        answers |= found
        progress(len(found))
    if module:
        module.train(was_training)
    return [answers[row] for row in range(len(lines))]


def _torch_model(decoder: Decoder) -> LanguageModel | None:
    """Returns a decoder that is a module of torch; None for that of another engine."""
    gpt = sys.modules.get("calcgpt.model.gpt")  # such a module comes from there
    return decoder if gpt and isinstance(decoder, gpt.LanguageModel) else None


def _by_one_pass(
    decoder: Decoder, tokenizer: CharTokenizer, lines: Sequence[Line]
) -> Iterator[dict[int, Answer]]:
    """Yields the answers, by row, that greedy decoding certainly writes as the lines have them."""
    limit = decoder.config.block_size + 1  # the last character is never read
    known = set(tokenizer.vocabulary)
    rows = [
        row
        for row, line in enumerate(lines)
        if len(line.prompt) + len(line.completion) <= limit
        and line.completion.partition("$")[1:] == ("$", "")  # where decoding stops
        and known.issuperset(line.prompt + line.completion)
    ]
    if not rows:
        return
    text = "".join(f"{lines[row].prompt}{lines[row].completion}\n" for row in rows)
    tokens = ProblemLines(text, tokenizer)
    n_tried = n_found = 0
    for reading in read_lines(decoder, tokens):
        part, ends = reading.rows, np.cumsum(reading.counts)[:-1]
        columns = (np.split(column, ends) for column in _agreement(reading))
        found = {
            rows[index]: Answer(lines[rows[index]].completion, probs_N.tolist())
            for index, agrees_N, probs_N in zip(part.tolist(), *columns, strict=True)
            if agrees_N.all()
        }
        n_tried, n_found = n_tried + len(part), n_found + len(found)
        if found:
            yield found
        if n_tried >= N_TRIED and n_found < n_tried / 2:
            return


class Reading(NamedTuple):
    """What a model would write at each place of some lines that follows their prompts.

    The N places are those of one line after the other.
    """

    rows: NDArray[np.intp]  # of the lines, (B,)
    counts: list[int]  # places of each line
    targets_N: Ints  # the tokens that the lines have
    logits_NV: Floats


def read_lines(decoder: Decoder, tokens: ProblemLines) -> Iterator[Reading]:
    """Yields what a model would write at each place, some lines of like lengths at a time."""
    limit = TOKENS_OF_ENGINE
    if module := _torch_model(decoder):
        limit = TOKENS_OF_CPU if _device(module).type == "cpu" else TOKENS
    for part in _alike(tokens.lengths, limit):
        inputs, targets = tokens.arrays(part)
        written = targets != NO_LOSS
        logits_NV = _logits(decoder, inputs)[written]
        yield Reading(part, written.sum(axis=1).tolist(), targets[written], logits_NV)


def _logits(decoder: Decoder, tokens_BT: Ints) -> Floats:
    """Returns the logits after each token in one pass, (B, T, V)."""
    module = _torch_model(decoder)
    if module is None:
        engine = in_numpy(decoder)
        return engine(tokens_BT, engine.new_array_cache(*tokens_BT.shape), False)
    import torch

    with torch.inference_mode():
        logits_BTV = module(torch.from_numpy(tokens_BT).to(_device(module)))
    array_BTV: Floats = logits_BTV.float().cpu().numpy()
    return array_BTV


def _device(module: LanguageModel) -> torch.device:
    return next(module.parameters()).device


def _agreement(reading: Reading) -> tuple[NDArray[np.bool_], Floats]:
    """Returns whether greedy decoding certainly writes the target at each place, (N,), and the
    probability of the target, (N,)."""
    targets_N, logits_NV = reading.targets_N, reading.logits_NV
    places = np.arange(len(targets_N))
    chosen_N = logits_NV[places, targets_N]
    probabilities_N = np.exp(log_softmax(logits_NV)[places, targets_N])
    others_NV = logits_NV.copy()
    others_NV[places, targets_N] = -np.inf
    return chosen_N > others_NV.max(axis=1) + MARGIN, probabilities_N


def _alike(lengths: NDArray[np.int64], limit: int) -> Iterator[NDArray[np.intp]]:
    """Yields the rows of each pass: lines of like lengths, in total at most `limit` tokens."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    for end in range(1, len(order) + 1):
        # The longest line comes last.
        if end == len(order) or (end + 1 - start) * lengths[order[end]] > limit:
            yield order[start:end]
            start = end


def _by_decoding(
    decoder: Decoder,
    tokenizer: CharTokenizer,
    lines: Sequence[Line],
    rows: Sequence[int],
    sampling: Sampling,
    batch_size: int,
) -> Iterator[dict[int, Answer]]:
    """Yields the answers to these rows, batch by batch. The prompts of a batch have one length."""
    module = _torch_model(decoder)
    stop = int(tokenizer.encode("$")[0])
    for index, batch in enumerate(_of_one_length(lines, rows, batch_size)):
        prompts = [tokenizer.encode(lines[row].prompt) for row in batch]
        seed = np.random.SeedSequence((sampling.seed, index)).generate_state(1)[0]
        seeded = dataclasses.replace(sampling, seed=int(seed))
        prompts_BP = np.array(prompts, np.int64)
        device = None if module is None else _device(module)
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
