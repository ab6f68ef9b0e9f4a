"""Where a model looks when it writes the first wrong character of a long problem
(research/LENGTH.md, "What it needs").

    python -m research.attention --checkpoint RUN [--operations +-*] [--trained N] [--digits N]
        [--n N] [--context N] [--json FILE]

A rule of the worked steps reads a few earlier characters, its sources. For each source, the head
that attends to it most in problems of `--trained` digits is its head. In problems of `--digits`
digits, the model reads the right work up to its first wrong character. The table has the mean
weight of the head on the source: in problems of the trained length, at right characters of long
ones, and at the first wrong characters. It also says where the head looks instead: the offset, in
rows and columns, of the character with the largest weight.

Shapes: L layers, H heads, T tokens.

Ran at commit 212e06a and before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.measure import environment, parser, positive, run, write
from calcgpt.checkpoint import Checkpoint
from calcgpt.data.tokenizer import CharTokenizer
from calcgpt.errors import ConfigError
from calcgpt.lab.inspection import attention_weights
from calcgpt.model.gpt import GPT
from calcgpt.registry import resolve
from calcgpt.tables import text_table
from datagen import work
from datagen.arithmetic import ProblemArray
from datagen.layout import layout, shape_of
from datagen.operations import OPERATIONS
from datagen.progress import progress_bar
from research.circuits import attention_to_sources, sources_of
from tools.exactness import name_of
from tools.lengths import problems_of, with_config

Floats = NDArray[np.float64]
SHOWN = 3  # most frequent offsets
CODES = {operation: code for code, operation in enumerate(OPERATIONS)}


@dataclass
class HeadAttention:
    """What the head of a source does at some characters."""

    weights: list[float] = field(default_factory=list)  # on the source
    offsets: Counter[str] = field(default_factory=Counter)  # of the largest weight

    def record(self) -> dict[str, Any]:
        """Returns n, the mean weight, and the most frequent offsets with their shares."""
        n = len(self.weights)
        offsets = {name: count / n for name, count in self.offsets.most_common(SHOWN)}
        return {"n": n, "weight": float(np.mean(self.weights)) if n else None, "offsets": offsets}


def lines_of(code: int, digits: int, n: int) -> list[bytes]:
    """Returns n problems with two operands of that many digits, with their work."""
    problems = ProblemArray.from_problems(problems_of(code, digits, digits, n))
    return work.render_lines(problems).splitlines()


def first_wrong(model: GPT, tokenizer: CharTokenizer, line: bytes) -> int | None:
    """Returns the position of the first character of the work or answer that is not the most
    probable one after those before it, or None."""
    ids_T = torch.from_numpy(tokenizer.encode(line.decode()).astype(np.int64))
    with torch.inference_mode():
        chosen_T = model(ids_T[None, :-1])[0].argmax(dim=-1)
    start = line.index(b"=") + 1
    wrong = (chosen_T[start - 1 :] != ids_T[start:]).nonzero()
    return start + int(wrong[0]) if len(wrong) else None


def weights_of(model: GPT, tokenizer: CharTokenizer, line: bytes) -> Floats:
    """Returns the attention weights of all heads, (L, H, T, T)."""
    ids_T = torch.from_numpy(tokenizer.encode(line.decode()).astype(np.int64))
    return attention_weights(model, ids_T).double().numpy()


def heads_of_sources(
    model: GPT, tokenizer: CharTokenizer, lines: list[bytes]
) -> dict[str, tuple[int, int]]:
    """Returns the layer and head that attend most to each source."""
    heads = {}
    for name, mean_LH in attention_to_sources(model, tokenizer, lines).items():
        layer, head = np.unravel_index(mean_LH.argmax(), mean_LH.shape)
        heads[name] = (int(layer), int(head))
    return heads


def attention_of_heads(
    line: bytes, weights_LHTT: Floats, heads: dict[str, tuple[int, int]], end: int
) -> Iterator[tuple[str, int, float, str]]:
    """Yields for each source of the characters up to `end`: its name, the position of the
    character, the weight of its head on it, and the offset of the head's largest weight."""
    shape = shape_of(line[: line.index(b"=") + 1].decode())
    assert shape
    slots = layout(shape).slots
    for name, position, source in sources_of(line):
        if position > end or name not in heads:
            continue
        layer, head = heads[name]
        weight_T = weights_LHTT[layer, head, position - 1, :position]
        seen, wanted = slots[int(weight_T.argmax())], slots[source]
        rows, columns = seen.row - wanted.row, seen.column - wanted.column
        offset = f"{rows:+d} rows, {columns:+d} columns" if seen.kind else "the question"
        yield name, position, float(weight_T[source]), offset


