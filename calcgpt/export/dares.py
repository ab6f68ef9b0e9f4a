"""Pages for the previews of links: one for each goal of a model, with a title and a picture of its
own, because no server sees the hash of an address. Each leads to the page, with its hash.
"""

import re
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from calcgpt.base.files import write_bytes, write_text
from calcgpt.switches import Goal
from datagen.operations import OPERATIONS

DARE = "dare-"  # begins the names of the files, in the folder `static` of a page
WIDTH, HEIGHT = 1200, 630
SCALE = 26  # pixels of a dot
COLOURS = bytes.fromhex("f6f5f11c1d24a8231c")  # ground, problem, answer
# Rows of five dots, each the bits of a number.
GLYPHS = {
    "0": (14, 17, 19, 21, 25, 17, 14),
    "1": (4, 12, 4, 4, 4, 4, 14),
    "2": (14, 17, 1, 2, 4, 8, 31),
    "3": (31, 2, 4, 2, 1, 17, 14),
    "4": (2, 6, 10, 18, 31, 2, 2),
    "5": (31, 16, 30, 1, 1, 17, 14),
    "6": (6, 8, 16, 30, 17, 17, 14),
    "7": (31, 1, 2, 4, 8, 8, 8),
    "8": (14, 17, 17, 14, 17, 17, 14),
    "9": (14, 17, 17, 15, 1, 2, 12),
    ".": (0, 0, 0, 0, 0, 12, 12),
    "=": (0, 0, 31, 0, 31, 0, 0),
    "+": (0, 4, 4, 31, 4, 4, 0),
    "-": (0, 0, 0, 31, 0, 0, 0),
    "*": (0, 17, 10, 4, 10, 17, 0),
    "/": (0, 4, 0, 31, 0, 4, 0),
}


def write_dares(static: Path, template: str, goals: Iterable[Goal]) -> list[Path]:
    """Writes a page and a picture for each goal, and returns the pages. `template` is that for all
    other links."""
    pages = []
    for number, goal in enumerate(goals):
        pages.append(static / f"{DARE}{number}.html")
        picture = pages[-1].with_suffix(".png")
        write_text(pages[-1], _page(template, goal, picture.name))
        write_bytes(picture, draw(goal.problem, goal.answer))
    return pages


def _page(template: str, goal: Goal, picture: str) -> str:
    problem = goal.problem
    for operation in OPERATIONS:
        problem = problem.replace(operation.sign, f" {operation.symbol} ")
    answer = goal.answer.replace("-", "\N{MINUS SIGN}")
    title = f"I removed one part of a neural network. Now it says {problem} = {answer}"
    html = re.sub(r"<title>[^<]*", f"<title>{title}", template)
    for name, value in (("title", title), ("image", picture), ("image:alt", title)):
        html = re.sub(rf'("og:{name}" content=")[^"]*', rf"\g<1>{value}", html)
    return html


def draw(problem: str, answer: str) -> bytes:
    """Returns a PNG with a problem and, in red, its answer."""
    text = f"{problem}={answer}"
    rows = np.array([GLYPHS[character] for character in text])  # (characters, 7)
    dots = (rows[..., None] >> np.arange(5, -1, -1)) & 1  # (characters, 7, 6)
    dots[len(text) - len(answer) :] *= 2
    line = dots.transpose(1, 0, 2).reshape(7, -1)
    scale = min(SCALE, WIDTH // (line.shape[1] + 2))
    large = line.repeat(scale, axis=0).repeat(scale, axis=1)
    image = np.zeros((HEIGHT, 1 + WIDTH), np.uint8)  # each row begins with its filter: none
    top, left = (HEIGHT - large.shape[0]) // 2, 1 + (WIDTH - large.shape[1]) // 2
    image[top : top + large.shape[0], left : left + large.shape[1]] = large
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 3, 0, 0, 0)  # 8 bits, of a palette
    parts = ((b"IHDR", header), (b"PLTE", COLOURS), (b"IDAT", zlib.compress(image.tobytes(), 9)))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in (*parts, (b"IEND", b"")))


def _chunk(kind: bytes, content: bytes) -> bytes:
    checked = kind + content
    return struct.pack(">I", len(content)) + checked + struct.pack(">I", zlib.crc32(checked))
