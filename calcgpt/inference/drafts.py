"""Drafts: lines that a model would probably write, checked in one forward pass instead of decoded
token by token (speculative decoding; Leviathan et al. 2023).

One pass over a draft shows which token greedy decoding would write after each beginning of it. Up
to the first token that differs, decoding writes exactly the draft, and the pass has the
probabilities of these tokens, too. A model that departs from its draft is not always wrong: work
with other quotient digits may be right.

Shapes: B lines, T tokens, N characters that the model writes, V vocabulary.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcgpt.checkpoint import Checkpoint
from calcgpt.data.batches import NO_LOSS, ProblemLines
from calcgpt.data.tokenizer import CharTokenizer
from calcgpt.inference.generate import Decoder, Floats, Ints, in_numpy, log_softmax
from datagen.notation import parse_prompt
from datagen.notation import render as render_direct

if TYPE_CHECKING:  # other engines need no torch
    import torch

    from calcgpt.model.gpt import LanguageModel

# Tokens of a pass, padding included. On a CPU, what a layer computes of them fits in the cache.
TOKENS, TOKENS_OF_CPU, TOKENS_OF_ENGINE = 2**17, 2**12, 2**9
# A token agrees only if its logit is that much above all others. Decoding and one pass add numbers
# in different orders, so that logits differ by about 1e-5. From a closer one on, lines are decoded.
MARGIN = 1e-3


class Drafter:
    """Drafts the answers of a model by exact arithmetic, and lets the model read them.

    The model confirms a draft or departs from it: what it would write is not changed by the draft.
    """

    def __init__(self, checkpoint: Checkpoint, decoder: Decoder) -> None:
        """Raises DataError if the tokenizer lacks characters of the notation."""
        self._tokenizer = checkpoint.tokenizer.require_characters()
        self._decoder, self._has_work = decoder, checkpoint.recipe.has_work

    def read(self, prompts: Sequence[Sequence[int]]) -> Iterator[list[Confirmed]]:
        """Yields how much of the answer to each prompt is confirmed; see `confirm`."""
        texts = [self._tokenizer.decode(list(prompt)) for prompt in prompts]
        return confirm(self._decoder, self._tokenizer, texts, self._drafts(texts))

    def _drafts(self, prompts: Sequence[str]) -> list[str]:
        if self._has_work:
            from datagen.work import render  # only drafts need it

            lines = [line.decode() for line in render([prompt.encode() for prompt in prompts])]
        else:
            lines = [render_direct(parse_prompt(prompt)) for prompt in prompts]
        return [line[len(prompt) :] for prompt, line in zip(prompts, lines, strict=True)]


class Confirmed(NamedTuple):
    """The beginning of a draft that greedy decoding certainly writes."""

    row: int
    ids: list[int]
    probabilities: list[float]
    is_whole: bool


def confirm(
    decoder: Decoder, tokenizer: CharTokenizer, prompts: Sequence[str], drafts: Sequence[str]
) -> Iterator[list[Confirmed]]:
    """Yields how much of each draft greedy decoding certainly writes after its prompt, which ends
    with the first `=`, some rows at a time.

    Rows are left out if their draft does not fit in the context, does not end with its only `$`,
    where decoding stops, or has characters that the model does not know.
    """
    limit = decoder.config.block_size + 1  # the last character is never read
    known = set(tokenizer.vocabulary)
    rows = [
        row
        for row, (prompt, draft) in enumerate(zip(prompts, drafts, strict=True))
        if len(prompt) + len(draft) <= limit
        and draft.partition("$")[1:] == ("$", "")
        and known.issuperset(prompt + draft)
    ]
    if not rows:
        return
    text = "".join(f"{prompts[row]}{drafts[row]}\n" for row in rows)
    for reading in read_lines(decoder, ProblemLines(text, tokenizer)):
        ends = np.cumsum(reading.counts)[:-1]
        columns = (reading.targets_N, *_agreement(reading))
        parts = zip(reading.rows.tolist(), *(np.split(c, ends) for c in columns), strict=True)
        yield [
            _confirmed(rows[index], ids_N, agrees_N, probs_N)
            for index, ids_N, agrees_N, probs_N in parts
        ]


def _confirmed(row: int, ids_N: Ints, agrees_N: NDArray[np.bool_], probs_N: Floats) -> Confirmed:
    is_whole = bool(agrees_N.all())
    n = len(ids_N) if is_whole else int(agrees_N.argmin())
    return Confirmed(row, ids_N[:n].tolist(), probs_N[:n].tolist(), is_whole)


class Reading(NamedTuple):
    """What a model would write at each place of some lines that follows their prompts.

    The N places are those of one line after the other.
    """

    rows: NDArray[np.intp]  # of the lines, (B,)
    counts: list[int]  # places of each line
    targets_N: Ints  # the tokens that the lines have
    logits_NV: Floats


def read_lines(decoder: Decoder, tokens: ProblemLines) -> Iterator[Reading]:
    """Yields what a model would write at each place, some lines of similar lengths at a time."""
    limit = TOKENS_OF_ENGINE
    if module := torch_model(decoder):
        limit = TOKENS_OF_CPU if device_of(module).type == "cpu" else TOKENS
    for part in _passes(tokens.lengths, limit):
        inputs, targets = tokens.arrays(part)
        written = targets != NO_LOSS
        logits_NV = _logits(decoder, inputs)[written]
        yield Reading(part, written.sum(axis=1).tolist(), targets[written], logits_NV)


def torch_model(decoder: Decoder) -> LanguageModel | None:
    """Returns a decoder that is a module of torch; None for that of another engine."""
    gpt = sys.modules.get("calcgpt.model.gpt")  # not imported: no model of torch exists
    return decoder if gpt and isinstance(decoder, gpt.LanguageModel) else None


def device_of(module: LanguageModel) -> torch.device:
    """Returns where the weights of a model are."""
    return next(module.parameters()).device


def _logits(decoder: Decoder, tokens_BT: Ints) -> Floats:
    """Returns the logits after each token in one pass, (B, T, V)."""
    module = torch_model(decoder)
    if module is None:
        engine = in_numpy(decoder)
        return engine(tokens_BT, engine.new_array_cache(*tokens_BT.shape), False)
    import torch

    with torch.inference_mode():
        logits_BTV = module(torch.from_numpy(tokens_BT).to(device_of(module)))
    array_BTV: Floats = logits_BTV.float().cpu().numpy()
    return array_BTV


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


def _passes(lengths: NDArray[np.int64], limit: int) -> Iterator[NDArray[np.intp]]:
    """Yields the rows of each pass: lines of similar lengths, in total at most `limit` tokens."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    for end in range(1, len(order) + 1):
        # The longest line comes last.
        if end == len(order) or (end + 1 - start) * lengths[order[end]] > limit:
            yield order[start:end]
            start = end