def measure(
    model: GPT, tokenizer: CharTokenizer, code: int, trained: int, digits: int, n: int
) -> dict[str, Any]:
    """Returns the heads of the sources of one operation, and what they do in short and long
    problems."""
    short, long = lines_of(code, trained, n), lines_of(code, digits, n)
    heads = heads_of_sources(model, tokenizer, short)
    kinds = ("trained length", "right", "wrong")
    attention = {name: {kind: HeadAttention() for kind in kinds} for name in heads}
    n_wrong = 0
    with progress_bar(2 * n, desc=OPERATIONS[code].name) as bar:
        for index, line in enumerate([*short, *long]):
            is_short = index < len(short)
            wrong = None if is_short else first_wrong(model, tokenizer, line)
            n_wrong += wrong is not None
            end = len(line) if wrong is None else wrong
            weights_LHTT = weights_of(model, tokenizer, line)
            for name, position, weight, offset in attention_of_heads(
                line, weights_LHTT, heads, end
            ):
                kind = "trained length" if is_short else "wrong" if position == wrong else "right"
                attention[name][kind].weights.append(weight)
                attention[name][kind].offsets[offset] += 1
            bar.update(1)
    return {
        "n": n,
        "wrong": n_wrong,
        "sources": {
            name: {"head": f"{layer}.{head}"}
            | {kind: attention[name][kind].record() for kind in kinds}
            for name, (layer, head) in heads.items()
        },
    }


def table(result: dict[str, Any]) -> str:
    """Returns a table of the sources that first wrong characters have."""
    rows = []
    for name, source in result["sources"].items():
        wrong = source["wrong"]
        if not wrong["n"]:
            continue
        weights = [source[kind]["weight"] for kind in ("trained length", "right", "wrong")]
        offset, share = next(iter(wrong["offsets"].items()))
        cells = [f"{weight:.2f}" if weight is not None else "" for weight in weights]
        rows.append([name, source["head"], *cells, wrong["n"], f"{offset} ({share:.2f})"])
    header = ["rule: source", "head", "trained length", "right", "wrong", "n wrong", "looks at"]
    return text_table(header, rows)


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--checkpoint", default="best")
    options.add_argument("--operations", default="+-*", help="some of + - *")
    options.add_argument("--trained", type=positive, default=7, help="digits of the short problems")
    options.add_argument("--digits", type=positive, default=14, help="digits of the long ones")
    options.add_argument("--n", type=positive, default=50, help="problems of each length")
    options.add_argument("--context", type=positive, help="longest line that is read")
    arguments = options.parse_args()
    if not set(arguments.operations) <= set("+-*"):
        options.error("--operations are some of + - *")  # several quotient digits may be right
    if arguments.trained == arguments.digits:
        options.error("--trained and --digits must differ")
    torch.set_num_threads(arguments.threads)
    checkpoint = Checkpoint.load(resolve(arguments.checkpoint))
    model = with_config(checkpoint, "torch", block_size=arguments.context)
    if not isinstance(model, GPT) or not checkpoint.recipe.has_work:
        raise ConfigError(f"{checkpoint.name} is not a transformer that writes worked steps")
    tokenizer = checkpoint.tokenizer.require_characters()
    results: dict[str, Any] = {}
    for operation in arguments.operations:
        results[operation] = measure(
            model, tokenizer, CODES[operation], arguments.trained, arguments.digits, arguments.n
        )
        print(f"{operation}: {results[operation]['wrong']} of {arguments.n} wrong")
        print(table(results[operation]), flush=True)
    write(
        arguments.json,
        {
            "checkpoint": name_of(arguments.checkpoint),
            "trained": arguments.trained,
            "digits": arguments.digits,
            "environment": environment(torch.device("cpu")),
            "results": results,
        },
    )


if __name__ == "__main__":
    run(main)
