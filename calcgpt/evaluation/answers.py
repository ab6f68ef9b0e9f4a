"""What a model writes after prompts.

One forward pass over a line shows what greedy decoding writes at each place, as long as it has
written that line so far. If every place agrees, decoding writes exactly this line, and the pass has
the probabilities of its characters, too. Only the other lines are decoded. They need not be wrong:
work with other quotient digits may be right.

Shapes: B lines, T tokens, N characters that the model writes, V vocabulary.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from calcgpt.data.batches import NO_LOSS, ProblemLines
from calcgpt.data.problems import Line
from calcgpt.data.tokenizer import CharTokenizer, Tokenizer
from calcgpt.inference.generate import Decoder, Sampling, generate, in_numpy
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
    model: LanguageModel,
    tokenizer: Tokenizer,
    lines: Sequence[Line],
    sampling: Sampling | None = None,
    progress: Callable[[int], Any] = lambda n: None,
    batch_size: int = BATCH_SIZE,
    plain: bool = False,
    decoder: Decoder | None = None,
) -> list[Answer]:
    """Lets the model answer every line.

    Greedy answers are read from one pass where that is possible, unless `plain` is set. The others
    are decoded. `decoder` computes, which runs the same model; by default the model itself. At a
    temperature above 0, each batch has its own seed, derived from `sampling.seed`. `progress` is
    called with numbers of answers. Raises DataError if the tokenizer lacks characters of the
    notation.
    """
    characters = tokenizer.require_characters()
    sampling = sampling or Sampling()
    was_training = model.training
    model.eval()
    answers: dict[int, Answer] = {}
    decoder = model if decoder is None else decoder
    if sampling.temperature == 0 and not plain:
        for found in _by_one_pass(decoder, characters, lines):
            answers |= found
            progress(len(found))
    others = [row for row in range(len(lines)) if row not in answers]
    for found in _by_decoding(decoder, characters, lines, others, sampling, batch_size):
        answers |= found
        progress(len(found))
    model.train(was_training)
    return [answers[row] for row in range(len(lines))]


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
        part = reading.rows
        columns = (torch.split(column.cpu(), reading.counts) for column in _agreement(reading))
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


@dataclass(frozen=True, slots=True)
class Reading:
    """What a model would write at each place of some lines that follows their prompts.

    The N places are those of one line after the other.
    """

    rows: NDArray[np.intp]  # of the lines, (B,)
    counts: list[int]  # places of each line
    targets_N: torch.Tensor  # the tokens that the lines have
    logits_NV: torch.Tensor


def read_lines(decoder: Decoder, tokens: ProblemLines) -> Iterator[Reading]:
    """Yields what a model would write at each place, some lines of like lengths at a time."""
    device, limit = torch.device("cpu"), TOKENS_OF_ENGINE
    if isinstance(decoder, LanguageModel):
        device = next(decoder.parameters()).device
        limit = TOKENS_OF_CPU if device.type == "cpu" else TOKENS
    for part in _alike(tokens.lengths, limit):
        inputs, targets = (tensor.to(device) for tensor in tokens.batch(part))
        written = targets != NO_LOSS
        logits_BTV = _logits(decoder, inputs)
        counts = written.sum(dim=1).tolist()
        yield Reading(part, counts, targets[written], logits_BTV[written].float())


@torch.inference_mode()
def _logits(decoder: Decoder, inputs: torch.Tensor) -> torch.Tensor:
    """Returns the logits of tokens (B, T) in one pass, (B, T, V)."""
    if isinstance(decoder, LanguageModel):
        logits_BTV: torch.Tensor = decoder(inputs)
        return logits_BTV
    engine = in_numpy(decoder)
    cache = engine.new_array_cache(*inputs.shape)
    return torch.from_numpy(engine(inputs.numpy(), cache, False))


def _agreement(reading: Reading) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns whether greedy decoding certainly writes the target at each place, (N,), and the
    probability of the target, (N,)."""
    targets_N1 = reading.targets_N[:, None]
    chosen_N1 = reading.logits_NV.gather(1, targets_N1)
    totals_N1 = reading.logits_NV.logsumexp(dim=1, keepdim=True)
    others_NV = reading.logits_NV.scatter(1, targets_N1, float("-inf"))
    agrees_N = chosen_N1.squeeze(1) > others_NV.amax(dim=1) + MARGIN
    return agrees_N, (chosen_N1 - totals_N1).exp().squeeze(1)


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
    # Another engine than the model itself is for the CPU.
    device = next(decoder.parameters()).device if isinstance(decoder, LanguageModel) else "cpu"
    stop = int(tokenizer.encode("$")[0])
    for index, batch in enumerate(_of_one_length(lines, rows, batch_size)):
        prompts_BP = torch.tensor([tokenizer.encode(lines[row].prompt).tolist() for row in batch])
        seed = np.random.SeedSequence((sampling.seed, index)).generate_state(1)[0]
        seeded = dataclasses.replace(sampling, seed=int(seed))
        completions = generate(decoder, prompts_BP.to(device), stop, sampling=seeded)
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
