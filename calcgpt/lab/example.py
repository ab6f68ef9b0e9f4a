"""The example of the page: what a model writes for one operation, and what it looked at.

The page plays it as soon as it opens, before it has loaded a model. example.json has

    model, weights   the name of the model, and the SHA-256 of its weights
    events           those of the service's stream, each `name` and `data`
    looks            one for each written character, in the form of the page's engine
                     (`generate.js`):
                     attention    of each head, layer by layer: positions, each with its weight in
                                  thousandths
                     candidates   the most probable characters, each with its probability
                     lens         the most probable character after the embedding and each layer,
                                  with its probability
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors.numpy import save

from calcgpt.checkpoint import Checkpoint, check_replaceable
from calcgpt.errors import ConfigError
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.generate import generate
from calcgpt.inference.results import Calculation, Span
from calcgpt.lab.inspection import Transformer, attention_weights, layer_logits
from calcgpt.model.gpt import GPT
from datagen.files import new_folder, write_text

FILE = "example.json"
EXPRESSION = "471*29.9"
CANDIDATES = 5
MIN_WEIGHT = 10  # thousandths; smaller weights are left out
DIGITS = 6  # of probabilities


def export_example(checkpoint: Checkpoint, out: Path, force: bool) -> str:
    """Writes the folder `out` with the example of a checkpoint. Returns a description.

    Raises ConfigError if the model has no layers or its attention inserts tokens, ExpressionError
    if it does not take the expression, and CheckpointError if `out` may not be replaced.
    """
    check_replaceable(out, force, FILE)
    if not isinstance(checkpoint.model, Transformer):
        raise ConfigError(f"{checkpoint.name} has no layers to look into")
    if isinstance(checkpoint.model, GPT) and checkpoint.model.scheme.n_inserted_ids:
        attention = checkpoint.recipe.model.attention
        raise ConfigError(f"{checkpoint.name}: attention {attention!r} inserts tokens")
    calculation, probabilities = _calculate(checkpoint)
    events = _events(calculation, probabilities)
    [node] = calculation.nodes
    example = {
        "model": checkpoint.name,
        "weights": hashlib.sha256(save(checkpoint.arrays)).hexdigest(),
        "events": [{"name": name, "data": data} for name, data in events],
        "looks": _looks(checkpoint, node.prompt or "", node.output or ""),
    }
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


def _looks(checkpoint: Checkpoint, prompt: str, output: str) -> list[dict[str, Any]]:
    """Returns the attention, the candidates and the logit lens for each character of the output."""
    model, tokenizer = checkpoint.model, checkpoint.tokenizer
    assert isinstance(model, Transformer)
    tokens_T = torch.from_numpy(tokenizer.encode(f"{prompt}{output}"[:-1]).astype("int64"))
    weights_LHTT = attention_weights(model, tokens_T)
    probs_MTV = layer_logits(model, tokens_T).softmax(dim=-1)  # M: the embedding, each layer

    def most_probable(probs_V: torch.Tensor, n: int) -> list[list[str | float]]:
        best = probs_V.topk(n)
        texts = tokenizer.decode(best.indices.tolist())
        return [[t, round(p, DIGITS)] for t, p in zip(texts, best.values.tolist(), strict=True)]

    return [
        {
            "attention": [_sparse(row_T) for row_T in weights_LHTT[:, :, position].flatten(0, 1)],
            "candidates": most_probable(probs_MTV[-1, position], CANDIDATES),
            "lens": [most_probable(probs_V, 1)[0] for probs_V in probs_MTV[:, position]],
        }
        for position in range(len(prompt) - 1, len(tokens_T))
    ]


def _sparse(weights_T: torch.Tensor) -> list[int]:
    """Returns the positions and weights of a row, weights in thousandths."""
    thousandths = (1000 * weights_T).round().int().tolist()
    pairs = [
        (position, weight) for position, weight in enumerate(thousandths) if weight >= MIN_WEIGHT
    ]
    return [number for pair in pairs for number in pair]
