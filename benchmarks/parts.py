"""Where the processor's time of an answer goes, measured in one process (`benchmarks.serve`)."""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

from api.groups import MAX_TURN, MIN_TURN, TURN
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.continuous import ContinuousBatch
from calcgpt.inference.engines import load_decoder
from calcgpt.inference.expression import parse
from calcgpt.inference.generate import Completion
from calcgpt.inference.native.decoder import NativeCache, NativeDecoder

WARM_UP = 500  # answers


def cpu_of_parts(folder: Path, texts: Sequence[str]) -> dict[str, float]:
    """Returns the microseconds of CPU time that each part of an answer takes, without the service
    around it. Empty if the native engine does not run the model."""
    checkpoint = Checkpoint.load(folder)
    _, decoder = load_decoder(checkpoint, threads=1)
    if not isinstance(decoder, NativeDecoder):
        return {}
    calculator = Calculator(checkpoint, decoder)
    seconds = defaultdict[str, float](float)

    def timed(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*arguments: Any) -> Any:
            start = time.thread_time()
            result = function(*arguments)
            seconds[part] += time.thread_time() - start
            return result

        return call

    with (
        patch.object(decoder, "_decode", timed("kernels", decoder._decode)),
        patch.object(NativeCache, "locate", timed("coordinates", NativeCache.locate)),
    ):
        _answer_all(calculator, texts[:WARM_UP], timed)
        seconds.clear()
        _answer_all(calculator, texts[WARM_UP:], timed)
    seconds["planning"] -= seconds["parsing"]
    seconds["decoder"] -= seconds["kernels"] + seconds["coordinates"]
    n = len(texts) - WARM_UP
    return {part: round(1e6 * total / n, 1) for part, total in seconds.items()}


def _answer_all(calculator: Calculator, texts: Sequence[str], timed: Callable[..., Any]) -> None:
    tokenizer = calculator.checkpoint.tokenizer
    begin, check = timed("planning", calculator.begin), timed("checking", _checked)
    encode, decode = timed("tokens", tokenizer.encode), timed("tokens", tokenizer.decode)
    for text in texts:
        timed("parsing", parse)(text)
    computations = [begin(text) for text in texts]
    asked = [(c, question) for c in computations for question in c.questions()]
    prompts = [encode(question.prompt).tolist() for _, question in asked]
    completions = timed("decoder", _written)(calculator, prompts)
    for (computation, question), completion in zip(asked, completions, strict=True):
        output = decode(completion.ids)
        calculation = check(computation, question.node, output, completion.probabilities)
        timed("JSON", calculation.model_dump_json)()


def _checked(computation: Any, node: int, output: str, probabilities: list[float]) -> Any:
    computation.answer(node, output, probabilities)
    return computation.calculation()


def _written(calculator: Calculator, prompts: Sequence[list[int]]) -> list[Completion]:
    """Returns what the model writes after each prompt, as a pool of the service lets it write."""
    writer = calculator.decoder
    assert isinstance(writer, NativeDecoder)
    batch, completions = ContinuousBatch(writer, calculator.stop), dict[int, Completion]()
    waiting = list(prompts)
    while waiting or batch.rows:
        n_new = writer.at_once - len(batch.rows)
        batch.add(waiting[:n_new])
        del waiting[:n_new]
        length = min(MAX_TURN, max(MIN_TURN, TURN // max(1, len(batch.rows))))
        completions |= batch.run(length).finished
    return [completions[row] for row in range(len(prompts))]
