"""The map of a model's switches: what breaks without each head, feed-forward step and neuron.

The problems are those of `DRAWN` that the model answers rightly. Without a part, it answers them
again, and it reads its own right work: each character that it would now write otherwise counts as
wrong for what the character is. So a mistake is counted where it is made, and not again in all
that follows from it. Where a head looks is measured on the same texts with the whole model.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from calcgpt.checkpoint import WEIGHTS, Checkpoint
from calcgpt.config import DataConfig
from calcgpt.data.problems import FreshProblems, Line, split_line
from calcgpt.data.tokenizer import CharTokenizer
from calcgpt.errors import ConfigError, DataError
from calcgpt.inference.engines import load_decoder
from calcgpt.inference.generate import Decoder, as_array_decoder, generate
from calcgpt.lab.inspection import attention_weights
from calcgpt.model.gpt import GPT
from calcgpt.switches import Part, Source, SwitchMap, parts_of
from calcgpt.tables import text_table
from datagen.answer_layout import answer_field
from datagen.files import sha256
from datagen.layout import layout, require_shape
from datagen.operations import SIGNS
from datagen.progress import progress_bar
from datagen.slots import NOWHERE, Kind, Slot
from datagen.work_errors import divisions

DRAWN = DataConfig(format="scratchpad", mixture={"blog": 1.0, "everyday": 1.0})
BATCH = 12  # problems that the native engine decodes together
LONGER = 2  # without a part, a text may be that many times as long as the right one
LOOKED = 200  # problems, or a few more, for neurons and for where heads look
SEEN = 20  # characters of a kind without which nothing is said of it
NEURON = 0.05  # share of the characters of a kind that a neuron must break to be tried
HARM = 0.1  # share of the answers of an operation that it must break to be listed
MAX_TRIED, MAX_NEURONS = 24, 8
CLEAR, MAX_LOOKS = 0.4, 4  # least share of the attention, and most sentences, of a head
DIGITS = 4  # of shares

# What is written, in words, by the group in which it is counted.
WRITTEN: dict[str, dict[str, tuple[Kind, ...]]] = {
    "copied digits": {
        "a copied digit": (Kind.A_DIGIT, Kind.A_BELOW, Kind.B_DIGIT, Kind.REMAINDER_COPY),
        "a zero in front": (Kind.A_ZERO, Kind.B_ZERO, Kind.REMAINDER_ZERO, Kind.BROUGHT_ZERO),
        "the digit to multiply by": (Kind.MULTIPLIER,),
        "a digit brought down": (Kind.BROUGHT_DOWN,),
    },
    "signs": {
        "a sign": (Kind.A_SIGN, Kind.B_SIGN, Kind.SIGN, Kind.SUM_SIGN),
        "the sign of what is added": (Kind.B_SIGN_OF_SUM,),
        "plus or minus": (Kind.ADD_OR_SUBTRACT,),
        "the sign of a remainder": (Kind.DIVIDEND_SIGN,),
        "the minus of the answer": (Kind.ANSWER_MINUS,),
    },
    "digits of sums": {"a digit of a sum": (Kind.SUM_LOWEST, Kind.SUM_DIGIT, Kind.SUM_TOP)},
    "digits of products": {"a digit of a product": (Kind.FIRST_DIGIT, Kind.PRODUCT_DIGIT)},
    "carries": {
        "a carry of a product": (Kind.FIRST_CARRY, Kind.PRODUCT_CARRY),
        "a carry of a remainder": (Kind.REMAINDER_CARRY,),
    },
    "digits of quotients": {"a digit of a quotient": (Kind.QUOTIENT_DIGIT,)},
    "remainders": {"a digit of a remainder": (Kind.REMAINDER_DIGIT, Kind.LAST_DIGIT)},
    "rounding": {"the rounding": (Kind.ROUNDING, Kind.QUOTIENT_ROUNDING)},
    "results": {
        "a digit of the result": (
            *(Kind.SUM_BELOW, Kind.SUM_HALF, Kind.SUM_KEPT, Kind.SUM_RESULT),
            *(Kind.MAGNITUDE_LOWEST, Kind.MAGNITUDE_TOP, Kind.PRODUCT_BELOW, Kind.PRODUCT_HALF),
            *(Kind.PRODUCT_KEPT, Kind.PRODUCT_RESULT, Kind.ROUNDED_RESULT, Kind.ROUNDED_TOP),
            *(Kind.QUOTIENT_RESULT, Kind.NAN),
        ),
        "a digit of the answer": (Kind.ANSWER_DIGIT, Kind.ANSWER_ZERO),
    },
    "marks": {
        "the mark of a row": (Kind.ROW_MARK, Kind.REMAINDER_MARK),
        "the mark of the exact result": (Kind.EXACT_MARK,),
        "the mark of the result": (Kind.RESULT_MARK,),
        "the equals sign": (Kind.EQUALS,),
    },
    "the ending": {
        "the decimal point": (Kind.ANSWER_POINT,),
        "nan": (Kind.ANSWER_N, Kind.ANSWER_A),
        "the end": (Kind.END,),
    },
}
GROUP_OF = {k: group for group, rows in WRITTEN.items() for row in rows.values() for k in row}
WORDS_OF = {k: words for rows in WRITTEN.values() for words, row in rows.items() for k in row}
# What a rule reads, in words, where it is not the name of what was written there.
READ = {
    Kind.QUESTION: "the operation",
    Kind.A_FIELD: "its place in the question",
    Kind.B_FIELD: "its place in the question",
    Kind.A_DIGIT: "the digit of the first number",
    Kind.A_ZERO: "the digit of the first number",
    Kind.B_DIGIT: "the digit of the second number",
    Kind.B_ZERO: "the digit of the second number",
    Kind.FIRST_DIGIT: "the digit above",
    Kind.PRODUCT_DIGIT: "the digit above",
    Kind.FIRST_CARRY: "the carry before",
    Kind.PRODUCT_CARRY: "the carry before",
    Kind.REMAINDER_CARRY: "the carry before",
    Kind.REMAINDER_DIGIT: "the remainder above",
    Kind.REMAINDER_ZERO: "the remainder above",
    Kind.REMAINDER_COPY: "the remainder above",
    Kind.SUM_DIGIT: "the sum",
    Kind.SUM_LOWEST: "the sum",
    Kind.SUM_TOP: "the sign of the sum",
}


@dataclass(frozen=True)
class _Text:
    """What the whole model writes for a problem, all of it right: T tokens."""

    line: Line
    characters: str  # the prompt included
    tokens_T: NDArray[np.int64]
    slots: list[Slot]  # of each character
    vocabulary: str

    @property
    def start(self) -> int:
        return len(self.line.prompt)

    def allows(self, place: int, token: int) -> bool:
        """Whether a token is another digit of a quotient that later digits correct."""
        division = divisions(require_shape(self.line.prompt)).get(place)
        digit = self.vocabulary[token]
        if not division or not digit.isdigit():
            return False
        return bool(division.valid_digits(self.characters.encode())[int(digit)])


def measure(folder: Path, n: int, seed: int, progress: bool = True) -> SwitchMap:
    """Returns the map of a checkpoint with worked steps, by `n` problems, of which those count that
    it answers rightly.

    Raises DataError if it writes no worked steps or answers none rightly, ConfigError for an
    architecture without parts, and what `Checkpoint.load` raises.
    """
    checkpoint = Checkpoint.load(folder)
    config, model = checkpoint.recipe.model, checkpoint.model
    if not checkpoint.recipe.has_work:
        raise DataError(f"{checkpoint.name} has no map of switches: it writes no worked steps")
    if not isinstance(model, GPT):
        raise ConfigError(f"{checkpoint.name} has no parts: it is a {config.architecture!r}")
    texts = _right_texts(checkpoint, n, seed)
    some = texts[:: max(1, len(texts) // LOOKED)]  # short and long ones: they are sorted
    mass = _attention(model, some)
    total = config.n_layer * config.ff_width + len(parts_of(config))
    with progress_bar(total, progress, unit="part", leave=False) as bar:
        neurons = _neurons(checkpoint, some, bar.update)
        bar.total += len(neurons)
        parts = {}
        for name in (*parts_of(config), *neurons):
            words = WORDS_OF if name in neurons else GROUP_OF  # a neuron is for less
            parts[name] = _part(checkpoint.without([name]), texts, mass.get(name, {}), words)
            bar.update(1)
    worst = {name: min(parts[name].right.values()) for name in neurons}
    harmful = sorted((name for name in neurons if worst[name] < 1 - HARM), key=worst.__getitem__)
    for name in set(neurons) - set(harmful[:MAX_NEURONS]):
        del parts[name]
    return SwitchMap(weights=sha256(folder / WEIGHTS), n=len(texts), seed=seed, parts=parts)


def _part(
    checkpoint: Checkpoint,
    texts: Sequence[_Text],
    mass: dict[str, dict[str, float]],
    words: dict[Kind, str],
) -> Part:
    """Returns what is wrong without a part, counted by these words. `checkpoint` is the model
    without it."""
    _, decoder = load_decoder(checkpoint)
    wrong, spoilt = _wrong(decoder, texts)
    answers, n_of = _outputs(checkpoint, decoder, spoilt), _kinds(texts)
    failed = Counter(text.line.operation for text, out in answers if not _is_right(text, out))
    asked = Counter(text.line.operation for text in texts)
    return Part(
        right={op: _share(asked[op] - failed[op], asked[op]) for op in SIGNS if asked[op]},
        unfinished=_share(sum(not out.endswith("$") for _, out in answers), len(texts)),
        wrong=_shares(wrong, n_of, words),
        looks=_looks(mass, _shares(wrong, n_of, WORDS_OF)),
    )


def table(switches: SwitchMap) -> str:
    """Returns the map as a table for a terminal."""
    rows = []
    for name, part in switches.parts.items():
        worst = sorted(part.wrong.items(), key=lambda item: -item[1])[:3]
        cells = [f"{part.right[op]:.0%}" if op in part.right else "" for op in SIGNS]
        words = ", ".join(f"{group} {share:.0%}" for group, share in worst)
        looks = [f"{look.writing}: {look.at} {look.share:.0%}" for look in part.looks[:1]]
        rows.append([name, *cells, f"{part.unfinished:.0%}", words, *(looks or [""])])
    header = ["off", *SIGNS, "no end", "wrong without it", "looks"]
    return text_table(header, rows)


def _right_texts(checkpoint: Checkpoint, n: int, seed: int) -> list[_Text]:
    """Returns what the model writes for the drawn problems that it answers rightly, by length."""
    problems = FreshProblems(DRAWN, seed)
    lines = map(split_line, problems.render(problems.block(0, n)).decode().splitlines())
    known = checkpoint.tokenizer.require_characters()
    texts = [_text(known, line, line.completion) for line in lines]
    _, decoder = load_decoder(checkpoint)
    answers = _outputs(checkpoint, decoder, texts)
    right = [_text(known, text.line, out) for text, out in answers if _is_right(text, out)]
    if not right:
        raise DataError(f"{checkpoint.name} answers none of {n:,} problems rightly")
    return right


def _text(tokenizer: CharTokenizer, line: Line, output: str) -> _Text:
    text = line.prompt + output
    plan = layout(require_shape(line.prompt))
    answer = answer_field(plan, text[: len(plan.slots)].encode())
    slots = [*plan.slots, *(slot for slot, _ in answer)]
    tokens_T = tokenizer.encode(text).astype(np.int64)
    return _Text(line, text, tokens_T, slots, tokenizer.vocabulary)


def _is_right(text: _Text, output: str) -> bool:
    """Whether the answer is right and stands after work of the right length."""
    right_length = len(text.tokens_T) == text.start + len(output)
    return right_length and output.rpartition("=")[2] == text.line.answer


def _outputs(
    checkpoint: Checkpoint, decoder: Decoder, texts: Sequence[_Text]
) -> list[tuple[_Text, str]]:
    """Returns what a decoder writes for each problem, up to LONGER times the right length."""
    stop, result = int(checkpoint.tokenizer.encode("$")[0]), []
    ordered = sorted(texts, key=lambda text: (text.start, len(text.tokens_T)))
    for start, group in groupby(ordered, key=attrgetter("start")):
        rows = list(group)
        for batch in (rows[i : i + BATCH] for i in range(0, len(rows), BATCH)):
            prompts_BP = np.stack([text.tokens_T[:start] for text in batch])
            length = LONGER * (len(batch[-1].tokens_T) - start)
            written = generate(decoder, prompts_BP, stop, length)
            result += [
                (text, checkpoint.tokenizer.decode(completion.ids))
                for text, completion in zip(batch, written, strict=True)
            ]
    return result


def _wrong(decoder: Decoder, texts: Sequence[_Text]) -> tuple[Counter[Kind], list[_Text]]:
    """Returns how many characters of the right texts a decoder would write wrongly, by kind, and
    the texts that it would write otherwise: another digit of a quotient need not be wrong."""
    reader, wrong, spoilt = as_array_decoder(decoder), Counter[Kind](), []
    for text in texts:
        inputs_1T, n = text.tokens_T[None, :-1], len(text.tokens_T)
        logits_TV = reader(inputs_1T, reader.new_array_cache(1, n - 1), False)[0]
        written_T = np.append(text.tokens_T[:1], logits_TV.argmax(axis=1))
        places = np.flatnonzero(written_T[text.start :] != text.tokens_T[text.start :]) + text.start
        if len(places):
            spoilt.append(text)
        wrong.update(
            text.slots[i].kind for i in places.tolist() if not text.allows(i, int(written_T[i]))
        )
    return wrong, spoilt


def _kinds(texts: Sequence[_Text]) -> Counter[Kind]:
    return Counter(slot.kind for text in texts for slot in text.slots[text.start :])


def _neurons(
    checkpoint: Checkpoint, texts: Sequence[_Text], progress: Callable[[int], Any]
) -> list[str]:
    """Returns the neurons to try: for each kind of character the one without which most of them are
    wrong, if that is a share of NEURON. At most MAX_TRIED, the greatest shares first."""
    config, n_of = checkpoint.recipe.model, _kinds(texts)
    best: dict[Kind, tuple[float, str]] = {}
    for layer in range(1, config.n_layer + 1):
        for neuron in range(1, config.ff_width + 1):
            name = f"{layer}.n{neuron}"
            _, decoder = load_decoder(checkpoint.without([name]))
            for kind, count in _wrong(decoder, texts)[0].items():
                if n_of[kind] >= SEEN:
                    best[kind] = max(best.get(kind, (NEURON, "")), (count / n_of[kind], name))
            progress(1)
    found = sorted((entry for entry in best.values() if entry[1]), reverse=True)
    return list(dict.fromkeys(name for _, name in found))[:MAX_TRIED]


def _attention(model: GPT, texts: Sequence[_Text]) -> dict[str, dict[str, dict[str, float]]]:
    """Returns the mean share of the attention of each head, by what is written, and by what the
    head looks at: the characters that the rule reads, or the one before."""
    if model.scheme.n_inserted_ids:
        return {}
    sums_LH: dict[tuple[str, str], NDArray[np.float32]] = {}
    n_of = Counter[str]()
    for text in texts:
        weights_LHTT = attention_weights(model, torch.from_numpy(text.tokens_T[:-1])).numpy()
        for place in range(text.start, len(text.tokens_T)):
            words = WORDS_OF[text.slots[place].kind]
            n_of[words] += 1
            for at, source in _sources(text, place):
                share_LH = weights_LHTT[:, :, place - 1, source]
                sums_LH[words, at] = sums_LH.get((words, at), 0) + share_LH
    result: dict[str, dict[str, dict[str, float]]] = {}
    for (words, at), sum_LH in sums_LH.items():
        if n_of[words] >= SEEN:
            for (layer, head), total in np.ndenumerate(sum_LH):
                row = result.setdefault(f"{layer + 1}.{head + 1}", {}).setdefault(words, {})
                row[at] = float(total) / n_of[words]
    return result


def _sources(text: _Text, place: int) -> Iterator[tuple[str, int]]:
    """Yields the positions of what the rule of a character reads, each in words."""
    sources = {source for source in text.slots[place].sources if source != NOWHERE}
    for source in sources:
        kind = text.slots[source].kind
        yield READ.get(kind) or WORDS_OF[kind], source
    if place - 1 not in sources:
        yield "the character before", place - 1


def _looks(mass: dict[str, dict[str, float]], wrong: dict[str, float]) -> list[Source]:
    """Returns what a head looks at for what breaks without it, the most broken first."""
    found = []
    for words, row in mass.items():
        at, share = max(row.items(), key=lambda item: item[1])
        if share >= CLEAR and words in wrong:
            look = Source(writing=words, at=at, share=round(share, DIGITS))
            found.append((share * wrong[words], look))
    found.sort(key=lambda item: -item[0])
    return [look for _, look in found[:MAX_LOOKS]]


def _shares(wrong: Counter[Kind], n_of: Counter[Kind], names: dict[Kind, str]) -> dict[str, float]:
    """Returns the share of wrong characters by name, the largest first, without those of 0."""
    counts: dict[str, list[int]] = {}
    for kind, n in n_of.items():
        pair = counts.setdefault(names[kind], [0, 0])
        pair[0] += wrong[kind]
        pair[1] += n
    shares = {name: _share(*pair) for name, pair in counts.items() if pair[0]}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _share(count: int, n: int) -> float:
    return round(count / n, DIGITS)
