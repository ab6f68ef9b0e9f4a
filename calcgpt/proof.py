"""The proof that a model makes no mistake, by trying all cases on the engine that serves it.

A model of `calcgpt_lab.model.sources` writes a character that is a function of a case. If it writes
a right one in every case, and the cases are closed, then by induction over the characters of a line
all of them are right, however long it is. docs/PROOF.md has the statement, and what is not proved.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from calcgpt.base.errors import ConfigError
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.cases import stored
from calcgpt.inference.cases.decoder import network_of
from calcgpt.inference.cases.memory import Entries, Memory
from calcgpt.inference.cases.network import unsupported_part
from datagen.cases import Cases, all_cases
from datagen.invariants import check
from datagen.layout import new_layout
from datagen.layout_check import LayoutError, small_shapes
from datagen.layout_check import check as check_layouts
from datagen.slots import Kind

LAYOUTS_AT_ONCE = 500
AT_ONCE = 128  # cases: larger products take several threads, which wait for each other
#: What leads from one case to a whole line, for all numbers: a name of tests/unit/datagen/
#: test_theorems.py, where Z3 or a test on both sides of each boundary holds it, and a statement.
THEOREMS = (
    ("sum_row", "if each column of a sum is right, so is the row"),
    ("sum_sign", "the top digit of a sum is 9 if and only if the sum is below 0"),
    ("magnitude", "below a top digit 9, the row is the ten's complement"),
    ("product_row", "if each column is right, a row is the row above plus a digit times A"),
    ("remainder_row", "if each column is right, a row is the row above less a digit times B"),
    ("quotient_digit", "a digit that leaves less than B at the corners does so between them"),
    ("leading_digits", "the next leading digits are between those of the corners"),
    ("long_division", "digits, quotient and remainder so far are those of the whole division"),
    ("carried_digits", "a row of digits with carries has the value of the row that it is made of"),
    ("rounding", "a rounding of digits is the nearest number, of two the even one"),
    ("quotient_rounding", "so is a rounding of a signed digit and a remainder"),
    ("nan", "the answer is nan if and only if a number is divided by 0"),
    ("dropped", "a result of which no digit is kept is less than half of the last place"),
    ("answer", "zeros that are not copied change no value, and 0 has no sign"),
)
#: What the proof takes for granted.
TRUSTED = (
    "Python, NumPy and this machine",
    "that datagen/schema.py states where the rules read, and that layouts are compared with it",
    "the statements above, which tests hold and this command does not try",
)


class Part(NamedTuple):
    """A part of the proof: what was found, in words and in numbers, or the first counterexample."""

    name: str
    finding: str
    counterexample: str | None = None
    numbers: Mapping[str, float] = MappingProxyType({})


def prove(checkpoint: Checkpoint, progress: Callable[[int], object]) -> Iterator[Part]:
    """Yields the parts of the proof, up to the first that fails. `progress` gets the numbers of
    layouts and cases that were tried, `n_steps` in all.

    If all hold, what the engine wrote is kept, and later starts of the engine write the very same.
    Raises ConfigError for a model whose next character is not a function of the case.
    """
    if field := unsupported_part(checkpoint.recipe.model):
        raise ConfigError(
            f"{checkpoint.name} cannot be proved: its characters depend on all before ({field})"
        )
    network = network_of(checkpoint)
    vocabulary = checkpoint.tokenizer.require_characters().vocabulary
    for part in (*_cases(), _layouts(progress)):
        yield part
        if part.counterexample:
            return
    cases = all_cases()
    # Filled anew, whatever is kept of an earlier proof.
    memory = Memory(network, vocabulary, Entries.of(cases.kinds, cases.sources))
    last = _model(memory, vocabulary, cases, progress)
    yield last
    if last.counterexample is None:
        stored.save(memory.entries, stored.path_of(checkpoint))


def _cases() -> Iterator[Part]:
    """Yields the parts that do not depend on the model, up to the first that fails."""
    try:
        cases = all_cases()
    except ArithmeticError as error:
        yield Part("cases", "", str(error))
        return
    finding = f"{len(cases.kinds):,}; whatever is right in them, only these follow, at any length"
    yield Part("cases", finding, numbers={"cases": len(cases.kinds)})
    n_case = 0
    for result in check(cases):
        if result.failing is not None:
            yield Part("rules", "", f"its equation fails: {describe(cases, result.failing)}")
            return
        n_case += result.n
    finding = f"what is right keeps the invariant of its row, in {n_case:,} cases"
    yield Part("rules", finding, numbers={"rules": n_case})


def n_steps() -> int:
    """Returns how many layouts and cases `prove` tries."""
    return len(list(small_shapes())) + len(all_cases().kinds)


def _layouts(progress: Callable[[int], object]) -> Part:
    """Returns the part about layouts: all small ones are checked here, others before their use."""
    shapes = list(small_shapes())
    for start in range(0, len(shapes), LAYOUTS_AT_ONCE):
        part = shapes[start : start + LAYOUTS_AT_ONCE]
        try:
            check_layouts(part, [new_layout(shape) for shape in part])
        except LayoutError as error:
            return Part("layouts", "", str(error))
        progress(len(part))
    finding = f"each slot reads what its rule says, in {len(shapes):,} shapes; others are checked"
    return Part("layouts", f"{finding} when they are used", numbers={"layouts": len(shapes)})


def _model(
    memory: Memory, vocabulary: str, cases: Cases, progress: Callable[[int], object]
) -> Part:
    """Returns the part about the model: the network fills its memory, which must be right."""
    tokens = np.zeros(256, np.int64)
    tokens[np.frombuffer(vocabulary.encode("ascii"), np.uint8)] = np.arange(len(vocabulary))
    least = np.inf
    for start in range(0, len(cases.kinds), AT_ONCE):
        kinds_N, sources_NR, right_N2 = (column[start : start + AT_ONCE] for column in cases)
        logits_NV = memory.fill(kinds_N, sources_NR)
        written_N = memory.entries.characters[memory.entries.indices(kinds_N, sources_NR)]
        is_right_NV = np.zeros(logits_NV.shape, bool)
        np.put_along_axis(is_right_NV, tokens[right_N2], True, axis=1)
        best_right_N = np.where(is_right_NV, logits_NV, -np.inf).max(axis=1)
        margins_N = best_right_N - np.where(is_right_NV, -np.inf, logits_NV).max(axis=1)
        # Not `margin <= 0`: a margin may be NaN.
        wrong_N = ~(margins_N > 0) | ~(written_N[:, None] == right_N2).any(axis=1)
        if wrong_N.any():
            first = int(wrong_N.argmax())
            case = describe(cases, start + first)
            return Part("model", "", f"it writes {chr(written_N[first])!r}: {case}")
        least = min(least, float(margins_N.min()))
        progress(len(kinds_N))
    n_both = int((cases.right[:, 0] != cases.right[:, 1]).sum())
    return Part(
        "model",
        f"right in all; the best wrong character is {least:.2f} logits behind, or more "
        f"({n_both:,} cases have two right ones)",
        numbers={"two_right": n_both, "least_margin": least},
    )


def describe(cases: Cases, number: int) -> str:
    """Returns a case in words."""
    read = [f"{chr(code)!r}" if code else "nothing" for code in cases.sources[number].tolist()]
    while read and read[-1] == "nothing":
        del read[-1]
    right = " or ".join(f"{character!r}" for character in sorted({*map(chr, cases.right[number])}))
    name = Kind(int(cases.kinds[number])).name.lower().replace("_", " ")
    return f"{name}, from {', '.join(read) or 'nothing'}; right is {right}"
