"""How many cases a model has wrong if its matrices are rounded to fewer bits than 8, as it stands.

python -m research.case_bits calculator --json research/results/cases/bits.json
"""

from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from calcgpt.base.files import write_json
from calcgpt.checkpoint import Checkpoint
from calcgpt.inference.cases.decoder import network_of
from calcgpt.inference.cases.network import Network
from calcgpt.registry import resolve
from datagen.cases import all_cases

AT_ONCE = 128


def rounded(matrix: np.ndarray, bits: int) -> np.ndarray:
    scale = np.abs(matrix).max(axis=1, keepdims=True) / (2 ** (bits - 1) - 1)
    scale = np.maximum(scale, np.finfo(np.float32).tiny)
    return (np.rint(matrix / scale) * scale).astype(np.float32)


def count(network: Network, vocabulary: str) -> tuple[int, float]:
    """Returns how many cases are wrong, and the least margin."""
    tokens = np.full(256, -1)
    tokens[np.frombuffer(vocabulary.encode(), np.uint8)] = np.arange(len(vocabulary))
    cases, margins = all_cases(), []
    for start in range(0, len(cases.kinds), AT_ONCE):
        kinds, sources, right = (column[start : start + AT_ONCE] for column in cases)
        logits = network(kinds, tokens[sources])
        is_right = np.zeros(logits.shape, bool)
        np.put_along_axis(is_right, tokens[right], True, axis=1)
        best = np.where(is_right, logits, -np.inf).max(axis=1)
        margins.append(best - np.where(is_right, -np.inf, logits).max(axis=1))
    margins = np.concatenate(margins)
    return int((~(margins > 0)).sum()), float(margins.min())


@click.command()
@click.argument("name")
@click.option("--json", "file", required=True)
def main(name: str, file: str) -> None:
    checkpoint = Checkpoint.load(resolve(name))
    vocabulary, rows = checkpoint.tokenizer.require_characters().vocabulary, []
    for bits in (8, 7, 6, 5, 4):
        arrays = {
            key: rounded(array, bits) if array.ndim == 2 else array
            for key, array in checkpoint.arrays.items()
        }
        network = network_of(replace(checkpoint, arrays=arrays))
        wrong, margin = count(network, vocabulary)
        rows.append({"bits": bits, "wrong": wrong, "least_margin": margin})
        print(rows[-1], flush=True)
    write_json(Path(file), {"checkpoint": checkpoint.name, "rows": rows})


if __name__ == "__main__":
    main()
