"""The page reads expressions as Python does, and its addresses keep their meaning."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from calcgpt.errors import ExpressionError, ExpressionErrorKind
from calcgpt.inference.expression import parse
from calcgpt.inference.expression_tree import show

if TYPE_CHECKING:
    from playwright.sync_api import Page

PARTS = [
    *(
        "1",
        "25",
        "0.5",
        "12",
        "000",
        "100",
        "0",
        "1,234",
        "12,34,567",
        "15%",
        "e",
        "$",
        "½",
        "√",
        "k",
    ),
    *("+", "-", "*", "/", "^", "×", "**", "·", "x", " times ", " of ", "minus ", "plus", " mod "),
    *("%", "percent", " per cent ", "²", "+15%", "-10%", "✖", "➖", "➗", "—", "٣", "٫", "'"),
    *("(", ")", "[", "]", "{", "}", ",", "=", "?", " ", "\u00a0", "\ufe0f", "\u200e"),
]
READ = """async (texts) => {
    const { parse } = await import("/static/engine/expression.js");
    const { show } = await import("/static/engine/expression_tree.js");
    const { DEFAULT_STATE, formatHash, parseHash } = await import("/static/address.js");
    const read = (text) => {
        try {
            const tree = parse(text);
            return [show(tree), tree.start, tree.end];
        } catch ({ kind, message, position, end }) {
            return [kind, message, position, end];
        }
    };
    const linked = (question) => parseHash(formatHash({ ...DEFAULT_STATE, question }))?.question;
    return texts.map((text) => [read(text), read(linked(text) ?? "")[0]]);
}"""


def read(text: str) -> list[Any]:
    try:
        tree = parse(text)
    except ExpressionError as error:
        return [error.kind, error.reason, error.position, error.end]
    return [show(tree), tree.start, tree.end]


def test_the_page_reads_what_python_reads_and_its_links_mean_the_same(plain_page: Page) -> None:
    draw = random.Random(0)
    texts = ["".join(draw.choices(PARTS, k=draw.randint(1, 8))) for _ in range(20_000)]
    understood = 0
    for text, (result, linked) in zip(texts, plain_page.evaluate(READ, texts), strict=True):
        expected = read(text)
        understood += len(expected) == 3
        # Of two errors, the page may name an invalid exponent, although another one is before it.
        if len(expected) == 3 or result[0] != ExpressionErrorKind.OUT_OF_RANGE:
            assert result == expected, text
        if len(expected) == 3:
            assert linked == expected[0], text
    assert understood > 500
