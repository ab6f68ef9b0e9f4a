"""Drafts: lines that a model would probably write, checked in one forward pass instead of decoded
token by token (speculative decoding; Leviathan et al. 2023).

One pass over a draft shows which token greedy decoding would write after each beginning of it. Up
to the first token that differs, decoding writes exactly the draft, and the pass also gives the
probabilities of these tokens. A model that departs from its draft is not always wrong: work with
other quotient digits may be right. So another draft continues what the model writes there.

Shapes: B lines, T tokens, N characters that the model writes, V vocabulary.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcgpt.data.batches import NO_LOSS, ProblemLines
from calcgpt.data.tokenizer import CharTokenizer
from calcgpt.inference.generate import Decoder, Floats, Ints, as_array_decoder, log_softmax
from datagen.errors import UserError

if TYPE_CHECKING:  # other engines need no torch
    from calcgpt.model.base import LanguageModel

# Tokens of a pass, padding included: on a GPU, on a CPU, and by another engine. On a CPU, the
# activations of a layer then fit in the cache.
TOKENS, TOKENS_OF_CPU, TOKENS_OF_ENGINE = 2**17, 2**12, 2**9
# A token agrees only if its logit is above all others by this margin. Decoding and one pass add
# numbers in different orders, so that logits differ by about 1e-5. A line is decoded from its first
# token within the margin.
MARGIN = 1e-3
UNCERTAIN = -1
MAX_DRAFTS = 8  # of one line; a model disagrees with more only if it is often wrong


class Confirmed(NamedTuple):
    """The beginning of a draft that greedy decoding certainly writes."""

    row: int
    ids: list[int]
    probabilities: list[float]
    is_whole: bool
    next_id: int | None  # what greedy decoding writes instead; None if that is uncertain
    is_last: bool = True  # if not, another draft of the row is read in a later pass


def confirm(
    decoder: Decoder, tokenizer: CharTokenizer, prompts: Sequence[str], drafts: Sequence[str]
) -> Iterator[list[Confirmed]]:
    """Yields how much of each draft greedy decoding certainly writes after its prompt, for some
    rows at a time. A prompt ends with the first `=`. Where the model departs from worked steps, and
    certainly writes another character, another draft continues from that character.

    Leaves out rows whose draft does not fit in the context, does not end with its only `$`, where
    decoding stops, or has characters that the model does not know.
    """
    pending = dict(enumerate(drafts))
    for n_left in reversed(range(MAX_DRAFTS)):
        next_drafts: dict[int, str] = {}
        for batch in _read(decoder, tokenizer, prompts, pending):
            for check in batch if n_left else ():
                prompt, draft = prompts[check.row], pending[check.row]
                next_draft = _next_draft(tokenizer, prompt, draft, check)
                if next_draft and _is_readable(decoder, tokenizer, prompt + next_draft):
                    next_drafts[check.row] = next_draft
            yield [check._replace(is_last=check.row not in next_drafts) for check in batch]
        pending = next_drafts


def _read(
    decoder: Decoder, tokenizer: CharTokenizer, prompts: Sequence[str], drafts: dict[int, str]
) -> Iterator[list[Confirmed]]:
    """Yields how far the model agrees with the draft of each row, for some rows at a time."""
    lines = {row: prompts[row] + draft for row, draft in drafts.items()}
    rows = [row for row, line in lines.items() if _is_readable(decoder, tokenizer, line)]
    if not rows:
        return
    text = "".join(f"{lines[row]}\n" for row in rows)
    for reading in read_lines(decoder, ProblemLines(text, tokenizer)):
        ends = np.cumsum(reading.counts)[:-1]
        columns = (reading.targets_N, *_agreement(reading))
        parts = zip(reading.rows.tolist(), *(np.split(c, ends) for c in columns), strict=True)
        yield [_check_draft(rows[index], *columns) for index, *columns in parts]


def _is_readable(decoder: Decoder, tokenizer: CharTokenizer, line: str) -> bool:
    completion = line.partition("=")[2]
    return (
        len(line) <= decoder.config.block_size + 1  # the last character is never read
        and completion.partition("$")[1:] == ("$", "")
        and set(tokenizer.vocabulary).issuperset(line)
    )


def _check_draft(row: int, ids_N: Ints, chosen_N: Ints, probs_N: Floats) -> Confirmed:
    agrees_N = ids_N == chosen_N
    is_whole = bool(agrees_N.all())
    n = len(ids_N) if is_whole else int(agrees_N.argmin())
    next_id = None if is_whole or chosen_N[n] == UNCERTAIN else int(chosen_N[n])
    return Confirmed(row, ids_N[:n].tolist(), probs_N[:n].tolist(), is_whole, next_id)


def _next_draft(tokenizer: CharTokenizer, prompt: str, draft: str, check: Confirmed) -> str | None:
    """Returns the draft that continues what the model wrote in worked steps, if there is one."""
    if check.next_id is None or "=" not in draft:  # a `=` ends worked steps
        return None
    from datagen.work import render_line

    written = prompt + tokenizer.decode([*check.ids, check.next_id])
    try:
        return render_line(written.encode()).decode()[len(prompt) :]
    except (ValueError, UserError):  # departed after the work, or from another notation
        return None


class Reading(NamedTuple):
    """What a model would write at each position after the prompts of some lines.

    The N positions are those of the first line, then those of the next one, and so on.
    """

    rows: NDArray[np.intp]  # of the lines, (B,)
    counts: list[int]  # positions of each line
    targets_N: Ints  # the tokens of the lines
    logits_NV: Floats


def read_lines(decoder: Decoder, tokens: ProblemLines) -> Iterator[Reading]:
    """Yields what a model would write at each position, some lines of similar lengths at a time."""
    limit = TOKENS_OF_ENGINE
    if module := torch_model(decoder):
        limit = TOKENS_OF_CPU if module.device.type == "cpu" else TOKENS
    for part in _passes(tokens.lengths, limit):
        inputs, targets = tokens.arrays(part)
        is_target = targets != NO_LOSS
        logits_NV = _logits(decoder, inputs)[is_target]
        yield Reading(part, is_target.sum(axis=1).tolist(), targets[is_target], logits_NV)


def torch_model(decoder: Decoder) -> LanguageModel | None:
    """Returns the model of torch that a decoder is, or whose graphs it replays; None if there is
    none."""
    base = sys.modules.get("calcgpt.model.base")  # not imported: no model of torch exists
    model = getattr(decoder, "model", decoder)
    return model if base and isinstance(model, base.LanguageModel) else None


def _logits(decoder: Decoder, tokens_BT: Ints) -> Floats:
    """Returns the logits after each token in one pass, (B, T, V)."""
    module = torch_model(decoder)
    if module is None:
        engine = as_array_decoder(decoder)
        return engine(tokens_BT, engine.new_array_cache(*tokens_BT.shape), False)
    import torch

    with torch.inference_mode():
        logits_BTV = module(torch.from_numpy(tokens_BT).to(module.device))
    array_BTV: Floats = logits_BTV.float().cpu().numpy()
    return array_BTV


def _agreement(reading: Reading) -> tuple[Ints, Floats]:
    """Returns the token that greedy decoding certainly writes at each position, or UNCERTAIN, (N,),
    and the probability of the target, (N,)."""
    logits_NV, positions = reading.logits_NV, np.arange(len(reading.targets_N))
    probabilities_N = np.exp(log_softmax(logits_NV)[positions, reading.targets_N])
    chosen_N = logits_NV.argmax(axis=1)
    others_NV = logits_NV.copy()
    others_NV[positions, chosen_N] = -np.inf
    is_certain_N = logits_NV[positions, chosen_N] > others_NV.max(axis=1) + MARGIN
    return np.where(is_certain_N, chosen_N, UNCERTAIN), probabilities_N


def _passes(lengths: NDArray[np.int64], limit: int) -> Iterator[NDArray[np.intp]]:
    """Yields the rows of each pass: lines of similar lengths, in total at most `limit` tokens."""
    order = np.argsort(lengths, kind="stable")
    start = 0
    for end in range(1, len(order) + 1):
        # The longest line comes last.
        if end == len(order) or (end + 1 - start) * lengths[order[end]] > limit:
            yield order[start:end]
            start = end
