"""The page's coordinates of characters against Python's."""

import random

import numpy as np

from datagen.coordinates import coordinates
from datagen.layout import shape_of, work_length
from datagen.notation import WORK_ALPHABET
from datagen.work import render
from tools.node import in_node

COORDINATES = """async (lines) => {
    const { CoordinateReader } = await import("/static/engine/coordinates.js");
    const reader = new CoordinateReader();
    return lines.map((line) => reader.read(line, 0));
}"""
PLACES = ["", *(str(places) for places in range(31) if places != 2)]
LENGTHS = """async (prompts) => {
    const { shapeOf, workLength } = await import("/static/engine/layout.js");
    return prompts.map((prompt) => workLength(shapeOf(prompt)));
}"""


def operand(rng: random.Random) -> str:
    """A field with up to 14 or 40 digits, many of which are 0, and up to 30 places."""
    count = rng.randint(1, rng.choice([14, 14, 40]))
    digits = "".join(rng.choice(["0", rng.choice("0123456789")]) for _ in range(count))
    point = rng.randint(max(0, count - 30), count)
    number = f"{digits[:point] or '0'}.{digits[point:]}" if point < count else digits
    sign = rng.choice(["", "", "-"])
    return sign + number.rjust(10 - len(sign), "0")


def drawn_prompts(n: int) -> list[str]:
    """Prompts of all operations and places. A few divide by 0."""
    rng = random.Random(5)
    return [
        f"${rng.choice(PLACES)}({operand(rng)}{'+-*/'[index % 4]}{operand(rng)})="
        for index in range(n)
    ]


def damaged(line: str, rng: random.Random) -> str:
    """The line with a few other characters in its work, cut or too long."""
    characters = list(line)
    for _ in range(3):
        at = rng.randrange(line.index("=") + 1, len(line))
        characters[at] = rng.choice(WORK_ALPHABET)
    return "".join(characters)[: rng.randint(1, 2 * len(line))] + rng.choice(["", "0$1"])


def test_coordinates_are_those_of_python() -> None:
    rng, prompts = random.Random(3), drawn_prompts(400)
    words = np.random.default_rng(2).integers(2**63, size=len(prompts), dtype=np.uint64)
    lines = [line.decode() for line in render([p.encode() for p in prompts], words)]
    lines += [damaged(line, rng) for line in lines]
    results = in_node(COORDINATES, lines)
    for line, result in zip(lines, results, strict=True):
        assert result == coordinates(line.encode()).tolist(), line
    lengths = [work_length(shape) for shape in map(shape_of, prompts) if shape]
    assert in_node(LENGTHS, prompts) == lengths
