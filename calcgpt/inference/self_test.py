"""The self-test of a calculator: a few problems, before a model answers users.

It detects weights that are intact but wrong, and an engine that computes wrongly on this processor.
"""

import numpy as np

from calcgpt.checkpoint import Checkpoint
from calcgpt.errors import CheckpointError, ExpressionError
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.decoding import Decoder
from datagen.arithmetic import USUAL_PLACES

PROMPT = "$(0000000001+0000000001)="
SELF_TEST = {"+": "12.5+3", "-": "2-136.25", "*": "88*7", "/": "7/8"}


def self_test(calculator: Calculator) -> None:
    """Raises CheckpointError if the model's probabilities are not finite, or if a model that was
    right in every case of its rules is wrong in one of SELF_TEST."""
    checkpoint = calculator.checkpoint
    check_finite(checkpoint, calculator.decoder)
    data = checkpoint.recipe.data
    taught = data.operations if data and checkpoint.is_certain else {}
    for problem in (problem for op, problem in SELF_TEST.items() if taught.get(op)):
        try:
            is_right = calculator.calculate(problem, USUAL_PLACES).verified
        except ExpressionError:  # its work does not fit into the context of a small model
            continue
        if not is_right:
            raise CheckpointError(
                f"{checkpoint.name}: its answer to {problem} is wrong, and by its metrics it was "
                "right in every case"
            )


def check_finite(checkpoint: Checkpoint, decoder: Decoder) -> None:
    """Raises CheckpointError if the model's probabilities are not finite."""
    is_notation = checkpoint.tokenizer.is_notation()
    writing = decoder.begin(PROMPT if is_notation else checkpoint.tokenizer.decode([0]))
    writing.write(1)
    if not np.isfinite(writing.written().probabilities).all():
        raise CheckpointError(f"{checkpoint.name}: its logits are not finite")
