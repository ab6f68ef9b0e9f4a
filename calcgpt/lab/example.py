"""The example of the page: what a model writes for one operation.

The page plays it as soon as it opens, before it has loaded a model. example.json has the name of
the `model`, and the `events` of the service's stream, each with `name` and `data`.
"""

import json
from pathlib import Path
from typing import Any

import torch

from calcgpt.checkpoint import Checkpoint, check_replaceable
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.generate import generate
from calcgpt.inference.results import Calculation, Span
from datagen.files import new_folder, write_text

FILE = "example.json"
EXPRESSION = "471*29.9"
DIGITS = 6  # of probabilities


def export_example(checkpoint: Checkpoint, out: Path, force: bool) -> str:
    """Writes the folder `out` with the example of a checkpoint. Returns a description.

    Raises ExpressionError if the model does not take the expression, and CheckpointError if `out`
    may not be replaced.
    """
    check_replaceable(out, force, FILE)
    calculation, probabilities = _calculate(checkpoint)
    events = [{"name": name, "data": data} for name, data in _events(calculation, probabilities)]
    example = {"model": checkpoint.name, "events": events}
    with new_folder(out) as staging:
        write_text(staging / FILE, json.dumps(example, separators=(",", ":")) + "\n")
    return f"what it writes for {EXPRESSION}, which the page plays when it opens"


def _calculate(checkpoint: Checkpoint) -> tuple[Calculation, list[float]]:
    """Returns the answer, and the probability of each character that the model wrote."""
    calculator = Calculator(checkpoint)
    computation = calculator.begin(EXPRESSION)
    [question] = computation.questions()
    tokenizer = checkpoint.tokenizer
    prompt = torch.from_numpy(tokenizer.encode(question.prompt).astype("int64"))
    [completion] = generate(checkpoint.model, prompt[None].numpy(), calculator.stop)
    output, probabilities = tokenizer.decode(completion.ids), completion.probabilities
    computation.answer(question.node, output, probabilities)
    return computation.calculation(), probabilities


def _events(
    calculation: Calculation, probabilities: list[float]
) -> list[tuple[str, dict[str, Any]]]:
    """Returns the events of the service's stream."""
    [node] = calculation.nodes
    span = {name: getattr(node, name) for name in Span.model_fields}
    question = {"problem": node.problem, "prompt": node.prompt}
    about = {"expression": calculation.expression, "model": calculation.model}
    written = zip(node.output or "", probabilities, strict=True)
    return [
        ("start", {**about, "places": calculation.places, "nodes": [span]}),
        ("node", {"node": 0, **question}),
        *(
            ("token", {"node": 0, "text": text, "probability": round(probability, DIGITS)})
            for text, probability in written
        ),
        ("answer", {"node": 0, **node.model_dump()}),
        ("result", calculation.model_dump()),
    ]
