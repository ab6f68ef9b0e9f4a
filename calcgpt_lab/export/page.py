"""The example that the page plays when it opens.

example.json has the name of the `model`, and the `events` of the service's stream for one
operation, each with `name` and `data`.
"""

import json
from pathlib import Path
from typing import Any

from calcgpt.base.files import new_folder, write_text
from calcgpt.checkpoint import Checkpoint, check_replaceable
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.decoding import Floats
from calcgpt.inference.engines import load_decoder
from calcgpt.inference.results import Calculation, Span

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


def _calculate(checkpoint: Checkpoint) -> tuple[Calculation, Floats]:
    """Returns the answer, and the probability of each character that the model wrote."""
    _, decoder = load_decoder(checkpoint, live=True)
    calculator = Calculator(checkpoint, decoder)
    computation = calculator.begin(EXPRESSION)
    [question] = computation.questions()
    written = decoder.begin(question.prompt).whole()
    computation.answer(question.node, *written)
    return computation.calculation(), written.probabilities


def _events(calculation: Calculation, probabilities: Floats) -> list[tuple[str, dict[str, Any]]]:
    """Returns the events of the service's stream."""
    [node] = calculation.nodes
    span = {name: getattr(node, name) for name in Span.model_fields}
    question = {"problem": node.problem, "prompt": node.prompt}
    about = {"expression": calculation.expression, "model": calculation.model}
    written = zip(node.output or "", probabilities.tolist(), strict=True)
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
