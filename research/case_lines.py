"""Lines of worked steps of all kinds, for `research.circuits`: problems that have many cases of
rules (`tools.cases.rules`)."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from datagen.distributions import distribution
from datagen.notation import WIDTH, render_prompt
from datagen.sampling import bit_generator
from datagen.work import render

# Where problems come from, in turns: distributions, and shapes that have many cases.
SOURCES = (
    *("wide-12", "tricky-12", "hard", "everyday", "wide-12", "tricky-5", "hard", "blog"),
    *("$(111111111111+111111111111)=", "$(111111111111-111111111111)="),
    *("$(111111111111+111111111111)=", "$(111111111111-111111111111)="),
    *("$(1111111.11111*1111111.11111)=", "$(1111111111.11/111111111111)="),
    *("$3(0000111.11*0000111.11)=", "$(0000001111/0000000111)=", "$1(011.111111/0000000111)="),
    *("$1(0000111.11+0000111.11)=", "$1(0000111.11-0000111.11)="),
)
STREAM = 20_000  # of the seed: no data set, no training and no test set uses it
BLOCK = 500  # problems that are drawn together
VARIANTS = 10  # of a distribution's problem: the same shape with other digits


def draw_lines(seed: int, block: int) -> list[bytes]:
    """Returns a block of problems with their work.

    In every other round of the SOURCES, a quarter of the quotient digits are the second nearest. A
    model may write such digits, and the steps after them must be right too.
    """
    round_, source = divmod(block, len(SOURCES))
    rng = Generator(bit_generator(seed, STREAM + 1, block))
    name = SOURCES[source]
    if name.startswith("$"):
        prompts = [_variant(name, rng) for _ in range(BLOCK)]
    else:
        bits = bit_generator(seed, STREAM, block)
        [problems] = distribution(name)(bits, BLOCK // VARIANTS)
        prompts = [
            _variant(prompt, rng) if index else prompt
            for prompt in map(render_prompt, problems.to_problems())
            for index in range(VARIANTS)
        ]
    words = rng.integers(2**64, size=len(prompts), dtype=np.uint64) if round_ % 2 else None
    return render([prompt.encode("ascii") for prompt in prompts], words)


def _variant(prompt: str, rng: Generator) -> str:
    """Returns a prompt of the same shape: zeros at the ends of an operand stay, other digits are
    drawn. A quarter of the operands have only nines and zeros between their ends."""
    text = np.frombuffer(prompt.encode("ascii"), np.uint8).copy()
    op = next(i for i, c in enumerate(prompt) if i >= prompt.index("(") + WIDTH and c in "+-*/")
    for part in (slice(prompt.index("(") + 1, op), slice(op + 1, len(prompt) - 2)):
        operand = text[part]
        digits = np.flatnonzero((operand > ord("0")) & (operand <= ord("9")))
        if not len(digits):
            continue
        inner = np.arange(digits[0], digits[-1])
        inner = inner[operand[inner] != ord(".")]
        drawn = rng.integers(10, size=len(inner))
        operand[inner] = ord("0") + (drawn // 5 * 9 if rng.integers(4) == 0 else drawn)
        operand[digits[[0, -1]]] = ord("1") + rng.integers(9, size=2)
    return text.tobytes().decode("ascii")
