"""What the page has recorded: an example that it plays when it opens, and a training.

`export_example` writes example.json: the name of the `model`, and the `events` of the service's
stream for one operation, each with `name` and `data`.

`export_snapshots` writes what the page shows of a training:

NAME-of-a-snapshot.safetensors   its weights
learning.json                    the manifest of the model, the steps of these files, and in how
                                 many of all cases they are wrong
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from calcgpt.base.errors import ConfigError
from calcgpt.base.files import new_folder, write_bytes, write_json, write_text
from calcgpt.checkpoint import Checkpoint, check_replaceable
from calcgpt.inference.browser import manifest_of
from calcgpt.inference.calculator import Calculator
from calcgpt.inference.cases.memory import AT_ONCE
from calcgpt.inference.cases.network import Network
from calcgpt.inference.decoding import Floats
from calcgpt.inference.engines import load_decoder
from calcgpt.inference.results import Calculation, Span
from datagen.cases import all_cases

FILE = "example.json"
EXPRESSION = "471*29.9"
DIGITS = 6  # of probabilities
LEARNING = "learning.json"
MAX_BYTES = 2_000_000  # of all snapshots


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


def export_snapshots(run: Path, out: Path, force: bool) -> str:
    """Writes the checkpoints in the folder `run`.

    Raises ConfigError if there are fewer than two, if they are not of one shape, if their files
    have more than MAX_BYTES, or if the engine in the browser cannot run them; CheckpointError if
    a checkpoint is damaged or `out` may not be replaced.
    """
    check_replaceable(out, force, LEARNING)
    folders = sorted(path.parent for path in run.glob("[!.]*/config.json"))
    loaded = [Checkpoint.load(folder) for folder in folders]
    for folder, checkpoint in zip(folders, loaded, strict=True):
        if "step" not in checkpoint.metrics:
            raise ConfigError(f"{folder / 'metrics.json'}: 'step' is missing")
    loaded.sort(key=lambda checkpoint: int(checkpoint.metrics["step"]))
    if len(loaded) < 2:
        raise ConfigError(f"fewer than two checkpoints in {run}")
    if len({checkpoint.recipe.model.model_dump_json() for checkpoint in loaded}) > 1:
        raise ConfigError(f"the checkpoints in {run} are of several shapes")
    manifest = manifest_of(loaded[-1])
    files = {f"{one.name}.safetensors": save(one.stored_arrays) for one in loaded}
    if (size := sum(map(len, files.values()))) > MAX_BYTES:
        raise ConfigError(f"the snapshots have {size:,} bytes; at most {MAX_BYTES:,} are allowed")
    snapshots = []
    for checkpoint, file in zip(loaded, files, strict=True):
        step = int(checkpoint.metrics["step"])
        snapshots.append({"step": step, "wrong": _n_wrong(checkpoint), "file": file})
    with new_folder(out) as staging:
        for file, content in files.items():
            write_bytes(staging / file, content)
        record = {"manifest": manifest, "cases": len(all_cases().kinds)}
        write_json(staging / LEARNING, record | {"snapshots": snapshots})
    return f"{len(loaded)} snapshots of a training run"


def _n_wrong(checkpoint: Checkpoint) -> int:
    """Returns in how many of all cases a model is wrong."""
    vocabulary = checkpoint.tokenizer.require_characters().vocabulary
    codes = np.frombuffer(vocabulary.encode("ascii"), np.uint8)
    tokens, cases, n_wrong = np.full(2**8, -1), all_cases(), 0
    tokens[codes] = np.arange(len(codes))
    network = Network(checkpoint.recipe.model, len(codes), checkpoint.arrays)
    for start in range(0, len(cases.kinds), AT_ONCE):
        kinds_N, sources_NR, right_N2 = (column[start : start + AT_ONCE] for column in cases)
        written_N = codes[network(kinds_N, tokens[sources_NR]).argmax(axis=1)]
        n_wrong += int((written_N[:, None] != right_N2).all(axis=1).sum())
    return n_wrong
