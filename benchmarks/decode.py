"""Characters per second of the calculator: look-ups, and the network itself.

    python -m benchmarks.decode [--runs N] [--json FILE]

*Look-ups* write a product of 200 by 200 digits from a memory that the network has filled, by the
loop in plain Python and by the same loop, compiled by Numba. *Live* asks the network about each
character. *The network* is asked about cases, 128 at a time. *First answers* begin with an empty
memory: the network makes all that they need. Times are those of the processor, of one thread.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from benchmarks.measure import alternate, environment, parser, run, show, summary, write
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.cases import decoder as module
from calcgpt.inference.cases import stored
from calcgpt.inference.cases.decoder import CaseDecoder
from calcgpt.inference.decoding import WHOLE
from calcgpt.inference.engines import cases_decoder
from calcgpt.registry import resolve
from calcgpt_lab.tables import text_table
from datagen.cases import all_cases

SEED, DIGITS, LIVE_DIGITS = 0, 200, 12
AT_ONCE, N_CASES = 128, 32 * 128
FIRST = ("12.5+3", "88*7", "471/299", "sqrt(7)+sin(3)")


def product(digits: int) -> str:
    """Returns the prompt of a product of random numbers."""
    random = np.random.default_rng(SEED)
    a, b = ("".join(map(str, random.integers(1, 10, digits))) for _ in "ab")
    return f"$({a:0>10}*{b:0>10})="


def characters(decoder: CaseDecoder, prompt: str, compiled: bool) -> float:
    """Returns how many characters are written per second."""
    with patch.object(module, "COMPILED_FROM", 0 if compiled else np.inf):
        writing = decoder.begin(prompt)
        start = time.process_time()
        writing.write(WHOLE)
        return len(writing.written().text) / (time.process_time() - start)


def cases(decoder: CaseDecoder) -> float:
    """Returns about how many cases the network is asked per second."""
    kinds, sources, _ = all_cases()
    rows = np.random.default_rng(SEED).choice(len(kinds), N_CASES, replace=False)
    start = time.process_time()
    for batch in rows.reshape(-1, AT_ONCE):
        decoder.memory.ask(kinds[batch], sources[batch])
    return N_CASES / (time.process_time() - start)


def first_milliseconds(checkpoint: Checkpoint, expression: str) -> float:
    """Returns what an answer takes with an empty memory."""
    with patch.object(stored, "load", lambda path: None):
        calculator = Calculator(checkpoint, cases_decoder(checkpoint))
    start = time.process_time()
    calculator(expression)
    return 1000 * (time.process_time() - start)


def main() -> None:
    """Runs the benchmark and prints its tables."""
    arguments = parser("Time the calculator's characters.", runs=5).parse_args()
    torch.set_num_threads(1)
    checkpoint = Checkpoint.load(resolve("calculator"))
    decoder, live = (cases_decoder(checkpoint, live=is_live) for is_live in (False, True))
    assert isinstance(decoder, CaseDecoder)
    assert isinstance(live, CaseDecoder)
    prompt, short = product(DIGITS), product(LIVE_DIGITS)
    ways: dict[str, Callable[[], float]] = {
        "look-ups, plain": partial(characters, decoder, prompt, False),
        "look-ups, compiled": partial(characters, decoder, prompt, True),
        "live": partial(characters, live, short, False),
        "the network, in cases": partial(cases, decoder),
    }
    for way in ways.values():
        way()  # fills the memory, and compiles
    rates = summary(alternate(ways, arguments.runs), "look-ups, plain")
    first = {
        text: float(
            np.median([first_milliseconds(checkpoint, text) for _ in range(arguments.runs)])
        )
        for text in FIRST
    }
    show("the calculator", rates, "characters")
    print(text_table(["first answer", "ms"], [[text, f"{ms:.1f}"] for text, ms in first.items()]))
    results: dict[str, Any] = {"rates": rates, "first_ms": first}
    machine = environment(torch.device("cpu"), "numba", "numpy")
    write(arguments.json, {"environment": machine, "runs": arguments.runs, **results})


if __name__ == "__main__":
    run(main)
