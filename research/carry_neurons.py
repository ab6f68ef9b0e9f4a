"""Neurons that represent a carry: the feed-forward neuron that best separates columns of a sum into
which a carry goes from columns without one, and the same for borrows in a difference. That a carry
can be read from a neuron does not show that the model needs it: ablation does.

Shapes: L layers, F neurons of a layer, N positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from calcgpt.lab.inspection import blocks_of
from calcgpt.model.gpt import GPT
from tools.cases.rules import LOCAL_STEPS, OFFSETS, Ints

Floats = NDArray[np.float64]

CARRIES = {"+": "carry", "-": "borrow"}
CLEAR_AUC = 0.99  # a neuron clearly shows a carry if its AUC is at least this or at most 1 - this
_SUM = next(step for step in LOCAL_STEPS if step.name == "digit of a sum")


@dataclass(frozen=True)
class Neuron:
    """A neuron, and how well it separates a carry from no carry, on lines that did not choose it.

    The area under the ROC curve is the probability that its value is `direction` (higher or lower)
    with a carry than without one. `values` are those with a carry and those without one.
    """

    layer: int
    index: int
    direction: Literal["higher", "lower"]
    auc: dict[str, float]  # by operation: of a carry in sums, "+", or a borrow in differences, "-"
    values: dict[str, tuple[Floats, Floats]]  # by operation

    def __str__(self) -> str:
        return f"neuron {self.index} of layer {self.layer}"


@dataclass(frozen=True)
class CarryPositions:
    """Positions at which a digit of a sum or a difference has a column before it."""

    carried: NDArray[np.bool_]  # (N,)
    is_sum: NDArray[np.bool_]  # (N,)
    neurons: list[NDArray[np.float32]]  # of each layer, (N, F)

    def rows_of(self, op: str) -> NDArray[np.bool_]:
        """Returns which positions are those of sums, "+", or of differences, "-"; (N,)."""
        return self.is_sum if op == "+" else ~self.is_sum

    @classmethod
    def merge(cls, parts: Sequence[CarryPositions]) -> CarryPositions:
        """Returns all positions of several readings."""
        return cls(
            np.concatenate([part.carried for part in parts]),
            np.concatenate([part.is_sum for part in parts]),
            [np.concatenate(layer) for layer in zip(*(p.neurons for p in parts), strict=True)],
        )


def carry_positions(cases: Ints, neurons: Iterable[NDArray[np.float32]]) -> CarryPositions:
    """Returns the positions among those with these cases, (N,), that have a column before them.
    `neurons` are the values of each layer at all of them, (N, F)."""
    first = OFFSETS[_SUM.name]
    positions = np.flatnonzero((cases >= first) & (cases < first + _SUM.size))
    _, op, _, _, a, b, total = np.unravel_index(cases[positions] - first, _SUM.shape)
    has_column = a < 10  # 10 stands for none
    direction = np.where(op == 0, 1, -1)
    carry = direction * (total - a - direction * b) % 10  # into the column before
    carried = np.where(op == 0, a + b + carry > 9, a - b - carry < 0)
    chosen = positions[has_column]
    return CarryPositions(
        carried[has_column], (op == 0)[has_column], [layer_NF[chosen] for layer_NF in neurons]
    )


def _auc_of_all(positions: CarryPositions, op: str) -> Floats:
    """Returns how well each neuron separates a carry in an operation from no carry, (L, F)."""
    rows = positions.rows_of(op)
    return np.stack([auc(layer[rows], positions.carried[rows]) for layer in positions.neurons])


def best_neuron(selection: CarryPositions, held_out: CarryPositions, op: str) -> Neuron:
    """Returns the neuron that best separates a carry in an operation from no carry."""
    auc_LF = _auc_of_all(selection, op)
    layer, index = map(int, divmod(np.abs(auc_LF - 0.5).argmax(), auc_LF.shape[1]))
    higher = auc_LF[layer, index] > 0.5
    areas: dict[str, float] = {}
    values: dict[str, tuple[Floats, Floats]] = {}
    for other in CARRIES:
        rows = held_out.rows_of(other)
        carried = held_out.carried[rows]
        neuron_N = held_out.neurons[layer][rows, index].astype(np.float64)
        area = float(auc(neuron_N[:, None], carried)[0])
        areas[other] = area if higher else 1 - area
        values[other] = neuron_N[carried], neuron_N[~carried]
    return Neuron(layer, index, "higher" if higher else "lower", areas, values)


def clear_neurons(positions: CarryPositions) -> list[tuple[int, int]]:
    """Returns the layer and index of all neurons that clearly tell a carry or a borrow."""
    is_clear_LF = np.any(
        [abs(_auc_of_all(positions, op) - 0.5) >= CLEAR_AUC - 0.5 for op in CARRIES], axis=0
    )
    return [(int(layer), int(index)) for layer, index in np.argwhere(is_clear_LF)]


@contextmanager
def ablated_neurons(
    model: GPT, neurons: Sequence[tuple[int, int]], positions: CarryPositions
) -> Iterator[None]:
    """Replaces the values of some neurons, by layer and index, by their means over `positions`
    within the block."""

    def replace(layer: int, indices: list[int]) -> Any:
        mean_F = torch.from_numpy(positions.neurons[layer][:, indices].mean(axis=0))

        def hook(module: nn.Module, args: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
            values_BTF = args[0].clone()
            values_BTF[..., indices] = mean_F.to(values_BTF)
            return (values_BTF,)

        return blocks_of(model)[layer].ff.down.register_forward_pre_hook(hook)

    with ExitStack() as stack:
        for layer in {layer for layer, _ in neurons}:
            indices = [index for neuron_layer, index in neurons if neuron_layer == layer]
            handle = replace(layer, indices)
            stack.callback(handle.remove)
        yield


def auc(values_NF: NDArray[Any], positive_N: NDArray[np.bool_]) -> Floats:
    """Returns the area under the ROC curve of each column, (F,): the share of the pairs of a
    positive and a negative row in which the positive one is higher; a tie counts as half of a pair
    (Mann & Whitney 1947). Returns nan if there are no positive or no negative rows."""
    n_positive = int(positive_N.sum())
    n_negative = len(positive_N) - n_positive
    if not (n_positive and n_negative):
        return np.full(values_NF.shape[1], np.nan)
    ranks = np.arange(1, len(positive_N) + 1)[:, None]

    def n_pairs(rows: NDArray[np.intp]) -> Floats:
        """Returns the number of such pairs, (F,). Of equal values, the later one of `rows` counts
        as higher."""
        order = values_NF[rows].argsort(axis=0, kind="stable")
        total_F: Floats = (ranks * positive_N[rows][order]).sum(axis=0)
        return total_F - n_positive * (n_positive + 1) / 2

    positive_last = np.argsort(positive_N, kind="stable")
    total_F = n_pairs(positive_last) + n_pairs(positive_last[::-1])
    return total_F / (2 * n_positive * n_negative)
