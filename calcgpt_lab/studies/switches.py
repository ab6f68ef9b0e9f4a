"""The map of a model's switches: what breaks without each head, feed-forward step and neuron.

The texts are those of problems of `DRAWN`, as many of each operation, that the whole model answers
rightly. What the model
writes is a function of the case (`datagen.cases`). So without a part, it is tried on the cases of
the texts, each once: a character is wrong if none of those that are right is written, and an answer
if a character is wrong on which it depends. Where a head looks is measured with the whole model.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from calcgpt.base.errors import ConfigError, DataError
from calcgpt.base.files import sha256
from calcgpt.base.progress import progress_bar
from calcgpt.checkpoint import WEIGHTS, Checkpoint
from calcgpt.config import DataConfig
from calcgpt.inference.cases.decoder import network_of
from calcgpt.inference.cases.memory import Entries
from calcgpt.inference.cases.network import Network
from calcgpt.switches import Part, Source, SwitchMap, parts_of
from calcgpt_lab.data.problems import FreshProblems, Line, split_line
from calcgpt_lab.model.sources import SourceTransformer, next_cases, next_slots
from calcgpt_lab.studies.goals import find_goals
from calcgpt_lab.studies.inspection import source_weights
from calcgpt_lab.tables import text_table
from datagen.cases import all_cases
from datagen.layout import layout, require_shape
from datagen.operations import SIGNS
from datagen.slots import NOWHERE, Kind

DRAWN = DataConfig(format="scratchpad", mixture={"blog": 1.0, "everyday": 1.0})
SPARE = 2  # times as many are drawn as are kept, so that there are enough of each operation
LOOKED = 200  # problems, or a few more, for where heads look
HARM = 0.1  # share of the answers of an operation that a neuron must break to be listed
CLEAR, MAX_LOOKS = 0.4, 4  # least share of the attention, and most sentences, of a head
MAX_WORDS = 3  # kinds of characters that are told of a part, the most broken ones
DIGITS = 4  # of shares
AT_ONCE = 4_096  # cases that the network computes

# What is written, in words.
WRITTEN: dict[str, tuple[Kind, ...]] = {
    "a copied digit": (Kind.A_DIGIT, Kind.A_BELOW, Kind.B_DIGIT, Kind.REMAINDER_COPY),
    "a zero in front": (Kind.A_ZERO, Kind.B_ZERO, Kind.REMAINDER_ZERO, Kind.BROUGHT_ZERO),
    "the digit to multiply by": (Kind.MULTIPLIER,),
    "a digit brought down": (Kind.BROUGHT_DOWN,),
    "a sign": (Kind.A_SIGN, Kind.B_SIGN, Kind.SIGN, Kind.SUM_SIGN),
    "the sign of what is added": (Kind.B_SIGN_OF_SUM,),
    "plus or minus": (Kind.ADD_OR_SUBTRACT,),
    "the sign of a remainder": (Kind.DIVIDEND_SIGN,),
    "the minus of the answer": (Kind.ANSWER_MINUS,),
    "a digit of a sum": (Kind.SUM_LOWEST, Kind.SUM_DIGIT, Kind.SUM_TOP),
    "a digit of a product": (Kind.FIRST_DIGIT, Kind.PRODUCT_DIGIT),
    "a carry of a product": (Kind.FIRST_CARRY, Kind.PRODUCT_CARRY),
    "a carry of a remainder": (Kind.REMAINDER_CARRY,),
    "a digit of a quotient": (Kind.QUOTIENT_DIGIT,),
    "a digit of a remainder": (Kind.REMAINDER_DIGIT, Kind.LAST_DIGIT),
    "the rounding": (Kind.ROUNDING, Kind.QUOTIENT_ROUNDING),
    "a digit of the result": (
        *(Kind.SUM_BELOW, Kind.SUM_HALF, Kind.SUM_KEPT, Kind.SUM_RESULT),
        *(Kind.MAGNITUDE_LOWEST, Kind.MAGNITUDE_TOP, Kind.PRODUCT_BELOW, Kind.PRODUCT_HALF),
        *(Kind.PRODUCT_KEPT, Kind.PRODUCT_RESULT, Kind.ROUNDED_RESULT, Kind.ROUNDED_TOP),
        *(Kind.QUOTIENT_RESULT, Kind.NAN),
    ),
    "a digit of the answer": (Kind.ANSWER_DIGIT, Kind.ANSWER_ZERO),
    "the mark of a row": (Kind.ROW_MARK, Kind.REMAINDER_MARK),
    "the mark of the exact result": (Kind.EXACT_MARK,),
    "the mark of the result": (Kind.RESULT_MARK,),
    "the equals sign": (Kind.EQUALS,),
    "the decimal point": (Kind.ANSWER_POINT,),
    "nan": (Kind.ANSWER_N, Kind.ANSWER_A),
    "the end": (Kind.END,),
}
WORDS_OF = {kind: words for words, kinds in WRITTEN.items() for kind in kinds}
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


Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Texts:
    """Right texts as cases: D different ones, and what may be written in each; which character of
    which text (N characters) is which case, and whether the answer depends on it."""

    lines: Sequence[Line]
    kinds_D: NDArray[np.uint8]
    tokens_DR: NDArray[np.int64]
    right_DV: Flags
    case_N: NDArray[np.int64]
    line_N: NDArray[np.int64]
    matters_N: Flags

    @classmethod
    def of(cls, lines: Sequence[Line], vocabulary: str) -> Self:
        """Returns the cases of the characters after the questions."""
        parts = [_cases(line) for line in lines]
        cases_NR = np.concatenate(parts)
        line_N = np.repeat(np.arange(len(lines)), [len(part) for part in parts])
        every = all_cases()
        entries = Entries.of(every.kinds, every.sources)
        right_M2 = np.zeros((len(entries.characters), 2), np.uint8)
        right_M2[entries.indices(every.kinds, every.sources)] = every.right
        index_N = entries.indices(cases_NR[:, 0], cases_NR[:, 1:])
        index_D, first_D, case_N = np.unique(index_N, return_index=True, return_inverse=True)
        codes_V = np.frombuffer(vocabulary.encode(), np.uint8)
        token_of_code = np.full(256, -1)
        token_of_code[codes_V] = np.arange(len(codes_V))
        cases_DR = cases_NR[first_D]
        return cls(
            lines=lines,
            kinds_D=cases_DR[:, 0],
            tokens_DR=token_of_code[cases_DR[:, 1:]],
            right_DV=(right_M2[index_D][..., None] == codes_V).any(axis=1),
            case_N=case_N,
            line_N=line_N,
            matters_N=np.concatenate([_matters(line) for line in lines]),
        )

    def wrong(self, network: Network) -> Flags:
        """Returns in which cases the network is wrong, (D,)."""
        written_D = np.concatenate(
            [
                network(self.kinds_D[i : i + AT_ONCE], self.tokens_DR[i : i + AT_ONCE]).argmax(1)
                for i in range(0, len(self.kinds_D), AT_ONCE)
            ]
        )
        flags: Flags = ~self.right_DV[np.arange(len(written_D)), written_D]
        return flags

    def answers_with(self, cases_D: Flags) -> Flags:
        """Returns which texts have some of these cases where the answer depends on them."""
        broken_N = cases_D[self.case_N] & self.matters_N
        flags: Flags = np.isin(np.arange(len(self.lines)), self.line_N[broken_N])
        return flags

    def kinds_of(self, cases_D: Flags) -> Counter[Kind]:
        """Returns how many characters of these cases the texts have, by kind."""
        kinds_N = self.kinds_D[self.case_N[cases_D[self.case_N]]]
        return Counter({Kind(kind): n for kind, n in enumerate(np.bincount(kinds_N)) if n})


def _cases(line: Line) -> NDArray[np.uint8]:
    """Returns the cases of the characters of a line after the question."""
    start = len(line.prompt) - 1
    return next_cases((line.prompt + line.completion).encode(), start)[:-1]


def _matters(line: Line) -> Flags:
    """Returns on which characters after the question the answer depends: its own, those of the
    result, and those that their rules read."""
    text, plan = line.prompt + line.completion, layout(require_shape(line.prompt))
    sources = next_slots(text.encode()).sources
    matters = np.zeros(len(text), bool)
    matters[[*plan.result, plan.sign, *range(text.rindex("="), len(text))]] = True
    for place in range(len(text) - 1, len(line.prompt) - 1, -1):
        if matters[place]:
            matters[sources[place - 1]] = True  # NOWHERE is the last character, which matters
    return matters[len(line.prompt) :]


def measure(folder: Path, n: int, seed: int, progress: bool = True) -> SwitchMap:
    """Returns the map of a checkpoint of architecture `sources`, by `n` problems, of which those
    count that it answers rightly.

    Raises ConfigError for another architecture, DataError if it answers none rightly, and what
    `Checkpoint.load` raises.
    """
    checkpoint = Checkpoint.load(folder)
    config, tokenizer = checkpoint.recipe.model, checkpoint.tokenizer.require_characters()
    if config.architecture != "sources":
        raise ConfigError(f"{checkpoint.name} has no map of switches: it is no model of cases")

    def wrong(texts: Texts, *parts: str) -> Flags:
        """Returns in which cases the model is wrong without these parts."""
        return texts.wrong(network_of(checkpoint.without(parts)))

    lines = drawn(n, seed)
    texts = Texts.of(lines, tokenizer.vocabulary)
    failed = texts.answers_with(wrong(texts))
    lines = [line for line, is_wrong in zip(lines, failed, strict=True) if not is_wrong]
    if not lines:
        raise DataError(f"{checkpoint.name} answers none of {n:,} problems rightly")
    texts = Texts.of(lines, tokenizer.vocabulary)
    some = lines[:: max(1, len(lines) // LOOKED)]
    mass = _attention(checkpoint, some)
    neurons = [
        f"{i}.n{k}" for i in range(1, config.n_layer + 1) for k in range(1, config.ff_width + 1)
    ]
    parts = {}
    names = [*parts_of(config), *neurons]
    with progress_bar(len(names), progress, unit="part", leave=False) as bar:
        for name in names:
            part = _part(texts, wrong(texts, name), mass.get(name, {}))
            if name not in neurons or min(part.right.values()) < 1 - HARM:
                parts[name] = part
            bar.update(1)
    goals = find_goals(checkpoint, names, seed, progress)
    weights = sha256(folder / WEIGHTS)
    return SwitchMap(weights=weights, n=len(lines), seed=seed, parts=parts, goals=goals)


def drawn(n: int, seed: int) -> list[Line]:
    """Returns right lines of n problems of DRAWN, or up to three fewer: as many of each operation.
    Raises DataError if an operation was drawn too rarely."""
    problems = FreshProblems(DRAWN, seed)
    text = problems.render(problems.block(0, SPARE * n)).decode()
    found: dict[str, list[Line]] = {sign: [] for sign in SIGNS}
    for line in map(split_line, text.splitlines()):
        found[line.operation].append(line)
    each = n // len(SIGNS)
    if not each or min(map(len, found.values())) < each:
        raise DataError(f"{n:,} problems are too few for a map of switches")
    return [line for lines in found.values() for line in lines[:each]]


def _part(texts: Texts, wrong_D: Flags, mass: dict[str, dict[str, float]]) -> Part:
    """Returns what is wrong without a part."""
    lines = list(zip(texts.lines, texts.answers_with(wrong_D), strict=True))
    failed = Counter(line.operation for line, is_wrong in lines if is_wrong)
    asked = Counter(line.operation for line, _ in lines)
    endless = texts.answers_with(wrong_D & (texts.kinds_D == Kind.END))
    n_of = texts.kinds_of(np.ones(len(wrong_D), bool))
    wrong = _shares(texts.kinds_of(wrong_D), n_of)
    return Part(
        right={op: _share(asked[op] - failed[op], asked[op]) for op in SIGNS if asked[op]},
        unfinished=_share(int(endless.sum()), len(lines)),
        wrong=dict(list(wrong.items())[:MAX_WORDS]),
        looks=_looks(mass, wrong),
    )


def table(switches: SwitchMap) -> str:
    """Returns the map as a table for a terminal."""
    rows = []
    for name, part in switches.parts.items():
        cells = [f"{part.right[op]:.0%}" if op in part.right else "" for op in SIGNS]
        words = ", ".join(f"{what} {share:.0%}" for what, share in part.wrong.items())
        looks = [f"{look.writing}: {look.at} {look.share:.0%}" for look in part.looks[:1]]
        rows.append([name, *cells, f"{part.unfinished:.0%}", words, *(looks or [""])])
    header = ["off", *SIGNS, "no end", "wrong without it", "looks"]
    return text_table(header, rows)


def _attention(
    checkpoint: Checkpoint, lines: Sequence[Line]
) -> dict[str, dict[str, dict[str, float]]]:
    """Returns the mean share of the attention of each head, by what is written, and by which of
    the characters that the rule reads it looks at."""
    model = checkpoint.model
    assert isinstance(model, SourceTransformer)
    sums_LH: dict[tuple[str, str], NDArray[np.float32]] = {}
    n_of = Counter[str]()
    for line in lines:
        text, first = line.prompt + line.completion, len(line.prompt) - 1
        slots = next_slots(text.encode())
        tokens_T = torch.from_numpy(checkpoint.tokenizer.encode(text).astype(np.int64))
        weights_LTRH = source_weights(model, tokens_T).numpy()
        kinds = layout(require_shape(line.prompt)).kinds
        for place in range(first, len(text) - 1):
            words = WORDS_OF[Kind(slots.kinds[place])]
            n_of[words] += 1
            for source, position in enumerate(slots.sources[place].tolist()):
                if position == NOWHERE:
                    continue
                kind = Kind(kinds[position])
                key = words, READ.get(kind) or WORDS_OF[kind]
                sums_LH[key] = sums_LH.get(key, 0) + weights_LTRH[:, place, source]
    result: dict[str, dict[str, dict[str, float]]] = {}
    for (words, at), sum_LH in sums_LH.items():
        for (layer, head), total in np.ndenumerate(sum_LH):
            row = result.setdefault(f"{layer + 1}.{head + 1}", {}).setdefault(words, {})
            row[at] = float(total) / n_of[words]
    return result


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


def _shares(wrong: Counter[Kind], n_of: Counter[Kind]) -> dict[str, float]:
    """Returns the share of wrong characters in words, the largest first, without those of 0."""
    counts: dict[str, list[int]] = {}
    for kind, n in n_of.items():
        pair = counts.setdefault(WORDS_OF[kind], [0, 0])
        pair[0] += wrong[kind]
        pair[1] += n
    shares = {words: _share(*pair) for words, pair in counts.items() if pair[0]}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _share(count: int, n: int) -> float:
    return round(count / n, DIGITS)
